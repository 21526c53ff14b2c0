//! Upgrades in place of containers that run.

use pillion_sidecarset::image;
use pillion_testenv::Image;
use rstest::rstest;
use serde_json::{Value, json};

use super::{AGENT, Scene, cluster, sidecar};
use crate::rollout::{NEW, OLD};
use crate::support::node::container;

/// The last version of the sidecar.
const LAST: &str = "agent:v3";
/// The image of the half of a hot-upgrade pair that does not work.
const EMPTY: &str = "hot:empty";

/// What a version does when it takes over: nothing if it is the first one, else something that takes time. Both halves
/// see `/shared`.
const MIGRATION: &str = r#"
[ "$SIDECARSET_VERSION_ALT" = 0 ] && exit 0
sleep 3
cp /version "/shared/taken-over-by-$(cat /version)"
"#;
/// What a version does at its end: it records what it saw of the one that took over.
const HANDING_OVER: &str = r#"
trap 'ls /shared > "/seen"; cp /seen "/shared/seen-by-$(cat /version)"; exit 0' TERM
while :; do sleep 1 & wait $!; done
"#;

/// The images of these tests.
pub fn images() -> Vec<Image> {
    let hot = |tag: &str| {
        Image::busybox(format!("docker.io/library/hot:{tag}"))
            .file("version", tag)
            .file("migrate.sh", MIGRATION)
            .file("run.sh", HANDING_OVER)
            .command(["sh", "/run.sh"])
    };
    let empty = Image::busybox(format!("docker.io/library/{EMPTY}")).file("migrate.sh", "");
    vec![hot("v1"), hot("v2"), hot("v3"), empty]
}

#[tokio::test(flavor = "multi_thread")]
async fn roll35_no_more_pods_than_allowed_are_unavailable_at_any_moment() {
    let scene = Scene::new(cluster().await).await;
    scene.run(&scene.set(&json!({}), &json!({"updateStrategy": {"maxUnavailable": 1}})), 4).await;

    let one = scene.released(NEW).await;
    scene.place.change(AGENT, &json!({"updateStrategy": {"maxUnavailable": "50%"}})).await;
    let half = scene.released(LAST).await;

    assert_eq!((one.unavailable, half.unavailable), (1, 2));
    assert_eq!(scene.versions(AGENT).await, ["v3"; 4]);
    assert_eq!(scene.restarts(AGENT).await, [2; 4]);
    assert_eq!(scene.restarts("app").await, [0; 4], "the app goes on");
    assert!(half.seconds < one.seconds, "{} s, {} s", half.seconds, one.seconds);
}

/// Returns the half of the pair that works.
fn working(pod: &Value) -> String {
    let annotation = &pod["metadata"]["annotations"]["kruise.io/sidecarset-working-hotupgrade-container"];
    let working: Value = serde_json::from_str(annotation.as_str().unwrap()).unwrap();
    working[AGENT].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn roll47_the_old_half_ends_after_the_new_one_has_taken_over() {
    let scene = Scene::new(cluster().await).await;
    let container = sidecar(&json!({
        "image": "hot:v1",
        "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": EMPTY},
        "lifecycle": {"postStart": {"exec": {"command": ["sh", "/migrate.sh"]}}},
        "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
    }));
    let fields = json!({"containers": [container], "volumes": [{"name": "shared", "emptyDir": {}}]});
    scene.run(&scene.set(&json!({}), &fields), 2).await;

    for (before, after) in [("v1", "v2"), ("v2", "v3")] {
        let since = scene.writes();
        scene.place.release(AGENT, &format!("hot:{after}")).await;
        scene.place.ended(AGENT, "Complete").await;

        assert_eq!(scene.printed(working, "cat /version").await, [after; 2]);
        let seen = scene.printed(working, &format!("cat /shared/seen-by-{before}")).await;
        let has_taken_over = |seen: &String| seen.lines().any(|line| line == format!("taken-over-by-{after}"));
        assert!(seen.iter().all(has_taken_over), "{seen:?}");
        assert_eq!(scene.unavailable(since, image::is_same), 1);
    }
    assert_eq!(scene.restarts("app").await, [0; 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn roll63_a_native_sidecar_restarts_alone() {
    let scene = Scene::new(cluster().await).await;
    let proxy = |image: &str| json!([{"name": "proxy", "image": image, "restartPolicy": "Always"}]);
    let fields = json!({"initContainers": proxy(OLD), "updateStrategy": {"maxUnavailable": 2}});
    scene.run(&scene.set(&json!({"pillion.dev/native-upgrade": "true"}), &fields), 3).await;

    let change = async || scene.place.change(AGENT, &json!({"initContainers": proxy(NEW)})).await;
    let took = scene.rolled_out(OLD, change).await;

    assert_eq!(took.unavailable, 2);
    assert_eq!(scene.versions("proxy").await, ["v2"; 3]);
    assert_eq!(scene.restarts("proxy").await, [1; 3]);
    assert_eq!([scene.restarts("app").await, scene.restarts(AGENT).await], [[0; 3]; 2]);
}

/// A second edit comes when the first one has reached a Pod, and before or after the kubelet has seen it.
#[rstest]
#[case::another_version(LAST, "v3")]
#[case::the_version_before(OLD, "v1")]
#[tokio::test(flavor = "multi_thread")]
async fn roll20_roll35_an_edit_in_the_middle_keeps_to_the_budget(#[case] image: &str, #[case] version: &str) {
    let scene = Scene::new(cluster().await).await;
    scene.run(&scene.set(&json!({}), &json!({})), 3).await;

    let edits = async || {
        scene.place.release(AGENT, NEW).await;
        scene.place.upgraded(1).await;
        scene.place.release(AGENT, image).await;
    };
    let took = scene.rolled_out(image, edits).await;

    assert_eq!(took.unavailable, 1);
    assert_eq!(scene.versions(AGENT).await, vec![version; 3]);
    let restarts = scene.restarts(AGENT).await;
    assert!(restarts.iter().all(|restarts| *restarts <= 2), "{restarts:?}");
    scene
        .until_pods("all containers running the image of the spec", |pods| {
            let runs = |pod: &Value| image::is_same(container(pod, AGENT)["image"].as_str().unwrap_or_default(), image);
            pods.iter().all(runs)
        })
        .await;
}
