//! Resizes and upgrades of native sidecars on a real API server. kwok restarts containers, and carries out, defers or
//! refuses resizes as a kubelet does.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use pillion_testenv::until;
use rstest::rstest;
use serde_json::{Value, json};

use crate::rollout::{NEW, OLD, RolloutNamespace, audit};
use crate::support::SOON;

/// The annotation that marks a Pod whose resize has begun.
const MARK: &str = "pillion.dev/sidecarset-resize-state";
/// The annotation that tells the kubelet of a Pod what to do with a resize.
const KUBELET: &str = "testenv.pillion.dev/resize";

fn cpu(limit: &str) -> Value {
    json!({"limits": {"cpu": limit}, "requests": {"cpu": "100m"}})
}

/// Returns a SidecarSet with a container `agent` with this much cpu, and these annotations.
fn resizing(place: &RolloutNamespace, strategy: &Value) -> Value {
    let container = json!({"name": "agent", "image": OLD, "resources": cpu("1")});
    let mut set = place.set("agent", &json!({"containers": [container], "updateStrategy": strategy}));
    set["metadata"]["annotations"] = json!({"pillion.dev/upgrade-policy": "Resize"});
    set
}

fn agent(image: &str, limit: &str) -> Value {
    json!({"containers": [{"name": "agent", "image": image, "resources": cpu(limit)}]})
}

fn slow(_: usize, pod: &mut Value) {
    pod["metadata"]["annotations"] = json!({"testenv.pillion.dev/resized-after": "2s"});
}

fn unedited(_: usize, _: &mut Value) {}

async fn pods(place: &RolloutNamespace) -> Vec<Value> {
    place.pods().list(&ListParams::default()).await.unwrap().items.iter().map(|pod| json!(pod)).collect()
}

fn container<'a>(pod: &'a Value, list: &str, name: &str) -> &'a Value {
    pod["spec"][list].as_array().unwrap().iter().find(|container| container["name"] == name).unwrap()
}

fn is_marked(pod: &Value) -> bool {
    pod["metadata"]["annotations"].get(MARK).is_some()
}

/// Returns the cpu limit of the sidecar of each Pod, in the spec and as the kubelet reports it.
async fn limits(place: &RolloutNamespace) -> Vec<(String, String)> {
    let text = |value: &Value| value["limits"]["cpu"].as_str().unwrap_or_default().to_owned();
    let of = |pod: &Value| {
        let statuses = pod["status"]["containerStatuses"].as_array().unwrap();
        let status = statuses.iter().find(|status| status["name"] == "agent").unwrap();
        (text(&container(pod, "containers", "agent")["resources"]), text(&status["resources"]))
    };
    pods(place).await.iter().map(of).collect()
}

async fn until_pods(place: &RolloutNamespace, what: &str, holds: impl Fn(&[Value]) -> bool) {
    let seen = async || holds(&pods(place).await).then_some(());
    if let Err(error) = until(what, SOON, seen).await {
        panic!("{error}: {:#}\n{}", json!(pods(place).await), place.logs());
    }
}

fn assert_complete(pods: &[Value], set: &Value, image: &str) {
    for pod in pods {
        let record = |key: &str| -> Value {
            serde_json::from_str(pod["metadata"]["annotations"][key].as_str().unwrap()).unwrap()
        };
        let name = set["metadata"]["name"].as_str().unwrap();
        assert_eq!(container(pod, "containers", "agent")["image"], image);
        assert_eq!(record("kruise.io/sidecarset-hash")[name]["controllerRevision"], set["status"]["latestRevision"]);
        assert!(!is_marked(pod), "{pod:#}");
    }
}

/// Whether a Pod counts against `maxUnavailable`: its resize has begun, or it is not available.
fn is_touched(pod: &Value) -> bool {
    is_marked(pod) || !audit::is_available(pod)
}

#[rstest]
#[case::one_by_default(json!({}), 4, 1)]
#[case::two_at_a_time(json!({"maxUnavailable": 2}), 5, 2)]
#[tokio::test(flavor = "multi_thread")]
async fn roll65_cpu_and_images_reach_each_pod_within_the_budget(
    #[case] strategy: Value,
    #[case] count: usize,
    #[case] most: usize,
) {
    let place = RolloutNamespace::new().await;
    place.fill(&[resizing(&place, &strategy)], count, unedited).await;
    place.ended("agent", "Complete").await;
    let before = place.writes().len();

    place.change("agent", &agent(NEW, "2")).await;

    let set = place.ended("agent", "Complete").await;
    assert_complete(&pods(&place).await, &set, NEW);
    assert_eq!(limits(&place).await, vec![("2".to_owned(), "2".to_owned()); count]);
    assert_eq!(audit::most(&place.writes()[before..], is_touched), most);

    place.change("agent", &agent(NEW, "500m")).await;
    let set = place.ended("agent", "Complete").await;
    assert_complete(&pods(&place).await, &set, NEW);
    assert_eq!(limits(&place).await, vec![("500m".to_owned(), "500m".to_owned()); count], "no image changed");
}

/// Returns a SidecarSet with a native sidecar `proxy` beside the container `agent`.
fn with_native(place: &RolloutNamespace, policy: &str) -> Value {
    let proxy = json!({"name": "proxy", "image": "proxy:v1", "restartPolicy": "Always", "resources": cpu("1")});
    let mut set = resizing(place, &json!({"maxUnavailable": 2}));
    set["spec"]["initContainers"] = json!([proxy]);
    set["metadata"]["annotations"] =
        json!({"pillion.dev/native-upgrade": "true", "pillion.dev/upgrade-policy": policy});
    set
}

#[rstest]
#[case::roll63_images_alone("InPlace", "1")]
#[case::roll65_images_and_cpu("Resize", "2")]
#[tokio::test(flavor = "multi_thread")]
async fn roll63_roll65_native_sidecars_are_upgraded_within_the_budget(#[case] policy: &str, #[case] limit: &str) {
    let place = RolloutNamespace::new().await;
    let set = with_native(&place, policy);
    place.fill(&[set], 4, unedited).await;
    place.ended("agent", "Complete").await;
    let before = place.writes().len();

    let proxy = json!({"name": "proxy", "image": "proxy:v2", "restartPolicy": "Always", "resources": cpu(limit)});
    place.change("agent", &json!({"initContainers": [proxy]})).await;

    let set = place.ended("agent", "Complete").await;
    let now = pods(&place).await;
    assert_complete(&now, &set, OLD);
    for pod in &now {
        let proxy = container(pod, "initContainers", "proxy");
        let status = &pod["status"]["initContainerStatuses"][0];
        assert_eq!([&proxy["image"], &status["image"]], ["proxy:v2"; 2]);
        assert_eq!([&proxy["resources"]["limits"]["cpu"], &status["resources"]["limits"]["cpu"]], [limit; 2]);
        assert_eq!(status["restartCount"], 1);
    }
    let is_unavailable = |pod: &Value| is_touched(pod) || pod["status"]["initContainerStatuses"][0]["ready"] == false;
    assert_eq!(audit::most(&place.writes()[before..], is_unavailable), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn roll65_a_deferred_resize_is_waited_for() {
    let place = RolloutNamespace::new().await;
    let defer = |number: usize, pod: &mut Value| {
        if number == 0 {
            pod["metadata"]["annotations"] = json!({KUBELET: "Deferred"});
        }
    };
    place
        .fill(&[resizing(&place, &json!({"priorityStrategy": {"orderPriority": [{"orderedKey": "first"}]}}))], 3, defer)
        .await;
    place.edit_pod("web-0", &json!({"metadata": {"labels": {"first": "1"}}})).await;
    place.ended("agent", "Complete").await;

    place.change("agent", &agent(NEW, "2")).await;
    until_pods(&place, "the resize being deferred", |pods| is_marked(&pods[0])).await;
    place.ended("agent", "RollingOut").await;
    assert!(place.all_upgrades().await.is_empty(), "maxUnavailable is 1");
    assert_eq!(pods(&place).await.iter().filter(|pod| is_marked(pod)).count(), 1);

    place.edit_pod("web-0", &json!({"metadata": {"annotations": {KUBELET: null}}})).await;
    let set = place.ended("agent", "Complete").await;
    assert_complete(&pods(&place).await, &set, NEW);
    assert_eq!(limits(&place).await, vec![("2".to_owned(), "2".to_owned()); 3]);
}

/// Waits for an Event `ResizeFailed` with this text. The controller writes the status of the SidecarSet first.
async fn told(place: &RolloutNamespace, text: &str) {
    let name = place.set_name("agent");
    let is_it = |event: &Event| {
        event.reason.as_deref() == Some("ResizeFailed")
            && event.regarding.as_ref().and_then(|regarding| regarding.name.as_ref()) == Some(&name)
            && event.note.as_ref().is_some_and(|note| note.contains(text))
    };
    let events = Api::<Event>::all(place.client.clone());
    let there = async || events.list(&ListParams::default()).await.ok()?.items.iter().any(is_it).then_some(());
    if let Err(error) = until("the Event", SOON, there).await {
        panic!("{error}: {text}\n{}", place.logs());
    }
}

/// Waits until the condition `SidecarSetUpgradable` of each Pod has this value for the SidecarSet. The controller writes
/// the status of the SidecarSet first.
async fn upgradable(place: &RolloutNamespace, expected: &[bool]) {
    let name = place.set_name("agent");
    let of = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().unwrap();
        let condition = conditions.iter().find(|condition| condition["type"] == "SidecarSetUpgradable")?;
        let told: Value = serde_json::from_str(condition["message"].as_str()?).unwrap();
        told[&name].as_bool()
    };
    let expected: Vec<Option<bool>> = expected.iter().copied().map(Some).collect();
    until_pods(place, "the conditions", |pods| pods.iter().map(of).eq(expected.iter().copied())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn roll65_an_infeasible_resize_is_reported_and_holds_up_no_other_pod() {
    let place = RolloutNamespace::new().await;
    let infeasible = |number: usize, pod: &mut Value| {
        if number == 1 {
            pod["metadata"]["annotations"] = json!({KUBELET: "Infeasible"});
        }
    };
    place.fill(&[resizing(&place, &json!({}))], 3, infeasible).await;
    place.ended("agent", "Complete").await;

    place.change("agent", &agent(NEW, "100")).await;

    let stored = place.ended("agent", "NotUpgradablePods").await;
    assert_eq!(stored["status"]["updatedPods"], 2);
    upgradable(&place, &[true, false, true]).await;
    told(&place, "infeasible: Node didn't have enough capacity").await;

    place.edit_pod("web-1", &json!({"metadata": {"annotations": {KUBELET: null}}})).await;
    place.change("agent", &agent(NEW, "3")).await;
    let set = place.ended("agent", "Complete").await;
    assert_complete(&pods(&place).await, &set, NEW);
    assert_eq!(limits(&place).await, vec![("3".to_owned(), "3".to_owned()); 3]);
    upgradable(&place, &[true; 3]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn roll65_a_resize_that_the_api_server_refuses_is_reported_once() {
    let place = RolloutNamespace::new().await;
    let mut set = resizing(&place, &json!({}));
    set["spec"]["containers"] = json!([{"name": "agent", "image": OLD}]);
    place.fill(&[set], 2, unedited).await;
    place.ended("agent", "Complete").await;

    place.change("agent", &agent(NEW, "1")).await;

    let stored = place.ended("agent", "NotUpgradablePods").await;
    assert_eq!(stored["status"]["updatedPods"], 0);
    upgradable(&place, &[false; 2]).await;
    told(&place, "Pod QOS Class may not change").await;
    assert!(place.all_upgrades().await.is_empty());
    let refused = place.writes().len();

    place.change("agent", &json!({"containers": [{"name": "agent", "image": NEW}]})).await;
    let set = place.ended("agent", "Complete").await;
    assert_complete(&pods(&place).await, &set, NEW);
    assert!(place.writes().len() > refused);
}

#[tokio::test(flavor = "multi_thread")]
async fn roll65_an_image_that_fails_after_a_resize_stops_within_the_budget() {
    let place = RolloutNamespace::new().await;
    place.fill(&[resizing(&place, &json!({}))], 3, unedited).await;
    place.ended("agent", "Complete").await;

    place.change("agent", &agent("agent:missing", "2")).await;
    place.upgraded(1).await;
    assert_eq!(place.all_upgrades().await.len(), 1, "maxUnavailable is 1");
    let mut now = limits(&place).await;
    now.sort();
    assert_eq!(now.iter().map(|(spec, _)| spec.as_str()).collect::<Vec<_>>(), ["1", "1", "2"]);

    place.change("agent", &agent(NEW, "2")).await;
    let set = place.ended("agent", "Complete").await;
    assert_complete(&pods(&place).await, &set, NEW);
}

#[tokio::test(flavor = "multi_thread")]
async fn roll65_a_pause_holds_in_the_middle_and_an_edit_is_followed() {
    let place = RolloutNamespace::new().await;
    place.fill(&[resizing(&place, &json!({}))], 3, slow).await;
    place.ended("agent", "Complete").await;

    place.change("agent", &agent(NEW, "2")).await;
    until_pods(&place, "a resize", |pods| pods.iter().any(is_marked)).await;
    place.change("agent", &json!({"updateStrategy": {"paused": true}})).await;
    place.ended("agent", "Paused").await;
    assert!(place.all_upgrades().await.len() <= 1, "the image of the Pod that is resized may have come first");
    let marked = |pods: &[Value]| pods.iter().filter(|pod| is_marked(pod)).count();
    assert_eq!(marked(&pods(&place).await), 1);

    let mut back = agent(OLD, "1");
    back["updateStrategy"] = json!({"paused": false});
    place.change("agent", &back).await;
    place.ended("agent", "Complete").await;
    assert_eq!(marked(&pods(&place).await), 0);
    assert_eq!(place.images("agent").await, [OLD; 3]);
    assert_eq!(limits(&place).await, vec![("1".to_owned(), "1".to_owned()); 3], "the version of the Pods is back");
}

#[tokio::test(flavor = "multi_thread")]
async fn roll65_another_replica_completes_what_was_begun() {
    let place = RolloutNamespace::new().await;
    place.fill(&[resizing(&place, &json!({}))], 3, slow).await;
    place.ended("agent", "Complete").await;
    let before = place.writes().len();

    place.change("agent", &agent(NEW, "2")).await;
    until_pods(&place, "a resize", |pods| pods.iter().any(is_marked)).await;
    let holder = place.holder().await;
    place.kill(&holder).await;

    let set = place.ended("agent", "Complete").await;
    assert_complete(&pods(&place).await, &set, NEW);
    assert_eq!(limits(&place).await, vec![("2".to_owned(), "2".to_owned()); 3]);
    assert_eq!(audit::most(&place.writes()[before..], is_touched), 1);
}

/// Returns a SidecarSet whose sidecar gets half of the app's cpu and memory. Its request is at most `most`.
fn half_of_app(place: &RolloutNamespace, most: &str) -> Value {
    let policy = json!({
        "targetContainersMode": "sum", "targetContainersNameRegex": "^main$",
        "resourcesExpr": {
            "limits": {"cpu": "cpu*50%", "memory": "memory*50%"},
            "requests": {"cpu": format!("min(cpu*50%, {most})"), "memory": "memory*50%"},
        },
    });
    let container = json!({"name": "agent", "image": OLD, "resourcesPolicy": policy});
    let mut set = place.set("agent", &json!({"containers": [container]}));
    set["metadata"]["annotations"] = json!({"pillion.dev/upgrade-policy": "Resize"});
    set
}

fn sized_app(_: usize, pod: &mut Value) {
    let amounts = json!({"cpu": "1", "memory": "64Mi"});
    pod["spec"]["containers"][0]["resources"] = json!({"limits": amounts, "requests": amounts});
}

/// Gives a container of a Pod this much cpu, as an autoscaler and `kubectl patch --subresource resize` do.
async fn resize(place: &RolloutNamespace, pod: &str, container: &str, amount: &str) {
    let resources = json!({"limits": {"cpu": amount}, "requests": {"cpu": amount}});
    let patch = Patch::Strategic(json!({"spec": {"containers": [{"name": container, "resources": resources}]}}));
    let params = PatchParams { field_manager: Some("autoscaler".to_owned()), ..PatchParams::default() };
    place.pods().patch_subresource("resize", pod, &params, &patch).await.unwrap();
}

/// Waits until all three Pods count as updated and ready, and returns the SidecarSet.
async fn all_counted(place: &RolloutNamespace) -> Value {
    let counted = async || {
        let set = place.stored("agent").await;
        let is_all =
            ["matchedPods", "updatedPods", "readyPods", "updatedReadyPods"].iter().all(|of| set["status"][of] == 3);
        is_all.then_some(set)
    };
    until("the Pods being counted", SOON, counted).await.unwrap()
}

/// Waits until the kubelets have given the sidecars these limits.
async fn until_limits(place: &RolloutNamespace, expected: [&str; 3]) {
    let expected = expected.map(|limit| (limit.to_owned(), limit.to_owned()));
    let there = async || (limits(place).await == expected).then_some(());
    if let Err(error) = until("the sidecars' cpu", SOON, there).await {
        panic!("{error}: {:?}\n{}", limits(place).await, place.logs());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn roll70_a_sidecar_follows_the_app_unless_somebody_else_sizes_it() {
    let place = RolloutNamespace::new().await;
    place.fill(&[half_of_app(&place, "64")], 3, sized_app).await;
    let before = all_counted(&place).await;
    until_limits(&place, ["500m"; 3]).await;

    resize(&place, "web-1", "main", "2").await;
    until_limits(&place, ["500m", "1", "500m"]).await;
    let set = all_counted(&place).await;
    assert_eq!(set["status"], before["status"], "no Pod counts as outdated");
    assert!(!pods(&place).await.iter().any(is_marked));

    // Whoever resizes the sidecar keeps it, also when the app is resized afterwards.
    resize(&place, "web-1", "agent", "700m").await;
    until_limits(&place, ["500m", "700m", "500m"]).await;
    resize(&place, "web-1", "main", "4").await;
    resize(&place, "web-0", "main", "600m").await;
    until_limits(&place, ["300m", "700m", "500m"]).await;
    resize(&place, "web-2", "main", "800m").await;
    until_limits(&place, ["300m", "700m", "400m"]).await;
    assert!(pods(&place).await.iter().all(|pod| pod["status"]["containerStatuses"][0]["restartCount"] == 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn roll70_a_refusal_is_recorded_for_the_amounts_of_the_app() {
    let place = RolloutNamespace::new().await;
    place.fill(&[half_of_app(&place, "500m")], 3, sized_app).await;
    all_counted(&place).await;

    // With a request below its limit, the sidecar would make the Pod burstable.
    resize(&place, "web-1", "main", "4").await;
    until_pods(&place, "the record", |pods| is_marked(&pods[1])).await;
    told(&place, "do not follow the cpu and memory of its containers").await;
    all_counted(&place).await;

    resize(&place, "web-1", "main", "800m").await;
    until_limits(&place, ["500m", "400m", "500m"]).await;
    until_pods(&place, "the record being gone", |pods| !is_marked(&pods[1])).await;
}

/// Overrides a Pod or a Namespace has for the sidecar, as the value of an annotation.
fn overriding(asked: &Value) -> Value {
    json!({"overrides.pillion.dev/agent": asked.to_string()})
}

#[tokio::test(flavor = "multi_thread")]
async fn ovr10_a_rollout_keeps_what_pods_and_namespaces_override() {
    let place = RolloutNamespace::new().await;
    let mut set = resizing(&place, &json!({}));
    let rules = json!({"containers": {"agent": {"cpu": {"max": "3"}, "imageTags": ["v1"]}}});
    set["metadata"]["annotations"]["pillion.dev/overrides"] = rules.to_string().into();
    let pinned = json!({"resources": {"limits": {"cpu": "3"}}, "imageTag": "v1"});
    let edit = |number: usize, pod: &mut Value| {
        if number == 1 {
            pod["metadata"]["annotations"] = overriding(&pinned);
        }
    };
    place.fill(&[set], 3, edit).await;
    all_counted(&place).await;
    until_limits(&place, ["1", "3", "1"]).await;

    place.change("agent", &agent(NEW, "2")).await;
    place.complete("agent", 3).await;
    until_limits(&place, ["2", "3", "2"]).await;
    assert_eq!(place.images("agent").await, [NEW, OLD, NEW]);

    // What a Namespace allows itself reaches running Pods with the next version.
    let namespaces = Api::<Namespace>::all(place.client.clone());
    let asked = overriding(&json!({"resources": {"limits": {"cpu": "1500m"}}}));
    let patch = Patch::Merge(json!({"metadata": {"annotations": asked}}));
    namespaces.patch(&place.name, &PatchParams::default(), &patch).await.unwrap();
    place.change("agent", &agent(NEW, "2500m")).await;
    place.complete("agent", 3).await;
    until_limits(&place, ["1500m", "3", "1500m"]).await;
}
