//! Sidecars that follow the app (ROLL-70) in the controller.

use pillion_runtime::store::{Change, Projection as _};

use super::resize::{answering, of_pods, stored};
use super::*;
use crate::pods::injected;

const STATE: &str = "pillion.dev/sidecarset-resize-state";

fn cpu(amount: &str) -> Value {
    json!({"limits": {"cpu": amount}, "requests": {"cpu": amount}})
}

/// Returns a SidecarSet whose sidecar gets half of the app's cpu.
fn following(policy: &str) -> SidecarSet {
    let mut set = set("agent:v1", &json!({"maxUnavailable": 1}));
    set.as_value_mut()["metadata"]["annotations"] = json!({"pillion.dev/upgrade-policy": policy});
    set.as_value_mut()["spec"]["containers"][0]["resourcesPolicy"] = json!({
        "targetContainersMode": "sum", "targetContainersNameRegex": "^main$",
        "resourcesExpr": {"limits": {"cpu": "cpu*50%"}, "requests": {"cpu": "cpu*50%"}},
    });
    prepared(&set)
}

/// Returns a Pod with the version, running and ready: the app has this much cpu, and the sidecar has 2.
fn sized_pod(set: &SidecarSet, number: usize, app: &str) -> Value {
    let mut pod = pod(set, number);
    pod["metadata"]["annotations"]["kruise.io/sidecarset-hash"] =
        json!({"logs": {"hash": set.hash()}}).to_string().into();
    pod["spec"]["containers"][0]["env"] = json!([{"name": "IS_INJECTED", "value": "true"}]);
    for (index, amount) in ["2", app].into_iter().enumerate() {
        pod["spec"]["containers"][index]["resources"] = cpu(amount);
        pod["status"]["containerStatuses"][index]["resources"] = cpu(amount);
    }
    pod
}

/// Returns the controller after its first round, with Pods whose sidecars have what their expression gives.
async fn at_rest(pods: usize, through: impl FnOnce(Client) -> Client) -> Running {
    let set = following("Resize");
    let pods = (0..pods).map(|number| sized_pod(&set, number, "4"));
    let manifests = [set.as_value().clone()].into_iter().chain(pods).collect();
    let mut running = Running::through(&json!({}), manifests, through).await;
    assert_eq!(of_pods(&running.writes().await), [""; 0]);
    running
}

/// Writes a Pod, and its status.
async fn put(running: &Running, pod: &Value) {
    let path = format!("/api/v1/namespaces/shop/pods/{}", pod["metadata"]["name"].as_str().unwrap_or_default());
    for path in [path.clone(), format!("{path}/status")] {
        let mut pod = pod.clone();
        if let Some(metadata) = pod["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        let put = Request::put(path).body(pod.to_string().into_bytes()).expect("a request");
        let stored: Value = running.simulation.client().request(put).await.expect("the Pod");
        running.controller.context.store.written(&stored);
    }
    running.simulation.take_writes();
}

/// Gives the app of a Pod this much cpu, which the kubelet has carried out.
async fn resize_app(running: &Running, name: &str, amount: &str) {
    let mut pod = stored(running, name).await;
    pod["spec"]["containers"][1]["resources"] = cpu(amount);
    for index in 0..2 {
        let resources = pod["spec"]["containers"][index]["resources"].clone();
        pod["status"]["containerStatuses"][index]["resources"] = resources;
    }
    put(running, &pod).await;
}

async fn sidecar(running: &Running, name: &str) -> Value {
    stored(running, name).await["spec"]["containers"][0]["resources"].clone()
}

async fn record(running: &Running, name: &str) -> Option<String> {
    stored(running, name).await["metadata"]["annotations"][STATE].as_str().map(str::to_owned)
}

#[tokio::test]
async fn roll70_a_sidecar_follows_with_one_write() {
    let mut running = at_rest(2, |client| client).await;
    running.woken();
    resize_app(&running, "web-1", "1").await;
    assert!(running.woken().contains(&"logs".to_owned()));
    assert_eq!(shown(&running.writes().await), ["Pod web-1 resize"], "neither a record nor the status changes");
    assert_eq!(sidecar(&running, "web-1").await, cpu("500m"));
    running.state = RolloutState::default();
    assert_eq!(of_pods(&running.writes().await), [""; 0], "a restart of the controller asks for nothing again");
}

#[tokio::test]
async fn roll70_without_the_policy_nothing_follows() {
    let set = following("InPlace");
    let mut running = Running::with_pods(&set, vec![sized_pod(&set, 0, "1")]).await;
    assert_eq!(of_pods(&running.writes().await), [""; 0]);
}

#[rstest]
#[case::qos_class(422, "Invalid", "Pod QOS Class may not change as a result of resizing")]
#[case::quota(403, "Forbidden", "exceeded quota: compute")]
#[case::old_kubernetes(404, "NotFound", "the server could not find the requested resource")]
#[tokio::test]
async fn roll70_a_refusal_is_recorded_and_told_once(
    #[case] code: u16,
    #[case] reason: &'static str,
    #[case] text: &'static str,
) {
    let mut running = at_rest(1, answering(code, reason, text)).await;
    resize_app(&running, "web-0", "1").await;
    assert_eq!(shown(&running.writes().await), ["Pod web-0"]);
    let expected = if code == 404 { "Kubernetes 1.33" } else { text };
    let first = record(&running, "web-0").await.expect("a record");
    assert!(first.contains("logs/follows") && first.contains(expected), "{first}");
    let writes = running.writes().await;
    assert_eq!(shown(&writes), ["Event"], "the status stays complete");
    let note = writes.iter().filter_map(|write| write.after.as_ref()).map(|event| json::text(event, &["note"])).next();
    let note = note.expect("a note");
    assert!(note.contains("the sidecars of Pod \"shop/web-0\" do not follow") && note.contains(expected), "{note}");
    running.state = RolloutState::default();
    running.writes().await;
    assert_eq!(shown(&running.writes().await), [""; 0], "nor does another replica ask again");

    resize_app(&running, "web-0", "3").await;
    assert_eq!(shown(&running.writes().await), ["Pod web-0", "Pod web-0"], "the record goes, and another one comes");
    assert_ne!(record(&running, "web-0").await, Some(first));

    let mut pod = stored(&running, "web-0").await;
    if let Some(annotations) = pod["metadata"]["annotations"].as_object_mut() {
        annotations.remove(STATE);
    }
    put(&running, &pod).await;
    assert_eq!(shown(&running.writes().await), ["Pod web-0"], "whoever removes the record is heard");
}

#[rstest]
#[case::missing_right(403, "Forbidden", "User \"x\" cannot patch resource \"pods/resize\" in API group \"\"")]
#[case::no_connection(0, "", "")]
#[case::server_error(500, "InternalError", "etcd is gone")]
#[tokio::test]
async fn roll70_a_failure_is_tried_again(#[case] code: u16, #[case] reason: &'static str, #[case] text: &'static str) {
    let mut running = at_rest(1, answering(code, reason, text)).await;
    resize_app(&running, "web-0", "1").await;
    for _ in 0..2 {
        let failure = running.reconcile().await.expect_err("the resize failed");
        assert!(failure.text.contains("web-0"), "{failure}");
    }
    assert_eq!(record(&running, "web-0").await, None);
}

#[tokio::test]
async fn roll70_a_conflict_is_no_failure() {
    let mut running = at_rest(1, answering(409, "Conflict", "it was changed")).await;
    resize_app(&running, "web-0", "1").await;
    assert!(matches!(running.reconcile().await, Ok(Done::LookAgain(_))));
    assert_eq!(shown(&running.simulation.take_writes()), [""; 0]);
    assert!(running.state.asked.is_empty(), "it is tried again");
}

#[tokio::test]
async fn roll70_whoever_resized_the_sidecar_keeps_it() {
    let set = following("Resize");
    let mut pod = sized_pod(&set, 0, "1");
    pod["metadata"]["managedFields"] = json!([{
        "manager": "vpa-updater", "operation": "Update", "subresource": "resize",
        "fieldsV1": {"f:spec": {"f:containers": {r#"k:{"name":"agent"}"#: {"f:resources": {"f:limits": {"f:cpu": {}}}}}}},
    }]);
    let mut running = Running::with_pods(&set, vec![pod]).await;
    assert_eq!(of_pods(&running.writes().await), [""; 0]);
    assert_eq!(shown(&running.writes().await), [""; 0]);
    assert_eq!(running.state.asked.len(), 1, "it is not read in each round");
    assert_eq!(sidecar(&running, "web-0").await, cpu("2"));
}

#[test]
fn roll70_cpu_and_memory_alone_are_a_facet_of_their_own() {
    let set = following("Resize");
    let seen = |pod: &Value| {
        let object: injected::PodObject = serde_json::from_value(pod.clone()).expect("a Pod");
        InjectedPod::from_object(object).expect("an injected Pod")
    };
    let before = sized_pod(&set, 0, "4");
    let (one, other) = (seen(&before).0.amounts.clone(), seen(&sized_pod(&set, 1, "4")).0.amounts.clone());
    assert!(one.refcount() > 1 && one == other, "Pods share them");
    let mut after = before.clone();
    after["spec"]["containers"][1]["resources"] = cpu("1");
    let facets = seen(&before).differences(&seen(&after));
    assert_eq!(facets, Facets::RESOURCES | Facets::READINESS, "the status has other amounts than the spec");
    after = before.clone();
    after["status"]["containerStatuses"][0]["ready"] = json!(false);
    assert_eq!(seen(&before).differences(&seen(&after)), Facets::READINESS);
    let change =
        Change { namespace: "shop".into(), name: "web-0".into(), before: None, after: Some(Arc::new(seen(&after))) };
    assert!(change.facets().contains(Facets::RESOURCES));
}

#[tokio::test]
async fn roll70_a_preview_shows_the_resize() {
    let set = following("Resize");
    let manifests = vec![set.as_value().clone(), sized_pod(&set, 0, "1"), sized_pod(&set, 1, "4")];
    let preview = previews::looking_ahead(manifests, json!({}), 2, false).await;
    let pods = preview.first.changes.iter().filter(|change| change.object.kind == "Pod");
    let lines: Vec<String> = pods.map(|change| format!("{} {}", change.object.name, change.why)).collect();
    assert_eq!(lines, ["web-0 new cpu and memory"]);
}
