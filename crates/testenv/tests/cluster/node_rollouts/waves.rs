//! Figures for docs/benchmarks.md: seconds per wave of a rollout, beside those that a kubelet needs for Pods whose images
//! a client changes by hand, one after the other.

use std::time::Instant;

use kube::api::{Patch, PatchParams};
use pillion_testenv::until;
use serde_json::{Value, json};

use super::{AGENT, Scene, cluster, sidecar};
use crate::rollout::{NEW, OLD};
use crate::support::is_ready;
use crate::support::node::{STARTED, container, ready};
use crate::support::{as_new, create};

/// The Pods of each rollout, which are upgraded one after the other.
const PODS: u8 = 4;
const EMPTY: &str = "hot:empty";

/// A kind of upgrade.
struct UpgradeKind {
    name: &'static str,
    annotations: Value,
    /// The fields of the SidecarSet with an image.
    fields: fn(&str) -> Value,
    /// The changes that a client makes by hand: the list, the container and the image.
    by_hand: &'static [(&'static str, &'static str, &'static str)],
}

fn upgrade_kinds() -> [UpgradeKind; 3] {
    [
        UpgradeKind {
            name: "cold",
            annotations: json!({}),
            fields: |image| json!({"containers": [sidecar(&json!({"image": image}))]}),
            by_hand: &[("containers", AGENT, NEW)],
        },
        UpgradeKind {
            name: "native sidecar",
            annotations: json!({"pillion.dev/native-upgrade": "true"}),
            fields: |image| json!({"containers": [], "initContainers": [{"name": AGENT, "image": image, "restartPolicy": "Always"}]}),
            by_hand: &[("initContainers", AGENT, NEW)],
        },
        UpgradeKind {
            name: "hot",
            annotations: json!({}),
            fields: |image| {
                let strategy = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": EMPTY});
                json!({"containers": [sidecar(&json!({"image": image, "upgradeStrategy": strategy}))]})
            },
            by_hand: &[("containers", "agent-2", NEW), ("containers", "agent-1", EMPTY)],
        },
    ]
}

/// Changes the images of copies of a Pod, which no SidecarSet selects, one copy after the other. Returns the seconds until
/// a copy is ready again.
async fn by_hand(scene: &Scene, pod: &Value, changes: &[(&str, &str, &str)]) -> f64 {
    let names: Vec<String> = (0..PODS).map(|number| format!("alone-{number}")).collect();
    for name in &names {
        let mut alone = as_new(pod);
        alone["metadata"]["name"] = json!(name);
        alone["metadata"]["labels"] = json!({"app": "alone"});
        create(&scene.place.pods(), &alone).await.unwrap();
        ready(&scene.place.client, &scene.place.name, name).await;
    }
    let read = async |name: &str| json!(scene.place.pods().get(name).await.unwrap());
    let started = Instant::now();
    for name in &names {
        for (list, container_name, image) in changes {
            let before = container(&read(name).await, container_name)["containerID"].clone();
            let patch = Patch::Strategic(json!({"spec": {*list: [{"name": container_name, "image": image}]}}));
            scene.place.pods().patch(name, &PatchParams::default(), &patch).await.unwrap();
            let restarted = async || {
                let pod = read(name).await;
                (container(&pod, container_name)["containerID"] != before && is_ready(&pod)).then_some(())
            };
            until("the restart", STARTED, restarted).await.unwrap();
        }
    }
    let seconds = (started.elapsed() / u32::from(PODS)).as_secs_f64();
    for name in &names {
        scene.place.delete_pod(name).await;
    }
    seconds
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints figures: make bench-node"]
async fn seconds_per_wave() {
    println!("| upgrade | waves | seconds per wave | by hand |\n| --- | ---: | ---: | ---: |");
    for UpgradeKind { name, annotations, fields, by_hand: changes } in upgrade_kinds() {
        let scene = Scene::new(cluster().await).await;
        scene.run(&scene.set(&annotations, &fields(OLD)), usize::from(PODS)).await;
        let before = scene.pods().await.remove(0);
        let started = Instant::now();
        scene.place.change(AGENT, &fields(NEW)).await;
        scene.place.ended(AGENT, "Complete").await;
        let seconds = (started.elapsed() / u32::from(PODS)).as_secs_f64();
        // The nodes have used the images by now, as in the waves after the first.
        let alone = by_hand(&scene, &before, changes).await;
        println!("| {name} | {PODS} | {seconds:.1} | {alone:.1} |");
    }
}
