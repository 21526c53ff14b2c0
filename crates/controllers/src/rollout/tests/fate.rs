//! Rollouts that fail, and the way back (ROLL-61, ROLL-62).

use http::{Response, StatusCode};
use pillion_kubernetes::lookup::ObjectRef;
use pillion_plan::condition::reference;
use pillion_plan::failure::{FAILED, Failed};
use pillion_plan::{Step, Subresource};
use pillion_rollout::pod::ContainerStatus;
use pillion_runtime::store::Projection as _;

use super::*;

const DEADLINE: i64 = 60;

fn annotated(image: &str, strategy: &Value, annotations: &Value) -> SidecarSet {
    let mut set = set(image, strategy);
    set.as_value_mut()["metadata"]["annotations"]["pillion.dev/progress-deadline"] = json!("1m");
    json_patch::merge(&mut set.as_value_mut()["metadata"]["annotations"], annotations);
    set
}

/// Returns a Pod that has a version, running and ready.
fn pod_with(set: &SidecarSet, number: usize) -> Value {
    let mut pod = pod(set, number);
    pod["metadata"]["annotations"]["kruise.io/sidecarset-hash"] =
        json!({"logs": {"hash": set.hash()}}).to_string().into();
    let image = set.containers()[0]["image"].clone();
    pod["spec"]["containers"][0]["image"] = image.clone();
    for key in ["image", "imageID"] {
        pod["status"]["containerStatuses"][0][key] = image.clone();
    }
    pod
}

impl Running {
    /// Changes the SidecarSet as its author does.
    async fn edit(&mut self, patch: Value) {
        let object = self.object();
        let uid = json::text(&object, &["metadata", "uid"]).to_owned();
        let step = Step::Patch { object: reference(&object), uid, resource_version: None, patch };
        self.controller.effects.carry_out(&step, "an edit").await.expect("it is edited");
        self.simulation.take_writes();
    }

    async fn release(&mut self, set: &SidecarSet) {
        let object = set.as_value();
        self.edit(json!({"metadata": {"annotations": object["metadata"]["annotations"]}, "spec": object["spec"]}))
            .await;
    }

    fn object(&self) -> Value {
        Value::clone(&self.controller.context.store.sidecar_sets().get("", "logs").expect("the SidecarSet").0)
    }

    fn condition(&self, type_: &str) -> Value {
        let object = self.object();
        let mut conditions = json::items(&object, &["status", "conditions"]).iter();
        conditions.find(|condition| condition["type"] == type_).cloned().unwrap_or_default()
    }

    /// Returns the revisions with their records, ascending.
    fn revisions(&self) -> Vec<(String, Option<Failed>)> {
        let sources = self.controller.sources();
        let stored = sources.revisions.group("logs");
        let ascending = history::ascending("u", stored.iter().map(|revision| &revision.0));
        ascending.iter().map(|revision| (revision.name().to_owned(), Failed::from_revision(&revision.head))).collect()
    }

    /// Restarts the containers whose image has changed, as the kubelet does.
    async fn restart(&mut self, is_ready: bool) {
        for pod in self.controller.pods.group("logs") {
            let pod = &pod.0;
            let is_old = |status: &ContainerStatus| {
                pod.container(&status.name).is_some_and(|(_, container)| container.image != status.image)
            };
            if !pod.state.containers.iter().any(is_old) {
                continue;
            }
            let statuses = pod.containers.iter().map(|container| {
                let (name, image) = (&container.name, &container.image);
                let is_ready = is_ready || name == "main";
                json!({"name": name, "image": image, "imageID": image, "ready": is_ready})
            });
            let ready = json!({"type": "Ready", "status": if is_ready { "True" } else { "False" }});
            // The condition `SidecarSetUpgradable` comes first, if it is there.
            let index = usize::from(pod.state.upgradable.is_some());
            let operations = vec![
                json!({"op": "add", "path": "/status/containerStatuses", "value": statuses.collect::<Vec<_>>()}),
                json!({"op": "replace", "path": format!("/status/conditions/{index}"), "value": ready}),
            ];
            let object = ObjectRef {
                api_version: "v1",
                kind: "Pod",
                namespace: Some(pod.metadata.namespace.clone()),
                name: pod.metadata.name.clone(),
            };
            let step = Step::JsonPatch { object, subresource: Some(Subresource::Status), operations };
            self.controller.effects.carry_out(&step, "a restart").await.expect("it is restarted");
        }
        self.simulation.take_writes();
    }

    /// Reconciles until nothing is written any more, three seconds apart, and returns all writes.
    async fn settle(&mut self) -> Vec<Write> {
        let mut all = Vec::new();
        for _ in 0..10 {
            self.after(3).await.expect("it is reconciled");
            let writes = self.simulation.take_writes();
            if writes.is_empty() {
                return all;
            }
            all.extend(writes);
        }
        panic!("it does not settle: {:?}", shown(&all));
    }
}

fn of_kind<'a>(writes: &'a [Write], kind: &str) -> Vec<&'a Write> {
    writes.iter().filter(|write| write.object.kind == kind).collect()
}

/// Returns the reasons of the Events.
fn events(writes: &[Write]) -> Vec<String> {
    let after = of_kind(writes, "Event").into_iter().filter_map(|write| write.after.as_ref());
    after.map(|event| json::text(event, &["reason"]).to_owned()).collect()
}

#[tokio::test]
async fn roll61_a_rollout_without_progress_fails_when_its_time_is_over() {
    let set = annotated("agent:v2", &json!({"maxUnavailable": 2}), &json!({}));
    let mut running = Running::with_pods(&set, (0..4).map(|number| pod(&set, number)).collect()).await;
    running.settle().await;
    let counting = running.condition("Progressing");
    assert_eq!((&counting["status"], &counting["reason"]), (&json!("True"), &json!("WaitingForProgress")));
    let since = Timestamp::parse(json::text(&counting, &["lastTransitionTime"])).expect("a time").0;
    let passed = running.now.load(Relaxed) - since;
    let left = u64::try_from(DEADLINE - passed - 1).unwrap();
    assert_eq!(running.after(1).await, Ok(Done::LookAgain(Duration::from_secs(left))), "the key is woken in time");
    assert_eq!(running.after(i64::try_from(left).unwrap() - 1).await, Ok(Done::LookAgain(Duration::from_secs(1))));
    assert_eq!(shown(&running.simulation.take_writes()), [""; 0]);

    assert_eq!(running.after(1).await, Ok(Done::LookAgain(Duration::ZERO)));
    let writes = running.simulation.take_writes();
    let [(name, Some(record))] = &running.revisions()[..] else { panic!("{:?}", running.revisions()) };
    assert_eq!(shown(&writes), [format!("ControllerRevision {name}")]);
    assert_eq!((record.reason.as_str(), &record.back), ("ProgressDeadlineExceeded", &None));
    assert_eq!(record.at, Timestamp(since + DEADLINE).to_string());
    assert!(record.message.contains("updated Pods (2)") && record.message.ends_with("for 1m0s"), "{}", record.message);

    assert_eq!(running.after(0).await, Ok(Done::Settled), "nothing is due");
    let writes = running.simulation.take_writes();
    assert_eq!(shown(&writes), ["Event", "SidecarSet logs status"]);
    assert_eq!(
        (events(&writes), readiness(&writes)),
        (vec!["ProgressDeadlineExceeded".to_owned()], ready("ProgressDeadlineExceeded", "False"))
    );
    let failed = running.condition("Progressing");
    assert_eq!((&failed["status"], &failed["lastTransitionTime"]), (&json!("False"), &counting["lastTransitionTime"]));
    let metric = "failed{sidecarset=\"logs\",reason=\"ProgressDeadlineExceeded\"}";
    assert_eq!(value(&metrics(&running), metric), Some("1"));
    assert_eq!(shown(&running.settle().await), [""; 0]);

    // Another process says nothing again, and touches no Pod, even if one is replaced.
    running.state = RolloutState::default();
    running.controller.pods.table().remove_for_test("shop", "web-0", "p0");
    assert_eq!(shown(&running.settle().await), ["SidecarSet logs status"], "the number of Pods");
    assert_eq!(running.condition("Progressing")["lastTransitionTime"], counting["lastTransitionTime"]);

    running.edit(json!({"metadata": {"annotations": {"pillion.dev/restarted-at": "now", "note": "x"}}})).await;
    assert_eq!(shown(&running.settle().await), [""; 0], "these annotations do not count");

    running.edit(json!({"spec": {"updateStrategy": {"maxUnavailable": 3}}})).await;
    let writes = running.settle().await;
    assert_eq!(of_kind(&writes, "Pod").len(), 4, "conditions and images of two Pods: {:?}", shown(&writes));
    assert_eq!(running.revisions()[0].1, None);
    assert_eq!(value(&metrics(&running), metric), None);
    let again = Timestamp::parse(json::text(&running.condition("Progressing"), &["lastTransitionTime"])).unwrap().0;
    assert!(again > since + DEADLINE, "time begins anew");
}

#[tokio::test]
async fn roll61_time_counts_on_after_a_restart() {
    let set = annotated("agent:v2", &json!({}), &json!({}));
    let mut running = Running::with_pods(&set, vec![pod(&set, 0), pod(&set, 1)]).await;
    running.settle().await;
    running.after(DEADLINE / 2).await.expect("it is reconciled");
    running.state = RolloutState::default();
    running.after(DEADLINE / 2).await.expect("it is reconciled");
    assert!(running.revisions()[0].1.is_some());
}

#[tokio::test]
async fn roll61_without_a_deadline_no_condition_is_written_and_nothing_fails() {
    let set = set("agent:v2", &json!({}));
    let mut running = Running::with_pods(&set, vec![pod(&set, 0), pod(&set, 1)]).await;
    running.settle().await;
    assert_eq!(running.condition("Progressing"), Value::Null);
    assert_eq!(running.after(1_000_000).await, Ok(Done::Settled));
    assert_eq!(shown(&running.simulation.take_writes()), [""; 0]);
    running.edit(json!({"metadata": {"annotations": {"pillion.dev/progress-deadline": "1m"}}})).await;
    running.settle().await;
    assert_ne!(running.condition("Progressing"), Value::Null);
    running.edit(json!({"metadata": {"annotations": {"pillion.dev/progress-deadline": "0"}}})).await;
    running.settle().await;
    assert_eq!(running.condition("Progressing"), Value::Null);
}

#[tokio::test]
async fn roll61_where_conditions_are_dropped_time_counts_in_the_process_and_the_failure_stays() {
    let set = annotated("agent:v2", &json!({}), &json!({}));
    let manifests = vec![set.as_value().clone(), pod(&set, 0), pod(&set, 1)];
    let mut running = Running::through(&json!({}), manifests, without_conditions).await;
    running.settle().await;
    assert!(running.state.drops_conditions && running.state.is_drop_told);
    running.after(DEADLINE - 10).await.expect("it is reconciled");
    running.state = RolloutState::default();
    running.after(20).await.expect("it is reconciled");
    assert_eq!(running.revisions()[0].1, None, "the process that counted is gone");
    running.after(DEADLINE).await.expect("it is reconciled");
    assert!(running.revisions()[0].1.is_some());
    assert_eq!(events(&running.settle().await), ["ProgressDeadlineExceeded"]);
    running.state = RolloutState::default();
    let writes = running.settle().await;
    assert_eq!(of_kind(&writes, "Pod").len(), 0, "{:?}", shown(&writes));
    running.edit(json!({"metadata": {"annotations": {"pillion.dev/try": "again"}}})).await;
    running.settle().await;
    assert_eq!(running.revisions()[0].1, None);
}

#[tokio::test]
async fn roll61_containers_that_fail_in_too_many_pods_stop_it_at_once() {
    let set = annotated("agent:v2", &json!({}), &json!({}));
    let pods = (0..3).map(|number| {
        let mut pod = pod_with(&set, number);
        if number < 2 {
            pod["status"]["containerStatuses"][0]["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
            pod["status"]["containerStatuses"][0]["lastState"] = json!({"terminated": {"exitCode": 1}});
            pod["status"]["conditions"][0]["status"] = json!("False");
        } else {
            pod["metadata"]["annotations"]["kruise.io/sidecarset-hash"] = json!(r#"{"logs":{"hash":"old"}}"#);
        }
        pod
    });
    let mut running = Running::with_pods(&set, pods.collect()).await;
    let writes = running.settle().await;
    assert_eq!((events(&writes), of_kind(&writes, "Pod").len()), (vec!["ContainersFail".to_owned()], 0));
    assert_eq!(running.condition("Stalled")["reason"], "ContainersFail");
}

/// Returns a client of an API server that answers a change of a ControllerRevision with this code.
fn refusing(code: StatusCode) -> impl FnOnce(Client) -> Client {
    move |client| {
        let service = service_fn(move |request: Request<Body>| {
            let client = client.clone();
            async move {
                let is_it =
                    request.method() == http::Method::PATCH && request.uri().path().contains("controllerrevisions");
                if !is_it {
                    return client.send(request).await.map_err(tower::BoxError::from);
                }
                let reason = code.canonical_reason().unwrap_or_default().replace(' ', "");
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code.as_u16(),
                    "message": "it is refused", "metadata": {},
                });
                let answer = Response::builder().status(code).header("content-type", "application/json");
                Ok::<_, tower::BoxError>(answer.body(Body::from(status.to_string().into_bytes()))?)
            }
        });
        Client::new(service, "default")
    }
}

#[rstest::rstest]
#[case::missing_right(StatusCode::FORBIDDEN, true)]
#[case::broken_server(StatusCode::INTERNAL_SERVER_ERROR, true)]
#[case::too_many_requests(StatusCode::TOO_MANY_REQUESTS, true)]
#[case::conflict(StatusCode::CONFLICT, false)]
#[case::revision_is_gone(StatusCode::NOT_FOUND, false)]
#[tokio::test]
async fn roll61_while_a_failure_cannot_be_recorded_no_pod_is_touched(#[case] code: StatusCode, #[case] is_error: bool) {
    let set = annotated("agent:v2", &json!({}), &json!({}));
    let manifests = vec![set.as_value().clone(), pod(&set, 0), pod(&set, 1)];
    let mut running = Running::through(&json!({}), manifests, refusing(code)).await;
    running.settle().await;
    for _ in 0..2 {
        let result = running.after(DEADLINE).await;
        assert_eq!(result.is_err(), is_error, "{result:?}");
        assert_ne!(result, Ok(Done::LookAgain(Duration::ZERO)), "it is not tried again and again");
        assert_eq!(shown(&running.simulation.take_writes()), [""; 0]);
    }
}

async fn rolled_back(strategy: &Value, pods: usize) -> (Running, SidecarSet, SidecarSet) {
    let rollback = json!({"pillion.dev/rollback": "true"});
    let [old, new] = ["agent:v1", "agent:v2"].map(|image| annotated(image, strategy, &rollback));
    let mut running = Running::with_pods(&old, (0..pods).map(|number| pod_with(&old, number)).collect()).await;
    running.settle().await;
    assert_eq!(running.condition("Ready")["reason"], "Complete");
    running.release(&new).await;
    running.settle().await;
    running.restart(false).await;
    running.after(DEADLINE).await.expect("it is reconciled");
    (running, old, new)
}

#[tokio::test]
async fn roll62_rev5_pods_go_back_and_the_revision_before_keeps_its_number() {
    let (mut running, old, new) = rolled_back(&json!({}), 3).await;
    let [(one, None), (two, Some(record))] = &running.revisions()[..] else { panic!("{:?}", running.revisions()) };
    assert_eq!((record.back.as_ref(), record.hash.as_str()), (Some(one), new.hash()));
    let (one, two) = (one.clone(), two.clone());
    running.simulation.take_writes();
    let writes = running.settle().await;
    assert_eq!(events(&writes), ["ProgressDeadlineExceeded"]);
    let images: Vec<&str> = of_kind(&writes, "Pod")
        .into_iter()
        .filter(|write| write.subresource.is_none())
        .map(|write| json::text(&json::items(write.after.as_ref().unwrap(), &["spec", "containers"])[0], &["image"]))
        .collect();
    assert_eq!(images, ["agent:v1"], "the one Pod that had the failed version");
    assert!(of_kind(&writes, "ControllerRevision").is_empty());
    assert_eq!(running.condition("Reconciling")["reason"], "RollingBack");
    running.restart(true).await;
    running.settle().await;
    let object = running.object();
    assert_eq!(object["status"]["latestRevision"], json!(one));
    assert_eq!(object["spec"], *new.spec(&[]).unwrap(), "the spec is the author's");
    let stalled = running.condition("Stalled");
    assert_eq!((&stalled["status"], &stalled["reason"]), (&json!("True"), &json!("RolledBack")));
    let message = json::text(&stalled, &["message"]);
    for part in [&two, "ProgressDeadlineExceeded", &format!("\"{one}\" is in force"), "there is no bundle"] {
        assert!(message.contains(part), "{message}");
    }
    running.state = RolloutState::default();
    assert_eq!(shown(&running.settle().await), [""; 0], "another process says nothing again");

    // An edit that leaves the hash changes nothing; the hash of the version before ends it.
    running.edit(json!({"spec": {"updateStrategy": {"maxUnavailable": 2}}})).await;
    assert_eq!(of_kind(&running.settle().await, "Pod").len(), 0);
    running.release(&old).await;
    running.settle().await;
    assert_eq!(running.condition("Ready")["reason"], "Complete");
    assert_eq!(
        running.revisions().iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(),
        [two.clone(), one.clone()]
    );
    // The version that failed is tried again when it returns.
    running.release(&new).await;
    let writes = running.settle().await;
    assert_eq!(running.revisions(), [(one, None), (two, None)]);
    assert!(!of_kind(&writes, "Pod").is_empty());
}

#[tokio::test]
async fn roll62_if_rollback_is_switched_off_the_rollout_begins_again() {
    let (mut running, _, _) = rolled_back(&json!({}), 3).await;
    running.settle().await;
    running.edit(json!({"metadata": {"annotations": {"pillion.dev/rollback": "false"}}})).await;
    running.settle().await;
    assert_eq!(running.condition("Ready")["reason"], "RollingOut");
    assert!(running.revisions().iter().all(|(_, record)| record.is_none()));
}

#[tokio::test]
async fn roll62_if_rollback_is_asked_for_later_pods_go_back_then() {
    let [old, new] = ["agent:v1", "agent:v2"].map(|image| annotated(image, &json!({}), &json!({})));
    let mut running = Running::with_pods(&old, (0..2).map(|number| pod_with(&old, number)).collect()).await;
    running.settle().await;
    running.release(&new).await;
    running.settle().await;
    running.restart(false).await;
    running.after(DEADLINE).await.expect("it is reconciled");
    running.settle().await;
    assert_eq!(running.condition("Ready")["reason"], "ProgressDeadlineExceeded");
    running.edit(json!({"metadata": {"annotations": {"pillion.dev/rollback": "true"}}})).await;
    running.settle().await;
    running.restart(true).await;
    running.settle().await;
    assert_eq!(running.condition("Ready")["reason"], "RolledBack");
}

#[tokio::test]
async fn roll62_if_the_revision_before_fails_as_well_no_pod_is_touched() {
    let (mut running, old, new) = rolled_back(&json!({}), 3).await;
    running.settle().await;
    // The Pod that went back does not start.
    let sources = running.controller.sources();
    assert_eq!(sources.revisions.len(), 2);
    let pods = running.controller.pods.group("logs");
    let subject = Arc::clone(&running.controller.pods.table().all()[0].subject);
    let known = |pod| KnownPod { subject: Arc::clone(&subject), injected: Some(Arc::new(pod)) };
    for (version, pod) in (1_u64 << 61..).zip(&pods) {
        let mut broken = InjectedPod::clone(pod);
        broken.0.state.is_ready = false;
        let name = broken.0.metadata.name.clone();
        running.controller.pods.table().put_for_test("shop", &name, version, known(broken));
    }
    // One more Pod has the failed version, so that there is work.
    let mut more = InjectedPod(pillion_rollout::pod::Pod::decode(&pod_with(&new, 7)).unwrap());
    more.0.metadata.resource_version = "1".to_owned();
    running.controller.pods.table().put_for_test("shop", "web-7", 1 << 62, known(more));
    running.after(3).await.expect("it is reconciled");
    running.after(DEADLINE + 10).await.expect("it is reconciled");
    running.simulation.take_writes();
    let writes = running.settle().await;
    assert_eq!(of_kind(&writes, "Pod").len(), 0, "{:?}", shown(&writes));
    let stalled = running.condition("Stalled");
    assert_eq!((&stalled["status"], &stalled["reason"]), (&json!("True"), &json!("ProgressDeadlineExceeded")));
    assert!(json::text(&stalled, &["message"]).contains("failed as well"), "{stalled}");
    let records: Vec<_> = running.revisions().into_iter().map(|(_, record)| record.map(|record| record.back)).collect();
    assert!(matches!(records.as_slice(), [Some(None), Some(Some(_))]), "{records:?}");
    assert_ne!(old.hash(), new.hash());
}

#[tokio::test]
async fn roll62_rev7_the_history_keeps_the_revision_before() {
    let rollback = json!({"pillion.dev/rollback": "true"});
    let versions = ["agent:v1", "agent:v2", "agent:v3"].map(|image| annotated(image, &json!({}), &rollback));
    let mut running = Running::with_pods(&versions[0], vec![]).await;
    running.edit(json!({"spec": {"revisionHistoryLimit": 1}})).await;
    running.settle().await;
    for version in &versions[1..] {
        running.release(version).await;
        running.edit(json!({"spec": {"revisionHistoryLimit": 1}})).await;
        running.settle().await;
        assert_eq!(running.revisions().len(), 2);
    }
    running.edit(json!({"metadata": {"annotations": {"pillion.dev/rollback": "false"}}})).await;
    running.settle().await;
    assert_eq!(running.revisions().len(), 1);
}

/// The bundle has the version in force, and the author's next version is not in it yet.
#[tokio::test]
async fn roll62_the_version_of_the_bundle_stays_until_the_bundle_has_the_next_one() {
    let rollback = json!({"pillion.dev/rollback": "true"});
    let [old, new, next] = ["agent:v1", "agent:v2", "agent:v3"].map(|image| annotated(image, &json!({}), &rollback));
    let at = ConfigMapName { namespace: "pillion-system".to_owned(), name: "sidecarsets".to_owned() };
    let settings = json!({"bundleRef": {"namespace": at.namespace, "name": at.name}});
    let bundle = config_map::write(&at, std::slice::from_ref(&old), NOW, 1_000_000).expect("a bundle");
    let revision = |set: &SidecarSet, number: i64, failed: Option<Failed>| {
        let history = history::History::new(set, "u", []);
        let mut object = history.new_revision(number, 0, "u", "kruise-system");
        object["metadata"]["uid"] = json!(format!("r{number}"));
        if let Some(failed) = failed {
            object["metadata"]["annotations"][FAILED] = failed.text().into();
        }
        object
    };
    let one = revision(&old, 1, None);
    let failed = Failed {
        at: NOW.to_string(),
        reason: pillion_plan::failure::Cause::ContainersFail,
        message: "containers fail".to_owned(),
        sidecar_set_digest: pillion_plan::failure::digest(&new),
        hash: new.hash().to_owned(),
        back: Some(json::text(&one, &["metadata", "name"]).to_owned()),
    };
    let manifests = |resource: &SidecarSet| {
        let objects = vec![resource.as_value().clone(), one.clone(), revision(&new, 2, Some(failed.clone()))];
        [objects, bundle.clone(), vec![pod_with(&new, 0), pod_with(&old, 1)]].concat()
    };
    for resource in [&new, &next] {
        let mut running = Running::new(&settings, manifests(resource)).await;
        let writes = running.settle().await;
        assert!(of_kind(&writes, "ControllerRevision").is_empty(), "{:?}", shown(&writes));
        running.restart(true).await;
        running.settle().await;
        let message = running.condition("Stalled")["message"].to_string();
        assert_eq!(running.condition("Ready")["reason"], "RolledBack", "{message}");
        assert!(!message.contains("bundle"), "new Pods get it: {message}");
    }
}

#[tokio::test]
async fn roll61_a_preview_shows_a_rollout_that_has_failed() {
    let set = annotated("agent:v2", &json!({}), &json!({}));
    let history = history::History::new(&set, "u", []);
    let mut revision = history.new_revision(1, 0, "u", "kruise-system");
    revision["metadata"]["uid"] = json!("r1");
    let failed = Failed {
        at: NOW.to_string(),
        reason: pillion_plan::failure::Cause::ContainersFail,
        message: "containers fail in 2 Pods".to_owned(),
        sidecar_set_digest: pillion_plan::failure::digest(&set),
        hash: set.hash().to_owned(),
        back: None,
    };
    revision["metadata"]["annotations"][FAILED] = failed.text().into();
    let manifests = vec![set.as_value().clone(), revision, pod(&set, 0), pod(&set, 1)];
    let situation = Situation { manifests, namespace: "default".to_owned(), ..Situation::default() };
    let simulation = Simulation::new(&situation, None, || NOW).await.expect("a simulation");
    let question = Question {
        names: &[Name::SidecarSetRollout].into(),
        options: registry::Options::default(),
        settings: Arc::new(Settings::decode(json!({})).expect("settings")),
        clock: Clock::new(|| NOW),
        waves: 3,
        sidecar_set: Some("logs"),
        bundle_is_kept: false,
    };
    let preview = preview(simulation, question).await.expect("a preview");
    let pods = |wave: &Wave| wave.changes.iter().filter(|change| change.object.kind == "Pod").count();
    assert_eq!([&preview.first].into_iter().chain(&preview.waves).map(pods).sum::<usize>(), 0);
    let problems: Vec<&str> = preview.first.problems.iter().map(|problem| problem.text.as_str()).collect();
    assert!(problems.iter().any(|text| text.contains("containers fail in 2 Pods")), "{problems:?}");
}

#[test]
fn roll61_a_pod_wakes_its_sidecar_sets_when_a_container_fails_and_not_with_each_try() {
    let set = set("agent:v2", &json!({}));
    let waiting = |reason: &str| {
        let mut pod = pod(&set, 0);
        pod["status"]["containerStatuses"][0]["state"] = json!({"waiting": {"reason": reason}});
        InjectedPod(pillion_rollout::pod::Pod::decode(&pod).unwrap())
    };
    let of = |before: &str, now: &str| waiting(before).differences(&waiting(now));
    assert_eq!(of("ContainerCreating", "ErrImagePull"), Facets::READINESS);
    assert_eq!(of("ErrImagePull", "ImagePullBackOff"), Facets::empty());
    assert_eq!(of("PodInitializing", "ContainerCreating"), Facets::empty());
}
