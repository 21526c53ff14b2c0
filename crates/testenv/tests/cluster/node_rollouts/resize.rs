//! A resize that the kubelet accepts and cannot carry out, because a container uses more memory than it may have then.

use serde_json::json;

use super::{AGENT, Scene, cluster, condition, sidecar};
use crate::rollout::OLD;

#[tokio::test(flavor = "multi_thread")]
async fn roll65_a_resize_that_the_kubelet_does_not_get_done_is_told_until_it_is_done() {
    let scene = Scene::new(cluster().await).await;
    let with = |memory: &str| {
        let resources = json!({"limits": {"memory": memory, "cpu": "100m"}});
        json!({"containers": [sidecar(&json!({"resources": resources}))]})
    };
    scene.run(&scene.set(&json!({"pillion.dev/upgrade-policy": "Resize"}), &with("64Mi")), 2).await;
    let run = async |line: &str| scene.printed(|_| AGENT.to_owned(), line).await;
    run("dd if=/dev/zero of=/dev/shm/held bs=1M count=24 2>/dev/null").await;

    let resize = async || {
        scene.place.change(AGENT, &with("16Mi")).await;

        let says = |text: &str| text.contains("cannot decrease memory limits");
        scene.until_event("ResizeFailed", says).await;
        let stored = scene.place.ended(AGENT, "RollingOut").await;
        let message = condition(&stored, "Ready")["message"].as_str().unwrap();
        assert!(says(message) && message.contains(&scene.place.name), "{message}");
        assert_eq!(stored["status"]["updatedPods"], 0, "maxUnavailable is 1");

        // The kubelet tries again by itself.
        run("rm /dev/shm/held").await;
    };
    let took = scene.rolled_out(OLD, resize).await;

    assert_eq!(took.unavailable, 0, "no container restarts");
    assert_eq!(scene.restarts(AGENT).await, [0; 2]);
    assert_eq!(scene.memory(AGENT).await, ["16"; 2]);
}
