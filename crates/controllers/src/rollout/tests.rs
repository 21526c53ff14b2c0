mod fate;
mod follow;
mod previews;
mod recreation;
mod resize;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use http::Request;
use kube::Client;
use kube::client::Body;
use pillion_admission::settings::Settings;
use pillion_bundle::config_map;
use pillion_bundle::source::ConfigMapName;
use pillion_kubernetes::time::Timestamp;
use pillion_rollout::status::READY;
use pillion_runtime::context::Clock;
use pillion_runtime::store::SidecarSetObject;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use pillion_simulation::{Simulation, Situation, Write};
use rstest::rstest;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tower::service_fn;

use super::*;
use crate::preview::{Preview, Question, Wave, preview};
use crate::registry::{self, Name};

const NOW: Timestamp = Timestamp(1_800_000_000);
/// The time between two reconciliations: longer than numbers are kept back.
const PAUSE: i64 = 10;

/// Returns a SidecarSet `logs` as admission stores it.
fn set(image: &str, strategy: &Value) -> SidecarSet {
    prepared(&SidecarSet::from_decoded(json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
        "metadata": {"name": "logs", "uid": "u", "resourceVersion": "7", "generation": 2},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "agent", "image": image}],
            "updateStrategy": strategy,
        },
    })))
}

/// Returns a Pod `web-<number>` that was injected by an earlier version of the SidecarSet, running and ready.
fn pod(set: &SidecarSet, number: usize) -> Value {
    let without_image = set.annotation("kruise.io/sidecarset-hash-without-image");
    let status = |name: &str, image: &str| json!({"name": name, "image": image, "imageID": image, "ready": true});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "shop", "name": format!("web-{number}"), "uid": format!("p{number}"), "labels": {"app": "web"},
            "annotations": {
                "kruise.io/sidecarset-hash": r#"{"logs":{"hash":"old"}}"#,
                "kruise.io/sidecarset-hash-without-image": json!({"logs": {"hash": without_image}}).to_string(),
                "kruise.io/sidecarset-injected-list": "logs",
            },
        },
        "spec": {"containers": [{"name": "agent", "image": "agent:v1"}, {"name": "main", "image": "app:1"}]},
        "status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [status("agent", "agent:v1"), status("main", "app:1")],
        },
    })
}

/// The controller in a cluster with some objects.
struct Running {
    simulation: Simulation,
    controller: SidecarSetRollout,
    keys: mpsc::UnboundedReceiver<Keys<String>>,
    state: RolloutState,
    now: Arc<AtomicI64>,
}

/// Returns a client of an API server that drops the conditions of SidecarSets, as OpenKruise's CustomResourceDefinition
/// makes it do.
fn without_conditions(client: Client) -> Client {
    let service = service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            let (parts, body) = request.into_parts();
            let mut bytes = body.collect_bytes().await?;
            if parts.uri.path().ends_with("/sidecarsets/logs/status") {
                let mut operations: Vec<Value> = serde_json::from_slice(&bytes)?;
                operations.retain(|operation| !json::text(operation, &["path"]).starts_with("/status/conditions"));
                bytes = serde_json::to_vec(&operations)?.into();
            }
            client.send(Request::from_parts(parts, Body::from(bytes))).await.map_err(tower::BoxError::from)
        }
    });
    Client::new(service, "default")
}

impl Running {
    async fn new(settings: &Value, manifests: Vec<Value>) -> Self {
        Self::through(settings, manifests, |client| client).await
    }

    /// Returns the controller, which reaches the cluster through a client.
    async fn through(settings: &Value, manifests: Vec<Value>, through: impl FnOnce(Client) -> Client) -> Self {
        let situation = Situation { manifests, namespace: "default".to_owned(), ..Situation::default() };
        let simulation = Simulation::new(&situation, None, || NOW).await.expect("a simulation");
        let settings = Arc::new(Settings::decode(settings.clone()).expect("settings"));
        let context = Context::new(through(simulation.client()), watch::channel(settings).1);
        let now = Arc::new(AtomicI64::new(NOW.0));
        let seconds = Arc::clone(&now);
        let context = Context { clock: Clock::new(move || Timestamp(seconds.load(Relaxed))), ..context };
        let (wakes, keys) = Wakes::new();
        let controller = SidecarSetRollout::start(context, Options::default(), wakes).await;
        Self { simulation, controller, keys, state: RolloutState::default(), now }
    }

    async fn with_pods(set: &SidecarSet, pods: Vec<Value>) -> Self {
        Self::new(&json!({}), [set.as_value().clone()].into_iter().chain(pods).collect()).await
    }

    async fn reconcile(&mut self) -> Result<Done, Failure> {
        self.after(PAUSE).await
    }

    /// Reconciles after some seconds.
    async fn after(&mut self, seconds: i64) -> Result<Done, Failure> {
        self.now.fetch_add(seconds, Relaxed);
        self.controller.reconcile(&"logs".to_owned(), &mut self.state).await
    }

    /// Reconciles once, and returns the writes.
    async fn writes(&mut self) -> Vec<Write> {
        self.reconcile().await.expect("it is reconciled");
        self.simulation.take_writes()
    }

    fn woken(&mut self) -> Vec<String> {
        let mut woken = Vec::new();
        while let Ok(keys) = self.keys.try_recv() {
            match keys {
                Keys::One(key) => woken.push(key),
                Keys::Many(keys) => woken.extend(keys),
                Keys::All => woken.push("*".to_owned()),
                Keys::None => {}
            }
        }
        woken
    }
}

/// Returns each write as `<kind> <name> [<part>]`.
fn shown(writes: &[Write]) -> Vec<String> {
    let line = |write: &Write| {
        let name = if write.object.kind == "Event" { "" } else { write.object.name.as_str() };
        let part = write.subresource.as_deref().unwrap_or_default();
        [write.object.kind, name, part].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    };
    writes.iter().map(line).collect()
}

/// Returns the reason of the condition `Ready` that was written last, and its status.
fn readiness(writes: &[Write]) -> (String, String) {
    let written = writes.iter().rev().filter(|write| write.object.kind == "SidecarSet");
    let after = written.flat_map(|write| &write.after).next().expect("a status");
    let mut conditions = json::items(after, &["status", "conditions"]).iter();
    let ready = conditions.find(|condition| json::text(condition, &["type"]) == READY).expect("a condition");
    let text = |key| json::text(ready, &[key]).to_owned();
    (text("reason"), text("status"))
}

fn ready(reason: &str, status: &str) -> (String, String) {
    (reason.to_owned(), status.to_owned())
}

#[tokio::test]
async fn roll12_roll44_a_round_writes_revision_status_pod_and_condition() {
    let set = set("agent:v2", &json!({}));
    let mut running = Running::with_pods(&set, vec![pod(&set, 0), pod(&set, 1)]).await;
    let writes = running.writes().await;
    let revision = writes.first().map(|write| write.object.name.clone()).unwrap_or_default();
    let expected = [
        format!("ControllerRevision {revision}"),
        "SidecarSet logs status".into(),
        "Pod web-0 status".into(),
        "Pod web-0".into(),
    ];
    assert_eq!(shown(&writes), expected);
    assert_eq!(readiness(&writes), ready("RollingOut", "False"));

    let writes = running.writes().await;
    assert_eq!(shown(&writes), ["SidecarSet logs status"], "the Pod is updated, and not available yet");
    assert_eq!(shown(&running.writes().await), [""; 0], "nothing changes");
}

#[tokio::test]
async fn rev5_rev6_content_that_returns_gets_number_label_and_status_in_one_round() {
    let mut manifests = Vec::new();
    for (image, number) in [("agent:v1", 1), ("agent:v2", 2)] {
        let mut running = Running::with_pods(&set(image, &json!({})), vec![]).await;
        let created = running.writes().await.into_iter().find(|write| write.object.kind == "ControllerRevision");
        let mut revision = Value::clone(&created.and_then(|write| write.after).expect("a revision"));
        revision["revision"] = json!(number);
        manifests.push(revision);
    }
    let mut returned = set("agent:v1", &json!({}));
    returned.as_value_mut()["spec"]["customVersion"] = json!("v7");
    let name = json::text(&manifests[0], &["metadata", "name"]).to_owned();
    manifests.push(returned.as_value().clone());
    let mut running = Running::new(&json!({}), manifests).await;
    let writes = running.writes().await;
    let revision = format!("ControllerRevision {name}");
    assert_eq!(shown(&writes), [revision.clone(), revision, "SidecarSet logs status".to_owned()]);
    let stored = writes[1].after.as_ref().expect("the revision");
    assert_eq!(stored["revision"], 3);
    assert_eq!(stored["metadata"]["labels"]["apps.kruise.io/sidecarset-custom-version"], "v7");
}

#[tokio::test]
async fn numbers_alone_are_written_every_two_seconds() {
    let set = set("agent:v2", &json!({"maxUnavailable": "50%"}));
    let mut running = Running::with_pods(&set, (0..4).map(|number| pod(&set, number)).collect()).await;
    running.writes().await;
    for (seconds, left) in [(0, 2), (1, 1)] {
        let done = running.after(seconds).await.expect("it is reconciled");
        assert_eq!(done, Done::LookAgain(Duration::from_secs(left)));
        assert_eq!(shown(&running.simulation.take_writes()), [""; 0]);
    }
    assert_eq!(running.after(1).await, Ok(Done::Settled));
    assert_eq!(shown(&running.simulation.take_writes()), ["SidecarSet logs status"]);
}

#[tokio::test]
async fn conditions_that_the_api_server_drops_are_not_written_again() {
    let set = set("agent:v2", &json!({"maxUnavailable": "50%"}));
    let manifests = [set.as_value().clone()].into_iter().chain((0..4).map(|number| pod(&set, number))).collect();
    let mut running = Running::through(&json!({}), manifests, without_conditions).await;
    let of_set = |writes: &[Write]| -> Vec<Value> {
        let writes = writes.iter().filter(|write| write.object.kind == "SidecarSet");
        writes.map(|write| write.after.clone().unwrap_or_default()["status"].clone()).collect()
    };
    let first = of_set(&running.writes().await);
    let updated = |status: &Value| status["updatedPods"].as_i64();
    assert_eq!(first.iter().map(updated).collect::<Vec<_>>(), [Some(0)]);
    assert_eq!(first[0].get("conditions"), None, "{first:?}");
    let second = of_set(&running.writes().await);
    assert_eq!(second.iter().map(updated).collect::<Vec<_>>(), [Some(2)], "numbers that change are written");
    assert_eq!(shown(&running.writes().await), [""; 0], "nothing changes");
}

#[tokio::test]
async fn roll44_the_first_error_ends_the_round() {
    let set = set("agent:v2", &json!({"maxUnavailable": "100%"}));
    let mut second = pod(&set, 1);
    second["status"]["conditions"][0] = json!({"type": "SidecarSetUpgradable", "status": "True", "message": "soon"});
    second["status"]["phase"] = json!("Pending");
    let mut running = Running::with_pods(&set, vec![pod(&set, 0), second, pod(&set, 2)]).await;
    let failure = running.reconcile().await.expect_err("a condition cannot be read");
    assert!(failure.text.contains("Pod \"shop/web-1\""), "{failure}");
    let writes = shown(&running.simulation.take_writes());
    assert_eq!(writes.get(2..), Some(&["Pod web-1".to_owned()][..]), "a Pod that is not ready comes first");
    assert!(running.reconcile().await.is_ok(), "it is updated now");
}

#[tokio::test]
async fn roll51_people_are_told_once_how_many_pods_cannot_be_upgraded() {
    let set = set("agent:v2", &json!({}));
    let mut other = pod(&set, 0);
    other["metadata"]["annotations"]["kruise.io/sidecarset-hash-without-image"] = json!(r#"{"logs":{"hash":"x"}}"#);
    let mut running = Running::with_pods(&set, vec![other]).await;
    let writes = running.writes().await;
    assert_eq!(
        shown(&writes).get(1..),
        Some(&["SidecarSet logs status", "Pod web-0 status", "Event"].map(str::to_owned)[..])
    );
    assert_eq!(readiness(&writes), ready("NotUpgradablePods", "False"));
    assert_eq!(shown(&running.writes().await), [""; 0]);
}

#[tokio::test]
async fn roll1_content_starts_a_round_and_the_status_does_not() {
    let set = set("agent:v2", &json!({}));
    let mut running = Running::with_pods(&set, vec![]).await;
    running.writes().await;
    running.woken();
    let mut put = |version: u64, change: &dyn Fn(&mut Value)| {
        let mut object = set.as_value().clone();
        change(&mut object);
        let table = running.controller.context.store.sidecar_sets();
        table.put_for_test("", "logs", version, SidecarSetObject(Arc::new(object)));
        let mut woken = Vec::new();
        while let Ok(keys) = running.keys.try_recv() {
            woken.push(keys);
        }
        woken
    };
    let logs = || vec![Keys::One("logs".to_owned())];
    put(1 << 61, &|_| {});
    assert_eq!(put((1 << 61) + 1, &|object| object["status"] = json!({"matchedPods": 7})), []);
    assert_eq!(put((1 << 61) + 2, &|object| object["spec"]["paused"] = json!(true)), logs());
    assert_eq!(put((1 << 61) + 3, &|object| object["metadata"]["annotations"]["pillion.dev/x"] = json!("1")), logs());
}

#[tokio::test]
async fn diff20_roll2_the_status_of_not_update_follows_the_pods() {
    let set = set("agent:v2", &json!({"type": "NotUpdate"}));
    let mut running = Running::with_pods(&set, vec![pod(&set, 0), pod(&set, 1)]).await;
    let matched = |writes: &[Write]| {
        let after = writes.iter().rev().find_map(|write| write.after.as_ref()).expect("a write");
        json::at(after, &["status", "matchedPods"]).and_then(Value::as_i64)
    };
    let writes = running.writes().await;
    assert_eq!((matched(&writes), readiness(&writes)), (Some(2), ready("NotUpdate", "True")));
    running.woken();
    running.controller.pods.table().remove_for_test("shop", "web-0", "web-0");
    assert_eq!(running.woken(), [""; 0], "another Pod of this name");
    let uid = "p0";
    running.controller.pods.table().remove_for_test("shop", "web-0", uid);
    assert_eq!(running.woken(), ["logs"]);
    assert_eq!(matched(&running.writes().await), Some(1));
}

#[tokio::test]
async fn diff14_a_rollout_goes_on_without_a_pod_whose_upgrade_got_no_answer() {
    let set = set("agent:v2", &json!({}));
    let mut running = Running::with_pods(&set, vec![pod(&set, 0), pod(&set, 1)]).await;
    let version = running.controller.pods.injected("shop", "web-1").expect("a Pod").0.metadata.resource_version.clone();
    running.state.uncertain.insert("p1".to_owned(), version);
    let writes = shown(&running.writes().await);
    assert_eq!(writes.get(3).map(String::as_str), Some("Pod web-1"), "it is tried again, and no other Pod: {writes:?}");

    let mut running = Running::with_pods(&set, vec![pod(&set, 0), pod(&set, 1)]).await;
    running.state.uncertain.insert("p1".to_owned(), "999".to_owned());
    running.controller.pods.table().remove_for_test("shop", "web-1", "p1");
    assert_eq!(shown(&running.writes().await).get(3).map(String::as_str), Some("Pod web-0"));
}

#[tokio::test]
async fn diff13_a_deleted_sidecar_set_leaves_the_conditions_of_pods() {
    let set = set("agent:v2", &json!({}));
    let mut told_before = pod(&set, 0);
    told_before["status"]["conditions"] =
        json!([{"type": "SidecarSetUpgradable", "status": "False", "reason": "x", "message": r#"{"logs":false}"#}]);
    let mut running = Running::new(&json!({}), vec![told_before]).await;
    assert_eq!(running.controller.keys(), ["logs"]);
    let writes = running.writes().await;
    assert_eq!(shown(&writes), ["Pod web-0 status"]);
    assert!(running.controller.keys().is_empty(), "the key goes with the last condition");
}

fn lease(renewed: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "kruise-manager", "namespace": "kruise-system"}, "spec": {"renewTime": renewed},
    })
}

#[tokio::test]
async fn nothing_is_rolled_out_while_openkruise_is_at_work() {
    let set = set("agent:v2", &json!({}));
    let manifests = |renewed: i64| {
        let renewed = Timestamp(NOW.0 - renewed).to_string().replace('Z', ".000000Z");
        vec![set.as_value().clone(), pod(&set, 0), lease(&renewed)]
    };
    let mut running = Running::new(&json!({}), manifests(60)).await;
    assert_eq!(running.after(0).await, Ok(Done::LookAgain(Duration::from_mins(4))));
    assert_eq!(shown(&running.simulation.take_writes()), [""; 0]);
    let remarks = running.controller.context.store.report().remarks;
    assert!(remarks.iter().any(|remark| remark.contains("kruise-system/kruise-manager")), "{remarks:?}");

    let mut running = Running::new(&json!({}), manifests(301)).await;
    assert_eq!(running.writes().await.len(), 4, "the last renewal was more than five minutes ago");
}

#[tokio::test]
async fn the_version_of_the_bundle_is_rolled_out() {
    let (new, old) = (set("agent:v3", &json!({})), set("agent:v2", &json!({})));
    let at = ConfigMapName { namespace: "pillion-system".to_owned(), name: "sidecarsets".to_owned() };
    let settings = json!({"bundleRef": {"namespace": at.namespace, "name": at.name}});
    let bundle = |sets: &[SidecarSet]| config_map::write(&at, sets, NOW, 1_000_000).expect("a bundle");
    let image = |writes: &[Write]| {
        let pod = writes.iter().rev().find(|write| write.object.kind == "Pod").and_then(|write| write.after.clone());
        pod.map(|pod| {
            json::text(json::items(&pod, &["spec", "containers"]).first().unwrap_or(&Value::Null), &["image"])
                .to_owned()
        })
    };
    let with = |maps: Vec<Value>| [vec![new.as_value().clone(), pod(&new, 0)], maps].concat();

    let mut running = Running::new(&settings, with(bundle(&[old]))).await;
    assert_eq!(image(&running.writes().await).as_deref(), Some("agent:v2"), "that of the bundle");
    let mut running = Running::new(&settings, with(Vec::new())).await;
    assert_eq!(image(&running.writes().await).as_deref(), Some("agent:v3"), "without a ConfigMap, the custom resource");
    let mut running = Running::new(&settings, with(bundle(&[]))).await;
    let writes = running.writes().await;
    assert_eq!((image(&writes), readiness(&writes)), (None, ready("NotInBundle", "False")));
    let mut running = Running::new(&json!({"sidecarSets": [new.as_value().clone()]}), with(Vec::new())).await;
    let writes = running.writes().await;
    assert_eq!((image(&writes), readiness(&writes)), (None, ready("InSettings", "False")));
}

/// The bundle has the version before, which each Pod has.
#[rstest]
#[case::it_comes(json!([]), "WaitingForBundle")]
#[case::an_earlier_generation_was_refused(json!([{"type": "InBundle", "status": "False", "observedGeneration": 1}]), "WaitingForBundle")]
#[case::it_is_refused(json!([{"type": "InBundle", "status": "False", "observedGeneration": 2}]), "NotInBundle")]
#[tokio::test]
async fn roll17_nothing_is_ready_before_the_bundle_has_the_version(
    #[case] conditions: Value,
    #[case] expected: &'static str,
) {
    let (mut new, old) = (set("agent:v2", &json!({})), set("agent:v1", &json!({})));
    new.as_value_mut()["status"] = json!({"conditions": conditions});
    let at = ConfigMapName { namespace: "pillion-system".to_owned(), name: "sidecarsets".to_owned() };
    let settings = json!({"bundleRef": {"namespace": at.namespace, "name": at.name}});
    let bundle = config_map::write(&at, std::slice::from_ref(&old), NOW, 1_000_000).expect("a bundle");
    let mut updated = pod(&old, 0);
    updated["metadata"]["annotations"]["kruise.io/sidecarset-hash"] =
        json!({"logs": {"hash": old.hash()}}).to_string().into();
    let objects = [vec![new.as_value().clone(), updated], bundle].concat();
    let mut running = Running::new(&settings, objects).await;
    assert_eq!(readiness(&running.writes().await), ready(expected, "False"));
}

/// Of four Pods, two are on a node that is not ready.
#[tokio::test]
async fn roll35_pods_of_a_node_that_is_not_ready_wait_and_count() {
    let set = set("agent:v2", &json!({"maxUnavailable": 3}));
    let node = |status: &str| {
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "gone"},
            "status": {"conditions": [{"type": "Ready", "status": status}]},
        })
    };
    let pods = (0..4).map(|number| {
        let mut pod = pod(&set, number);
        pod["spec"]["nodeName"] = json!(if number < 2 { "gone" } else { "here" });
        pod
    });
    let objects: Vec<Value> = [node("Unknown")].into_iter().chain(pods).collect();
    let mut running = Running::with_pods(&set, objects).await;
    let changed = |writes: &[Write]| {
        let writes = writes.iter().filter(|write| write.object.kind == "Pod" && write.subresource.is_none());
        writes.map(|write| write.object.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(changed(&running.writes().await), ["web-2"], "the two that are away count");
}

/// A SidecarSet that was created anew as a hot-upgrade pair: running Pods have one container.
#[tokio::test]
async fn roll11_pods_with_other_containers_are_told() {
    let mut hot = set("agent:v2", &json!({}));
    hot.as_value_mut()["spec"]["containers"][0]["upgradeStrategy"] =
        json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
    let hot = prepared(&hot);
    let mut running = Running::with_pods(&hot, vec![pod(&hot, 0), pod(&hot, 1)]).await;
    let writes = running.writes().await;
    assert_eq!(readiness(&writes), ready("NotUpgradablePods", "False"));
    let status = writes.iter().find(|write| write.object.kind == "SidecarSet").and_then(|write| write.after.clone());
    let message = status.expect("a status")["status"]["conditions"][0]["message"].clone();
    assert_eq!(
        message,
        "2 Pods have other containers of this SidecarSet, and must be created again; 0 of 0 Pods are updated, 0 of them \
         are ready"
    );
}

#[tokio::test]
async fn bad_input_is_told_and_changes_no_pod() {
    let cases = BTreeMap::from([
        ("InvalidStrategy", set("agent:v2", &json!({"partition": "some"}))),
        ("InvalidSelector", {
            let mut set = set("agent:v2", &json!({}));
            set.as_value_mut()["spec"]["selector"] = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
            set
        }),
        ("InvalidSidecarSet", {
            let mut set = set("agent:v2", &json!({}));
            set.as_value_mut()["spec"]["containers"] = json!({});
            set
        }),
    ]);
    for (reason, set) in cases {
        let mut running = Running::with_pods(&set, vec![pod(&set, 0)]).await;
        let writes = running.writes().await;
        assert_eq!(readiness(&writes), ready(reason, "False"));
        assert!(writes.iter().all(|write| write.object.kind != "Pod"), "{reason}: {:?}", shown(&writes));
        assert_eq!(shown(&running.writes().await), [""; 0], "{reason}: nothing is written twice");
    }
}

/// Returns the values of the metrics of rollouts, without the prefix that they share.
fn metrics(running: &Running) -> BTreeMap<String, String> {
    let text = running.controller.context.metrics.encoded();
    let lines = text.lines().filter_map(|line| line.strip_prefix("pillion_controller_rollout_"));
    lines.filter_map(|line| line.rsplit_once(' ')).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn value<'a>(metrics: &'a BTreeMap<String, String>, name: &str) -> Option<&'a str> {
    metrics.get(name).map(String::as_str)
}

#[tokio::test]
async fn metrics_tell_the_states_of_pods_and_the_age_of_the_oldest_outdated_pod() {
    let set = set("agent:v2", &json!({}));
    let mut pods = [0, 1, 2].map(|number| pod(&set, number));
    for (pod, created) in pods.iter_mut().zip(["2026-03-01T00:00:02Z", "2026-03-01T00:00:01Z", "2026-03-01T00:00:00Z"])
    {
        pod["metadata"]["creationTimestamp"] = json!(created);
    }
    pods[1]["metadata"]["annotations"]["kruise.io/sidecarset-hash-without-image"] = json!(r#"{"logs":{"hash":"x"}}"#);
    let mut running = Running::with_pods(&set, pods.to_vec()).await;
    running.writes().await;
    let before = metrics(&running);
    let pods = |metrics: &BTreeMap<String, String>, state: &str| {
        let name = format!("pods{{sidecarset=\"logs\",state=\"{state}\"}}");
        value(metrics, &name).map(str::to_owned)
    };
    let states = |metrics| ["updated", "updating", "outdated", "not_upgradable"].map(|state| pods(metrics, state));
    let some = |values: [&str; 4]| values.map(|value| Some(value.to_owned()));
    assert_eq!(states(&before), some(["0", "0", "2", "1"]));
    let oldest = "oldest_outdated_pod_created_seconds{sidecarset=\"logs\"}";
    assert_eq!(value(&before, oldest), Some("1772323200"), "the oldest Pod");
    assert_eq!(value(&before, "upgrades_total{sidecarset=\"logs\",result=\"upgraded\"}"), Some("1"));

    running.writes().await;
    let after = metrics(&running);
    assert_eq!(states(&after), some(["0", "1", "1", "1"]));
    assert_eq!(value(&after, "seconds_count"), Some("0"), "the rollout is not done");
}

#[tokio::test]
async fn metrics_of_a_sidecar_set_go_with_it() {
    let set = set("agent:v2", &json!({}));
    let mut running = Running::with_pods(&set, vec![pod(&set, 0)]).await;
    running.writes().await;
    let of_logs = |running: &Running| metrics(running).keys().filter(|name| name.contains("logs")).count();
    assert_eq!(of_logs(&running), 6, "four states, the oldest Pod, and the upgrades");
    running.controller.context.store.sidecar_sets().remove_for_test("", "logs", "u");
    running.writes().await;
    assert_eq!(of_logs(&running), 0);
}

#[tokio::test]
async fn metrics_tell_how_long_a_rollout_took_also_after_a_restart() {
    let set = set("agent:v2", &json!({}));
    let running = Running::with_pods(&set, vec![pod(&set, 0)]).await;
    let mut object = set.as_value().clone();
    let changed = Timestamp(NOW.0 - 100).to_string();
    object["status"]["conditions"] = json!([{"type": "Ready", "status": "False", "lastTransitionTime": changed}]);
    let progress = |reason, is_ready| Progress {
        is_ready,
        is_reconciling: !is_ready,
        is_stalled: false,
        reason,
        message: String::new(),
    };
    let metrics_of = RolloutMetrics::new(&running.controller.context.metrics);
    let (rolling, done) = (progress("RollingOut", false), progress("Complete", true));
    let mut since = None;
    metrics_of.progressed(&mut since, &done, &object, NOW);
    metrics_of.progressed(&mut since, &rolling, &object, NOW);
    assert_eq!(since, Some(Timestamp(NOW.0 - 100)), "a restarted controller reads it from the condition");
    metrics_of.progressed(&mut since, &rolling, &object, Timestamp(NOW.0 + 5));
    metrics_of.progressed(&mut since, &progress("PodsNotReady", false), &object, Timestamp(NOW.0 + 6));
    metrics_of.progressed(&mut since, &done, &object, Timestamp(NOW.0 + 7));
    metrics_of.progressed(&mut since, &done, &object, Timestamp(NOW.0 + 8));
    let text = metrics(&running);
    assert_eq!((value(&text, "seconds_count"), value(&text, "seconds_sum")), (Some("1"), Some("107.0")));
}
