//! Writes statuses of Pods at a constant rate, as kubelets do.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};

use super::corpus::Corpus;
use super::populate::send;

/// Maximum number of concurrent writes.
const AT_ONCE: usize = 64;

/// How fast statuses are written, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Statuses {
    /// Writes per second.
    pub rate: u32,
    pub time: Duration,
}

/// A Pod and the names of its containers.
pub struct Pod {
    path: String,
    containers: Vec<String>,
}

/// Returns all Pods.
pub fn pods(corpus: &Corpus) -> Vec<Pod> {
    corpus.places.iter().flat_map(|place| corpus.objects(place)).filter_map(|object| pod(&object)).collect()
}

/// Writes the status of one Pod after the other, and begins again after the last. Each write changes which containers
/// are ready, and how often they were restarted. Returns the number of writes.
pub async fn write(client: &Client, pods: &[Pod], Statuses { rate, time }: Statuses) -> usize {
    let mut ticks = interval(Duration::from_secs(1) / rate);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let total = usize::try_from(u64::from(rate) * time.as_secs()).unwrap();
    let turns = (0..total).map(|number| (&pods[number % pods.len()], number / pods.len()));
    let paced = stream::unfold((ticks, turns), |(mut ticks, mut turns)| async move {
        ticks.tick().await;
        turns.next().map(|turn| (turn, (ticks, turns)))
    });
    let writes = paced.map(|(pod, round)| async move {
        send(client, "PATCH", &pod.path, "application/merge-patch+json", &status(pod, round)).await
    });
    writes.buffer_unordered(AT_ONCE).count().await
}

/// Returns a Pod of the objects of a namespace; `None` for other kinds.
fn pod(object: &Value) -> Option<Pod> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let containers = object.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten();
    (object["kind"] == "Pod").then(|| Pod {
        path: format!("/api/v1/namespaces/{}/pods/{}/status", text("/metadata/namespace"), text("/metadata/name")),
        containers: containers.filter_map(|it| it["name"].as_str().map(str::to_owned)).collect(),
    })
}

/// Returns the status that a kubelet writes: in even rounds the containers are ready, in odd ones they have ended.
fn status(pod: &Pod, round: usize) -> Value {
    let is_ready = round.is_multiple_of(2);
    let now = Timestamp::now().to_string();
    let condition = |kind: &str, holds: bool| json!({"type": kind, "status": if holds { "True" } else { "False" }, "lastTransitionTime": now});
    let container = |name: &String| {
        let ended = json!({"terminated": {"exitCode": 1, "reason": "Error", "startedAt": now, "finishedAt": now}});
        json!({
            "name": name, "image": "registry.example.com/app:1", "ready": is_ready, "started": is_ready,
            "imageID": "registry.example.com/app@sha256:6d5f1b0c7b1e3f0f5bb4c0a1a9f5f0f5b9b1d7c0f0c8a4e1f2d3c4b5a6978899",
            "containerID": "containerd://0f1e2d3c4b5a69788990a1b2c3d4e5f60718293a4b5c6d7e8f9001122334455",
            "restartCount": round / 2, "lastState": {},
            "state": if is_ready { json!({"running": {"startedAt": now}}) } else { ended }
        })
    };
    json!({"status": {
        "phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.1.0.1", "startTime": now, "qosClass": "Burstable",
        "conditions": [
            condition("Initialized", true), condition("Ready", is_ready),
            condition("ContainersReady", is_ready), condition("PodScheduled", true)
        ],
        "containerStatuses": pod.containers.iter().map(container).collect::<Vec<Value>>()
    }})
}
