//! Evictions: what the controller sends, and how it takes refusals.

use http::{Response, StatusCode};
use parking_lot::Mutex;
use pillion_kubernetes::lookup::ObjectRef;
use pillion_plan::{Step, Subresource};
use rstest::rstest;

use super::*;

/// The UID of the workload of the Pods.
const WORKLOAD: &str = "rs-1";

/// A refusal: HTTP status, reason of the cause, and message.
type Refusal = (u16, &'static str, &'static str);

/// What the API server answers instead of the simulation.
#[derive(Clone, Default)]
struct Script {
    /// The record of SidecarSets that dry runs return; `None` refuses them.
    injects: Arc<Mutex<Option<String>>>,
    /// The refusal of evictions, by name of the Pod: code, cause and message.
    refuses: Arc<Mutex<BTreeMap<String, Refusal>>>,
    /// The dry runs and evictions, as they were sent.
    sent: Arc<Mutex<Vec<String>>>,
}

impl Script {
    fn injecting(set: &SidecarSet) -> Self {
        let script = Self::default();
        *script.injects.lock() = Some(json!({"logs": {"hash": set.hash()}}).to_string());
        script
    }

    fn refuse(&self, pod: &str, refusal: Refusal) {
        self.refuses.lock().insert(pod.to_owned(), refusal);
    }

    fn sent(&self) -> Vec<String> {
        std::mem::take(&mut *self.sent.lock())
    }

    /// Returns the answer to a request; `None` leaves it to the simulation.
    fn answer(&self, path: &str, is_dry_run: bool, body: &[u8]) -> Option<(u16, Value)> {
        let refusal = |code: u16, cause: &str, message: &str| {
            let causes = if cause.is_empty() { json!([]) } else { json!([{"reason": cause, "message": message}]) };
            let details = json!({"causes": causes});
            (
                code,
                json!({"kind": "Status", "status": "Failure", "code": code, "message": message, "reason": "", "details": details}),
            )
        };
        if is_dry_run {
            let mut pod: Value = serde_json::from_slice(body).expect("a Pod");
            self.sent.lock().push(format!("try {}", pod["metadata"]["generateName"]));
            return Some(match &*self.injects.lock() {
                None => refusal(403, "", "pods is forbidden"),
                Some(record) => {
                    pod["metadata"]["annotations"] = json!({
                        "kruise.io/sidecarset-hash": record, "kruise.io/sidecarset-injected-list": "logs",
                    });
                    (201, pod)
                }
            });
        }
        let pod = path.strip_suffix("/eviction")?.rsplit('/').next()?;
        self.sent.lock().push(format!("evict {pod}"));
        let (code, cause, message) = *self.refuses.lock().get(pod)?;
        Some(refusal(code, cause, message))
    }

    fn client(self, client: Client) -> Client {
        let service = service_fn(move |request: Request<Body>| {
            let (script, client) = (self.clone(), client.clone());
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect_bytes().await?;
                let is_dry_run = parts.uri.query().is_some_and(|query| query.contains("dryRun=All"));
                if let Some((code, answer)) = script.answer(parts.uri.path(), is_dry_run, &bytes) {
                    let mut response = Response::new(Body::from(answer.to_string().into_bytes()));
                    *response.status_mut() = StatusCode::from_u16(code)?;
                    return Ok(response);
                }
                client.send(Request::from_parts(parts, Body::from(bytes))).await.map_err(tower::BoxError::from)
            }
        });
        Client::new(service, "default")
    }
}

fn recreating(strategy: &Value) -> SidecarSet {
    let mut set = set("agent:v2", strategy);
    set.as_value_mut()["metadata"]["annotations"]["pillion.dev/upgrade-policy"] = json!("Recreate");
    set
}

fn workload(replicas: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "shop", "uid": WORKLOAD},
        "spec": {
            "replicas": replicas,
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}},
        },
    })
}

/// Returns a Pod of the workload, of whose SidecarSet more than images has changed.
fn outdated(set: &SidecarSet, number: usize) -> Value {
    let mut pod = pod(set, number);
    pod["metadata"]["annotations"]["kruise.io/sidecarset-hash-without-image"] = json!(r#"{"logs":{"hash":"x"}}"#);
    pod["metadata"]["creationTimestamp"] = json!(Timestamp(NOW.0 - 1000).to_string());
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": WORKLOAD, "controller": true}]);
    pod
}

async fn running(set: &SidecarSet, pods: Vec<Value>, script: &Script) -> Running {
    let count = pods.len();
    let manifests = [set.as_value().clone(), workload(count)].into_iter().chain(pods).collect();
    let script = script.clone();
    Running::through(&json!({}), manifests, |client| script.client(client)).await
}

fn evicted(shown: &[String]) -> Vec<&str> {
    shown.iter().filter_map(|line| line.strip_prefix("evict ")).collect()
}

#[tokio::test]
async fn roll66_a_pod_is_evicted_after_the_record_was_written_and_the_next_one_waits() {
    let set = recreating(&json!({}));
    let script = Script::injecting(&set);
    let mut running = running(&set, vec![outdated(&set, 0), outdated(&set, 1)], &script).await;
    let writes = running.writes().await;
    let revision = writes.first().map(|write| write.object.name.clone()).unwrap_or_default();
    let expected = [
        format!("ControllerRevision {revision}"),
        "SidecarSet logs status".to_owned(),
        format!("ControllerRevision {revision}"),
        "Pod web-0 eviction".to_owned(),
        "Event".to_owned(),
    ];
    assert_eq!(shown(&writes), expected);
    assert_eq!(readiness(&writes), ready("RollingOut", "False"));
    let stored = writes[2].after.as_ref().expect("the revision");
    let record: Value =
        serde_json::from_str(stored["metadata"]["annotations"]["pillion.dev/evicted"].as_str().expect("a record"))
            .expect("JSON");
    assert_eq!(record[WORKLOAD]["pods"], 2);
    assert_eq!(script.sent(), ["try \"web-\"", "evict web-0"]);
    running.writes().await;
    assert_eq!(script.sent(), [""; 0], "the evicted Pod counts as unavailable, and the answer is remembered");
}

#[tokio::test]
async fn roll66_a_controller_that_starts_anew_knows_the_evictions_before() {
    let set = recreating(&json!({}));
    let script = Script::injecting(&set);
    let mut first = running(&set, vec![outdated(&set, 0), outdated(&set, 1)], &script).await;
    let writes = first.writes().await;
    let mut revision = Value::clone(writes[2].after.as_ref().expect("the revision"));
    revision["revision"] = json!(1);
    script.sent();
    for (replicas, evicted_now) in [(2, vec![]), (1, vec!["web-1"])] {
        // The evicted Pod is gone, and its replacement is not there.
        let manifests = vec![set.as_value().clone(), workload(replicas), revision.clone(), outdated(&set, 1)];
        let again = script.clone();
        let mut second = Running::through(&json!({}), manifests, |client| again.client(client)).await;
        second.writes().await;
        assert_eq!(evicted(&script.sent()), evicted_now, "the workload wants {replicas} Pods");
    }
}

#[tokio::test]
async fn roll66_a_budget_is_waited_for_and_other_pods_go_on() {
    let set = recreating(&json!({}));
    let script = Script::injecting(&set);
    script.refuse(
        "web-0",
        (429, "DisruptionBudget", "The disruption budget web needs 2 healthy pods and has 2 currently"),
    );
    let mut running = running(&set, vec![outdated(&set, 0), outdated(&set, 1)], &script).await;
    assert_eq!(running.reconcile().await, Ok(Done::LookAgain(Duration::from_secs(2))));
    assert_eq!(evicted(&script.sent()), ["web-0"]);
    running.after(2).await.expect("it is reconciled");
    assert_eq!(evicted(&script.sent()), ["web-1"], "it does not wait for the budget of another Pod");
    running.after(2).await.expect("it is reconciled");
    assert_eq!(evicted(&script.sent()), [""; 0]);
}

#[tokio::test]
async fn roll66_people_see_what_a_rollout_waits_for_and_it_tries_again() {
    let set = recreating(&json!({}));
    let script = Script::injecting(&set);
    script.refuse(
        "web-0",
        (429, "DisruptionBudget", "The disruption budget web needs 1 healthy pods and has 1 currently"),
    );
    let mut running = running(&set, vec![outdated(&set, 0)], &script).await;
    running.reconcile().await.expect("it is reconciled");
    running.simulation.take_writes();
    script.sent();
    running.after(2).await.expect("it is reconciled");
    let writes = running.simulation.take_writes();
    assert_eq!(readiness(&writes), ready("HeldByBudget", "False"));
    assert_eq!(script.sent(), [""; 0]);
    script.refuses.lock().clear();
    running.after(3).await.expect("it is reconciled");
    assert_eq!(script.sent(), ["evict web-0"], "five seconds have passed");
}

/// A Pod of the namespace becomes ready while an eviction waits for its third try, 20 s long.
#[tokio::test]
async fn roll66_a_pod_that_becomes_ready_ends_the_wait() {
    let set = recreating(&json!({"maxUnavailable": 2}));
    let script = Script::injecting(&set);
    script.refuse(
        "web-0",
        (429, "DisruptionBudget", "The disruption budget web needs 2 healthy pods and has 2 currently"),
    );
    let mut starting = pod(&set, 1);
    starting["metadata"]["ownerReferences"] = outdated(&set, 1)["metadata"]["ownerReferences"].clone();
    starting["metadata"]["annotations"]["kruise.io/sidecarset-hash"] =
        json!({"logs": {"hash": set.hash()}}).to_string().into();
    starting["status"]["conditions"][0]["status"] = json!("False");
    starting["status"]["containerStatuses"][1]["ready"] = json!(false);
    let mut running = running(&set, vec![outdated(&set, 0), starting], &script).await;
    for _ in 0..3 {
        running.reconcile().await.expect("it is reconciled");
    }
    script.sent();
    running.after(3).await.expect("it is reconciled");
    assert_eq!(evicted(&script.sent()), [""; 0], "it waits");
    let step = Step::JsonPatch {
        object: ObjectRef {
            api_version: "v1",
            kind: "Pod",
            namespace: Some("shop".to_owned()),
            name: "web-1".to_owned(),
        },
        subresource: Some(Subresource::Status),
        operations: vec![
            json!({"op": "replace", "path": "/status/conditions/0/status", "value": "True"}),
            json!({"op": "replace", "path": "/status/containerStatuses/1/ready", "value": true}),
        ],
    };
    running.controller.effects.carry_out(&step, "it is ready").await.expect("it is ready");
    running.after(1).await.expect("it is reconciled");
    running.after(1).await.expect("it is reconciled");
    assert_eq!(evicted(&script.sent()), ["web-0"], "the budget may allow it now");
}

#[tokio::test]
async fn roll66_several_budgets_are_told_once_and_not_tried_again_soon() {
    let set = recreating(&json!({}));
    let script = Script::injecting(&set);
    let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    script.refuse("web-0", (500, "", message));
    let mut running = running(&set, vec![outdated(&set, 0)], &script).await;
    let events = |writes: &[Write]| shown(writes).iter().filter(|line| *line == "Event").count();
    assert_eq!(events(&running.writes().await), 1);
    let writes = running.writes().await;
    assert_eq!(readiness(&writes), ready("SeveralBudgets", "False"));
    for _ in 0..10 {
        assert_eq!(events(&running.writes().await), 0);
    }
    assert_eq!(evicted(&script.sent()), ["web-0"]);
    running.writes().await;
    running.writes().await;
    assert_eq!(evicted(&script.sent()), ["web-0"], "two minutes have passed");
}

#[rstest]
#[case::refused(None, "is not known")]
#[case::another_version(Some(r#"{"logs":{"hash":"older"}}"#), "get another version of the SidecarSet")]
#[tokio::test]
async fn roll67_nothing_is_evicted_if_new_pods_do_not_get_the_version(
    #[case] injects: Option<&str>,
    #[case] why: &str,
) {
    let set = recreating(&json!({"maxUnavailable": "100%"}));
    let script = Script::default();
    *script.injects.lock() = injects.map(str::to_owned);
    let mut running = running(&set, vec![outdated(&set, 0), outdated(&set, 1)], &script).await;
    let first = running.writes().await;
    let told_events = shown(&first).iter().filter(|line| *line == "Event").count();
    assert_eq!(told_events, usize::from(injects.is_none()), "a refusal is shown");
    running.after(1).await.expect("it is reconciled");
    let writes = running.simulation.take_writes();
    assert_eq!(readiness(&writes), ready("NotUpgradablePods", "False"));
    let status =
        writes.iter().rev().find(|write| write.object.kind == "SidecarSet").and_then(|write| write.after.clone());
    let status = status.expect("a status").to_string();
    assert!(status.contains(why), "{status}");
    running.after(0).await.expect("it is reconciled");
    assert_eq!(script.sent(), ["try \"web-\""], "one dry run for all Pods of the workload");
}

#[tokio::test]
async fn roll67_a_dry_run_that_failed_is_tried_again_and_the_rollout_goes_on() {
    let set = recreating(&json!({}));
    let script = Script::injecting(&set);
    let record = script.injects.lock().take();
    let mut running = running(&set, vec![outdated(&set, 0)], &script).await;
    let mut events = 0;
    for (after, again) in [(PAUSE, 2), (2, 4), (4, 8)] {
        assert_eq!(running.after(after).await, Ok(Done::LookAgain(Duration::from_secs(again))));
        let writes = running.simulation.take_writes();
        let is_told = |write: &&Write| write.after.as_ref().is_some_and(|after| after["reason"] == "DryRunFailed");
        events += writes.iter().filter(is_told).count();
        if after != PAUSE {
            assert_eq!(running.after(0).await.map(|_| ()), Ok(()), "nothing is asked before its time");
        }
        assert_eq!(script.sent(), ["try \"web-\""]);
    }
    assert_eq!(events, 1, "people are told once");
    *script.injects.lock() = record;
    running.after(8).await.expect("it is reconciled");
    assert_eq!(script.sent(), ["try \"web-\"", "evict web-0"]);
}

#[tokio::test]
async fn roll67_pods_without_the_sidecar_are_evicted_and_do_not_count() {
    let set = recreating(&json!({}));
    let script = Script::injecting(&set);
    let mut lacking = outdated(&set, 0);
    lacking["metadata"]["annotations"] = json!({});
    let mut bare = lacking.clone();
    bare["metadata"]["name"] = json!("bare");
    bare["metadata"]["ownerReferences"] = json!([]);
    let mut other = lacking.clone();
    other["metadata"]["name"] = json!("other");
    other["metadata"]["labels"] = json!({"app": "other"});
    let mut running = running(&set, vec![lacking, bare, other], &script).await;
    let writes = running.writes().await;
    assert_eq!(script.sent(), ["try \"web-\"", "evict web-0"]);
    assert_eq!(readiness(&writes), ready("RollingOut", "False"));
    let status = writes.iter().find(|write| write.object.kind == "SidecarSet").and_then(|write| write.after.clone());
    assert_eq!(status.expect("a status")["status"]["matchedPods"], 0);
}

#[tokio::test]
async fn roll68_a_new_pod_without_the_version_stalls_the_sidecar_set() {
    let set = recreating(&json!({"maxUnavailable": "100%"}));
    let script = Script::injecting(&set);
    let mut new = outdated(&set, 1);
    new["metadata"]["creationTimestamp"] = json!(Timestamp(NOW.0 + 100).to_string());
    let mut running = running(&set, vec![outdated(&set, 0), new], &script).await;
    let writes = running.writes().await;
    assert_eq!(readiness(&writes), ready("NewPodsLackVersion", "False"));
    assert_eq!(evicted(&script.sent()), [""; 0]);
}

#[tokio::test]
async fn roll68_nothing_is_evicted_right_after_a_change() {
    let set = recreating(&json!({}));
    let script = Script::injecting(&set);
    let mut running = running(&set, vec![outdated(&set, 0)], &script).await;
    assert_eq!(running.after(3).await, Ok(Done::LookAgain(Duration::from_secs(7))));
    assert_eq!(script.sent(), [""; 0]);
    running.after(7).await.expect("it is reconciled");
    assert_eq!(evicted(&script.sent()), ["web-0"]);
}

#[tokio::test]
async fn roll66_an_eviction_without_an_answer_counts_and_is_tried_first() {
    let set = recreating(&json!({}));
    let script = Script::injecting(&set);
    script.refuse("web-0", (500, "", "etcd is not there"));
    let mut running = running(&set, vec![outdated(&set, 0), outdated(&set, 1)], &script).await;
    let failure = running.reconcile().await.expect_err("the eviction failed");
    assert!(failure.text.contains("could not evict Pod \"shop/web-0\""), "{failure}");
    script.refuses.lock().clear();
    script.sent();
    running.reconcile().await.expect("it is reconciled");
    assert_eq!(evicted(&script.sent()), ["web-0"]);
}

#[tokio::test]
async fn roll66_without_the_right_to_evict_people_are_told() {
    let set = recreating(&json!({}));
    let script = Script::injecting(&set);
    script.refuse("web-0", (403, "", "pods \"web-0\" is forbidden: cannot create resource pods/eviction"));
    let mut running = running(&set, vec![outdated(&set, 0)], &script).await;
    let failure = running.reconcile().await.expect_err("it is forbidden");
    assert!(failure.text.contains("pods/eviction"), "{failure}");
}

#[tokio::test]
async fn roll60_without_the_policy_nothing_of_this_is_sent() {
    let set = set("agent:v2", &json!({}));
    let script = Script::injecting(&set);
    let mut running = running(&set, vec![outdated(&set, 0)], &script).await;
    let writes = running.writes().await;
    assert_eq!(readiness(&writes), ready("NotUpgradablePods", "False"));
    assert_eq!(script.sent(), [""; 0]);
    let revision = writes.first().and_then(|write| write.after.clone()).expect("a revision").to_string();
    assert!(!revision.contains("pillion.dev/"), "{revision}");
    assert!(running.controller.lacking.lock().is_empty());
}
