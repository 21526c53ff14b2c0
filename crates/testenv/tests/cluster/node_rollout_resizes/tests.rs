//! What containers have after a resize, as their cgroups say.

use pillion_testenv::Image;
use rstest::rstest;
use serde_json::{Value, json};

use super::cluster;
use crate::node_rollouts::{AGENT, Scene, sidecar};
use crate::rollout::{NEW, OLD};

fn resizable() -> Value {
    json!({"pillion.dev/upgrade-policy": "Resize"})
}

fn amounts(cpu: &str, memory: u32) -> Value {
    json!({"limits": {"cpu": cpu, "memory": format!("{memory}Mi")}})
}

#[tokio::test(flavor = "multi_thread")]
async fn roll65_containers_that_run_get_more_and_less() {
    let scene = Scene::new(cluster().await).await;
    let with = |image: &str, cpu: &str, memory: u32| json!({"containers": [sidecar(&json!({"image": image, "resources": amounts(cpu, memory)}))]});
    scene.run(&scene.set(&resizable(), &with(OLD, "50m", 32)), 2).await;

    for (image, cpu, amount, restarts) in [
        (OLD, "100m", 64, 0),
        (OLD, "50m", 32, 0),
        // With another image, the container restarts.
        (NEW, "100m", 64, 1),
    ] {
        let change = async || scene.place.change(AGENT, &with(image, cpu, amount)).await;
        scene.rolled_out(image, change).await;
        assert_eq!(scene.memory(AGENT).await, vec![amount.to_string(); 2]);
        assert_eq!(scene.restarts(AGENT).await, [restarts; 2]);
    }
    assert_eq!(scene.restarts("app").await, [0; 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn roll65_a_container_restarts_for_new_memory_if_it_says_so() {
    let scene = Scene::new(cluster().await).await;
    let with = |memory: u32| {
        let policy = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
        json!({"containers": [sidecar(&json!({"resources": amounts("50m", memory), "resizePolicy": policy}))]})
    };
    scene.run(&scene.set(&resizable(), &with(32)), 2).await;

    for (restarts, amount) in [(1, 64), (2, 32)] {
        let change = async || scene.place.change(AGENT, &with(amount)).await;
        scene.rolled_out(OLD, change).await;
        assert_eq!(scene.memory(AGENT).await, vec![amount.to_string(); 2]);
        assert_eq!(scene.restarts(AGENT).await, [restarts; 2]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ovr8_ovr10_containers_run_with_what_their_pods_override() {
    let scene = Scene::new(cluster().await).await;
    let with = |image: &str, memory: u32| {
        let level = json!([{"name": "LEVEL", "value": "info"}]);
        json!({"containers": [sidecar(&json!({"image": image, "resources": amounts("50m", memory), "env": level}))]})
    };
    let mut annotations = resizable();
    let rules =
        json!({"containers": {AGENT: {"memory": {"max": "1Gi"}, "env": {"LEVEL": "debug|info"}, "imageTags": ["v2"]}}});
    annotations["pillion.dev/overrides"] = rules.to_string().into();
    let asked = json!({"resources": {"limits": {"memory": "48Mi"}}, "env": {"LEVEL": "debug"}, "imageTag": "v2"});
    let asked = json!({"overrides.pillion.dev/agent": asked.to_string()});
    scene.run_with(&scene.set(&annotations, &with(OLD, 32)), 2, &asked).await;

    let holds = async |restarts: u64| {
        assert_eq!(scene.memory(AGENT).await, ["48"; 2]);
        assert_eq!(scene.versions(AGENT).await, ["v2"; 2]);
        assert_eq!(scene.printed(|_| AGENT.to_owned(), "echo $LEVEL").await, ["debug"; 2]);
        assert_eq!(scene.restarts(AGENT).await, [restarts; 2]);
    };
    holds(0).await;
    // The Pods get the version, and keep what they override, so nothing is left to change in them.
    scene.place.change(AGENT, &with(NEW, 64)).await;
    scene.place.complete(AGENT, 2).await;
    holds(0).await;
}

/// Returns a SidecarSet's fields with a sidecar of a kind that has this image and this much memory.
fn native(image: &str, memory: u32) -> Value {
    let proxy =
        json!({"name": "proxy", "image": image, "restartPolicy": "Always", "resources": amounts("50m", memory)});
    json!({"initContainers": [proxy]})
}

fn pair(image: &str, memory: u32) -> Value {
    let strategy = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "agent:empty"});
    let proxy =
        json!({"name": "proxy", "image": image, "upgradeStrategy": strategy, "resources": amounts("50m", memory)});
    json!({"containers": [sidecar(&json!({})), proxy]})
}

#[rstest]
#[case::native_sidecars(native, &["proxy"])]
#[case::both_halves_of_a_pair(pair, &["proxy-1", "proxy-2"])]
#[tokio::test(flavor = "multi_thread")]
async fn roll65_other_sidecars_are_resized(#[case] fields: fn(&str, u32) -> Value, #[case] containers: &[&str]) {
    let scene = Scene::new(cluster().await).await;
    let annotations = json!({"pillion.dev/upgrade-policy": "Resize", "pillion.dev/native-upgrade": "true"});
    scene.run(&scene.set(&annotations, &fields(OLD, 32)), 2).await;

    for (image, amount) in [(OLD, 64), (NEW, 48)] {
        let change = async || scene.place.change(AGENT, &fields(image, amount)).await;
        let took = scene.rolled_out(OLD, change).await;
        assert!(took.unavailable <= 1, "{}", took.unavailable);
        for container in containers {
            assert_eq!(scene.memory(container).await, vec![amount.to_string(); 2], "{container}");
        }
    }
    assert_eq!(scene.restarts(AGENT).await, [0; 2]);
}

/// The image of the half that does not work.
pub fn empty() -> Image {
    Image::busybox("docker.io/library/agent:empty")
}
