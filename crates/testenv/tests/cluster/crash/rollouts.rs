//! The objects of a rollout: a SidecarSet and two Pods, of which at most one may be unavailable.

use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams};
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use serde_json::{Value, json};

use super::objects::{self, find};

/// The Pods, in the order of their upgrades.
pub const PODS: [&str; 2] = ["web-0", "web-1"];
const NEW: &str = "agent:v2";

/// Returns a SidecarSet as admission stores it, for the Pods of a namespace.
pub fn sidecar_set(namespace: &str) -> Value {
    let first = json!({"weight": 1, "matchSelector": {"matchLabels": {"name": PODS[0]}}});
    let set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "logs"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "containers": [{"name": "agent", "image": NEW}],
            "updateStrategy": {"maxUnavailable": 1, "priorityStrategy": {"weightPriority": [first]}},
        },
    });
    prepared(&SidecarSet::from_decoded(set)).into_value()
}

/// Returns a Pod that was injected by an earlier version of the SidecarSet.
pub fn pod(set: &Value, namespace: &str, name: &str) -> Value {
    let without_image = &set["metadata"]["annotations"]["kruise.io/sidecarset-hash-without-image"];
    let record = |hash: &Value| json!({"logs": {"hash": hash, "sidecarSetName": "logs", "sidecarList": ["agent"]}});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace, "labels": {"app": "web", "name": name},
            "annotations": {
                "kruise.io/sidecarset-hash": record(&json!("old")).to_string(),
                "kruise.io/sidecarset-hash-without-image": record(without_image).to_string(),
                "kruise.io/sidecarset-injected-list": "logs",
            },
        },
        "spec": {
            "automountServiceAccountToken": false,
            "containers": [{"name": "agent", "image": "agent:v1"}, {"name": "main", "image": "app:1"}],
        },
    })
}

/// Lets the containers of a Pod run the images of its spec, as a kubelet would.
pub async fn restart_containers(client: &Client, namespace: &str, name: &str) {
    let pods = objects::api(client, namespace, "Pod");
    let pod: DynamicObject = pods.get(name).await.unwrap();
    let status = |container: &Value| {
        let image = &container["image"];
        json!({"name": container["name"], "image": image, "imageID": image, "ready": true, "restartCount": 0})
    };
    let statuses: Vec<Value> = pod.data["spec"]["containers"].as_array().unwrap().iter().map(status).collect();
    let mut conditions = pod.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.retain(|condition| condition["type"] != "Ready");
    conditions.push(json!({"type": "Ready", "status": "True"}));
    let status = json!({"phase": "Running", "conditions": conditions, "containerStatuses": statuses});
    let patch = Patch::Merge(json!({"status": status}));
    pods.patch_subresource("status", name, &PatchParams::default(), &patch).await.unwrap();
}

/// Whether the work of a phase is done. In each, one more Pod has the new image, until both have it.
pub fn is_done(objects: &[Value], phase: usize) -> bool {
    let updated = (phase + 1).min(PODS.len());
    let has_new =
        |name: &&str| find(objects, "Pod", name).is_some_and(|pod| pod["spec"]["containers"][0]["image"] == NEW);
    let set = objects.iter().find(|object| object["kind"] == "SidecarSet");
    let reason = if phase < PODS.len() { "PodsNotReady" } else { "Complete" };
    let reason = if phase == 0 { "RollingOut" } else { reason };
    PODS.iter().filter(|name| has_new(name)).count() == updated
        && set.is_some_and(|set| {
            set["status"]["updatedPods"] == updated && set["status"]["conditions"][0]["reason"] == reason
        })
}
