//! A version that does not run stops within its budget, is told, and gives way to one that runs.

use std::process::Command;

use pillion_sidecarset::image;
use rstest::rstest;
use serde_json::{Value, json};

use super::cluster;
use crate::node_rollouts::{AGENT, AT_ONCE, Scene, condition, edit_set, sidecar, waits_for};
use crate::rollout::{NEW, OLD};
use crate::support::node::container;
use crate::support::node::shell::finished;
use crate::support::program;

/// A deadline that nothing here reaches.
const PATIENT: &str = "10m";

/// Returns a readiness probe of each second, with what it does. A container that was ready stays it while a busy machine
/// answers late; one that never was is not ready from the start.
fn probe(action: &Value) -> Value {
    let mut probe = json!({"periodSeconds": 1, "timeoutSeconds": 10, "failureThreshold": 3});
    json_patch::merge(&mut probe, action);
    probe
}

/// Returns a SidecarSet's container whose readiness a command tells. Without a probe, a container is ready as soon as it
/// runs, for however short a time.
fn probed() -> Value {
    sidecar(&json!({"readinessProbe": probe(&json!({"exec": {"command": ["cat", "/ready"]}}))}))
}

fn deadline(time: &str) -> Value {
    json!({"pillion.dev/progress-deadline": time})
}

/// Returns how many Pods have a container that waits for one of these reasons.
fn waiting(pods: &[Value], reasons: &[&str]) -> usize {
    pods.iter().filter(|pod| reasons.contains(&waits_for(pod, AGENT))).count()
}

/// Checks that a version that runs reaches all Pods, the broken ones too, and waits for nothing.
async fn assert_repaired(scene: &Scene, pods: usize, most: usize) {
    let took = scene.released(NEW).await;
    assert!(took.unavailable <= most, "{}", took.unavailable);
    assert!(took.seconds < AT_ONCE.as_secs_f64(), "{} s", took.seconds);
    assert_eq!(scene.versions(AGENT).await, vec!["v2"; pods]);
    assert_eq!(scene.restarts("app").await, vec![0; pods], "the app goes on");
}

#[rstest]
#[case::that_no_registry_has("IfNotPresent", &["ErrImagePull", "ImagePullBackOff"])]
#[case::that_is_never_pulled("Never", &["ErrImageNeverPull"])]
#[tokio::test(flavor = "multi_thread")]
async fn roll61_an_image_that_is_missing_stops_within_the_budget(#[case] policy: &str, #[case] reasons: &[&str]) {
    let scene = Scene::new(cluster().await).await;
    let container = sidecar(&json!({"imagePullPolicy": policy}));
    let fields = json!({"containers": [container], "updateStrategy": {"maxUnavailable": 2}});
    scene.run(&scene.set(&deadline(PATIENT), &fields), 3).await;
    let since = scene.writes();

    scene.place.release(AGENT, "agent:missing").await;

    scene.until_pods("two Pods without their image", |pods| waiting(pods, reasons) == 2).await;
    scene.place.ended(AGENT, "RollingOut").await;
    assert_eq!(scene.place.all_upgrades().await.len(), 2);

    scene.place.change(AGENT, &json!({"updateStrategy": {"maxUnavailable": 1}})).await;
    let stored = scene.place.ended(AGENT, "ContainersFail").await;
    let message = condition(&stored, "Stalled")["message"].as_str().unwrap();
    assert!(message.contains("2 Pods") && message.contains("cannot be pulled"), "{message}");
    assert_eq!(scene.unavailable(since, image::is_same), 2);
    assert_repaired(&scene, 3, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn roll61_roll62_containers_that_crash_go_back_and_a_good_version_follows() {
    let scene = Scene::new(cluster().await).await;
    let mut annotations = deadline(PATIENT);
    annotations["pillion.dev/rollback"] = json!("true");
    let fields = json!({"containers": [probed()], "updateStrategy": {"maxUnavailable": 2}});
    scene.run(&scene.set(&annotations, &fields), 3).await;
    let since = scene.writes();
    scene.place.release(AGENT, "agent:crash").await;
    scene.until_pods("two Pods that crash", |pods| waiting(pods, &["CrashLoopBackOff"]) == 2).await;
    assert_eq!(scene.place.all_upgrades().await.len(), 2, "as many as maxUnavailable");

    // More than are allowed: the rollout fails without waiting for its deadline.
    scene.place.change(AGENT, &json!({"updateStrategy": {"maxUnavailable": 1}})).await;

    let stored = scene.place.ended(AGENT, "RolledBack").await;
    let message = condition(&stored, "Stalled")["message"].as_str().unwrap();
    assert!(
        message.contains("ContainersFail") && message.contains("2 Pods") && message.contains("crashes"),
        "{message}"
    );
    assert_eq!(scene.events("ContainersFail").await.len(), 1);
    assert_eq!(scene.versions(AGENT).await, ["v1"; 3]);
    assert_eq!(scene.place.all_upgrades().await.len(), 4, "there and back");
    assert_eq!(scene.unavailable(since, image::is_same), 2);
    assert_repaired(&scene, 3, 1).await;
}

const SERVE: &str = "httpd -p 8080 -h /www; trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done";

#[rstest]
#[case::by_a_command(json!({"exec": {"command": ["cat", "/ready"]}}))]
#[case::by_http(json!({"httpGet": {"path": "/ready", "port": 8080}}))]
#[tokio::test(flavor = "multi_thread")]
async fn roll61_containers_that_never_get_ready_stop_and_are_undone(#[case] action: Value) {
    let scene = Scene::new(cluster().await).await;
    let container = sidecar(&json!({"command": ["sh", "-c", SERVE], "readinessProbe": probe(&action)}));
    scene.run(&scene.set(&deadline("6s"), &json!({"containers": [container]})), 3).await;
    let since = scene.writes();

    scene.place.release(AGENT, "agent:unready").await;

    scene.place.ended(AGENT, "ProgressDeadlineExceeded").await;
    assert_eq!(scene.place.all_upgrades().await.len(), 1);
    let unready = |pod: &&Value| container_state(pod) == (true, false);
    assert_eq!(scene.pods().await.iter().filter(unready).count(), 1, "it runs, and is not ready");

    // Nothing is to fail for the time that a busy machine takes.
    edit_set(&scene.place, &json!({"metadata": {"annotations": deadline(PATIENT)}})).await;
    let undo = async || {
        let mut command = Command::new(program());
        command.args(["rollout", "undo", &scene.place.set_name(AGENT), "--kubeconfig"]);
        command.arg(scene.cluster.admin_kubeconfig_file());
        let output = finished(command).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    scene.rolled_out(OLD, undo).await;
    assert_eq!(scene.unavailable(since, image::is_same), 1);

    assert_repaired(&scene, 3, 1).await;
}

/// Returns whether the sidecar of a Pod runs, and whether it is ready.
fn container_state(pod: &Value) -> (bool, bool) {
    let status = container(pod, AGENT);
    (status["state"]["running"].is_object(), status["ready"] == true)
}
