//! Resizes (ROLL-65) in the controller.

use pillion_runtime::effects::PATIENCE;

use super::*;

const STATE: &str = "pillion.dev/sidecarset-resize-state";

fn cpu(limit: &str) -> Value {
    json!({"limits": {"cpu": limit}, "requests": {"cpu": "100m"}})
}

/// Returns a version of the SidecarSet that asks for resizes.
fn version(image: &str, limit: &str) -> SidecarSet {
    let mut set = set(image, &json!({"maxUnavailable": 1}));
    set.as_value_mut()["metadata"]["annotations"] = json!({"pillion.dev/upgrade-policy": "Resize"});
    set.as_value_mut()["spec"]["containers"][0]["resources"] = cpu(limit);
    prepared(&set)
}

/// Returns a Pod with a version, running and ready.
fn running_pod(set: &SidecarSet, number: usize) -> Value {
    let mut pod = pod(set, number);
    pod["metadata"]["annotations"]["kruise.io/sidecarset-hash"] =
        json!({"logs": {"hash": set.hash()}}).to_string().into();
    pod["metadata"]["generation"] = json!(1);
    pod["spec"]["containers"][0]["resources"] = cpu("1");
    pod["spec"]["containers"][0]["env"] = json!([{"name": "IS_INJECTED", "value": "true"}]);
    pod["status"]["containerStatuses"][0]["resources"] = cpu("1");
    pod
}

/// Returns the manifests of a rollout from one version to another: the revision before, the SidecarSet and Pods.
async fn manifests(old: &SidecarSet, new: &SidecarSet, pods: usize) -> Vec<Value> {
    let mut running = Running::with_pods(old, vec![]).await;
    let writes = running.writes().await;
    let revision = writes.into_iter().find(|write| write.object.kind == "ControllerRevision");
    let revision = Value::clone(&revision.and_then(|write| write.after).expect("a revision"));
    let pods = (0..pods).map(|number| running_pod(old, number));
    [revision, new.as_value().clone()].into_iter().chain(pods).collect()
}

async fn rolling(through: impl FnOnce(Client) -> Client) -> Running {
    let (old, new) = (version("agent:v1", "1"), version("agent:v2", "2"));
    Running::through(&json!({}), manifests(&old, &new, 2).await, through).await
}

/// Returns the writes to Pods.
pub(super) fn of_pods(writes: &[Write]) -> Vec<String> {
    shown(writes).into_iter().filter(|line| line.starts_with("Pod")).collect()
}

/// Lets the kubelets carry out what the specs of these Pods ask for.
async fn kubelets(running: &Running) {
    let client = running.simulation.client();
    for name in ["web-0", "web-1"] {
        let path = format!("/api/v1/namespaces/shop/pods/{name}");
        let get = Request::get(&path).body(Vec::new()).expect("a request");
        let mut pod: Value = client.request(get).await.expect("the Pod");
        let spec = pod["spec"]["containers"][0].clone();
        pod["status"]["containerStatuses"][0] = json!({
            "name": "agent", "image": spec["image"], "imageID": spec["image"], "ready": true,
            "resources": spec["resources"],
        });
        let put = Request::put(format!("{path}/status")).body(pod.to_string().into_bytes()).expect("a request");
        let stored: Value = client.request(put).await.expect("the status");
        running.controller.context.store.written(&stored);
    }
    running.simulation.take_writes();
}

/// Returns a Pod as the API server has it.
pub(super) async fn stored(running: &Running, name: &str) -> Value {
    let get = Request::get(format!("/api/v1/namespaces/shop/pods/{name}")).body(Vec::new()).expect("a request");
    running.simulation.client().request(get).await.expect("the Pod")
}

#[tokio::test]
async fn roll65_a_pod_is_marked_resized_and_upgraded_step_by_step() {
    let mut running = rolling(|client| client).await;
    assert_eq!(of_pods(&running.writes().await), ["Pod web-0", "Pod web-0 resize"]);
    assert_eq!(of_pods(&running.writes().await), [""; 0], "the kubelet has not carried it out");
    kubelets(&running).await;
    let writes = running.writes().await;
    assert_eq!(of_pods(&writes), ["Pod web-0 status", "Pod web-0"]);
    let pod = stored(&running, "web-0").await;
    assert_eq!(pod["spec"]["containers"][0]["image"], "agent:v2");
    assert_eq!(pod["metadata"]["annotations"].get(STATE), None);
    kubelets(&running).await;
    assert_eq!(of_pods(&running.writes().await), ["Pod web-1", "Pod web-1 resize"]);
}

#[tokio::test]
async fn roll65_a_restart_between_two_steps_forgets_nothing() {
    let mut running = rolling(|client| client).await;
    running.writes().await;
    running.state = RolloutState::default();
    assert_eq!(of_pods(&running.writes().await), [""; 0], "the resize is in flight");
    kubelets(&running).await;
    running.state = RolloutState::default();
    assert_eq!(of_pods(&running.writes().await), ["Pod web-0 status", "Pod web-0"]);
}

/// Returns a client whose requests to resize a Pod get this answer. No answer comes if there is no status.
pub(super) fn answering(code: u16, reason: &'static str, message: &'static str) -> impl FnOnce(Client) -> Client {
    move |client: Client| {
        let service = service_fn(move |request: Request<Body>| {
            let client = client.clone();
            async move {
                if !request.uri().path().ends_with("/resize") {
                    return client.send(request).await.map_err(tower::BoxError::from);
                }
                if code == 0 {
                    return Err("the connection is gone".into());
                }
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
                    "message": message, "details": {"causes": [{"reason": "FieldValueInvalid", "field": "spec"}]},
                });
                let answer = http::Response::builder().status(code).header("content-type", "application/json");
                Ok(answer.body(Body::from(status.to_string().into_bytes()))?)
            }
        });
        Client::new(service, "default")
    }
}

#[rstest::rstest]
#[case::qos_class(422, "Invalid", "Pod QOS Class may not change as a result of resizing")]
#[case::quota(403, "Forbidden", "exceeded quota: compute")]
#[case::old_kubernetes(404, "NotFound", "the server could not find the requested resource")]
#[tokio::test]
async fn roll65_a_refusal_is_recorded_and_reported(
    #[case] code: u16,
    #[case] reason: &'static str,
    #[case] text: &'static str,
) {
    let mut running = rolling(answering(code, reason, text)).await;
    running.writes().await;
    let mark = stored(&running, "web-0").await["metadata"]["annotations"][STATE].clone();
    let expected = if code == 404 { "Kubernetes 1.33" } else { text };
    assert!(mark.as_str().is_some_and(|mark| mark.contains(expected)), "{mark}");
    let writes = running.writes().await;
    assert_eq!(of_pods(&writes).first().map(String::as_str), Some("Pod web-0 status"));
    let events = writes.iter().filter(|write| write.object.kind == "Event");
    let notes: Vec<String> =
        events.filter_map(|it| Some(json::text(it.after.as_ref()?, &["note"]).to_owned())).collect();
    assert!(notes.iter().any(|note| note.contains("Pod \"shop/web-0\" is not upgraded")), "{notes:?}");
    running.writes().await;
    let last = running.writes().await;
    assert_eq!(shown(&last), [""; 0], "nothing is tried again");
    let metrics = metrics(&running);
    assert_eq!(value(&metrics, "upgrades_total{sidecarset=\"logs\",result=\"refused\"}"), Some("2"));
}

#[rstest::rstest]
#[case::missing_right(403, "Forbidden", "User \"x\" cannot patch resource \"pods/resize\" in API group \"\"")]
#[case::no_connection(0, "", "")]
#[case::server_error(500, "InternalError", "etcd is gone")]
#[tokio::test]
async fn roll65_a_failure_is_tried_again(#[case] code: u16, #[case] reason: &'static str, #[case] text: &'static str) {
    let mut running = rolling(answering(code, reason, text)).await;
    for _ in 0..2 {
        let failure = running.reconcile().await.expect_err("the resize failed");
        assert!(failure.text.contains("web-0"), "{failure}");
        let mark = stored(&running, "web-0").await["metadata"]["annotations"][STATE].clone();
        assert!(mark.as_str().is_some_and(|mark| !mark.contains("refused")), "{mark}");
    }
    let pods = of_pods(&running.simulation.take_writes());
    assert_eq!(pods, ["Pod web-0"], "no other Pod is touched, within {PATIENCE:?}");
}

#[tokio::test]
async fn roll65_a_conflict_is_no_failure() {
    let mut running = rolling(answering(409, "Conflict", "it was changed")).await;
    assert!(running.reconcile().await.is_ok());
    assert_eq!(of_pods(&running.simulation.take_writes()), ["Pod web-0"]);
}

#[tokio::test]
async fn roll65_a_preview_shows_the_steps_of_a_resize_wave_by_wave() {
    let (old, new) = (version("agent:v1", "1"), version("agent:v2", "2"));
    let manifests = manifests(&old, &new, 2).await;
    let preview = previews::looking_ahead(manifests, json!({}), 9, false).await;
    let of_pods = |wave: &Wave| -> Vec<String> {
        let changes = wave.changes.iter().filter(|change| change.object.kind == "Pod");
        let lines = changes.map(|change| format!("{} {}", change.object.name, change.why));
        lines.filter(|line| !line.contains("whether")).collect()
    };
    let waves: Vec<Vec<String>> = [&preview.first].into_iter().chain(&preview.waves).map(of_pods).collect();
    let steps = |name: &str| {
        [
            vec![format!("{name} its resize begins"), format!("{name} new cpu and memory")],
            vec![format!("{name} new images")],
        ]
    };
    let expected: Vec<Vec<String>> = [steps("web-0"), steps("web-1"), [vec![], vec![]]].concat();
    assert_eq!(waves, expected[..waves.len()]);
    assert!(waves.len() >= 4, "{waves:?}");
}
