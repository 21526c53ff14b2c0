//! Tests of the rules, with SidecarSets and Pods as clusters have them.

mod absences;
mod deadline;
mod decisions;
mod dry_runs;
mod evictions;
mod failures;
mod follows;
mod forms;
mod kubelet;
mod lefts;
mod natives;
mod overrides;
mod pods;
mod properties;
mod recreations;
mod reports;
mod resizes;
mod revisions;
mod rounds;
mod running;
mod simulations;
mod upgrades;

use pillion_kubernetes::time::Timestamp;
use pillion_plan::Step;
use pillion_plan::failure::{FAILED, Failed};
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use pillion_sidecarset::upgrades::Upgrades;
use serde_json::{Value, json};

use crate::history::{History, Revision};
use crate::pod::Pod;

pub(super) const NOW: Timestamp = Timestamp(1_767_323_045);
pub(super) const HASH: &str = "kruise.io/sidecarset-hash";
pub(super) const WITHOUT_IMAGE: &str = "kruise.io/sidecarset-hash-without-image";
pub(super) const STATE: &str = "kruise.io/sidecarset-inplace-update-state";
pub(super) const WORKING: &str = "kruise.io/sidecarset-working-hotupgrade-container";

/// Returns a SidecarSet `logs` with a sidecar `agent`, whose fields and strategy are given.
pub(super) fn sidecar_set(sidecar: &Value, strategy: &Value) -> SidecarSet {
    let mut container = json!({"name": "agent", "image": "agent:v2"});
    merge(&mut container, sidecar);
    prepared(&SidecarSet::from_decoded(json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
        "metadata": {"name": "logs", "uid": "u", "resourceVersion": "7", "generation": 2},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}}, "containers": [container], "updateStrategy": strategy,
        },
    })))
}

pub(super) fn cold() -> SidecarSet {
    sidecar_set(&json!({}), &json!({}))
}

pub(super) fn hot() -> SidecarSet {
    let upgrade = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
    sidecar_set(&json!({"upgradeStrategy": upgrade}), &json!({}))
}

pub(super) fn merge(into: &mut Value, more: &Value) {
    for (key, value) in more.as_object().into_iter().flatten() {
        into[key] = value.clone();
    }
}

/// Returns a Pod `web` with `agent:v1`, injected by an earlier version of this SidecarSet, running and ready.
/// `changes` are values by JSON Pointer.
pub(super) fn pod(set: &SidecarSet, changes: &[(&str, Value)]) -> Value {
    let record = |hash: &str| json!({"logs": {"hash": hash, "sidecarSetName": "logs", "sidecarList": ["agent"]}});
    let mut pod = json!({
        "metadata": {
            "namespace": "shop", "name": "web", "uid": "p", "resourceVersion": "3", "labels": {"app": "web"},
            "annotations": {
                HASH: record("old").to_string(), WITHOUT_IMAGE: record(set.annotation(WITHOUT_IMAGE)).to_string(),
                "kruise.io/sidecarset-injected-list": "logs",
            },
        },
        "spec": {
            "nodeName": "n", "containers": [{"name": "agent", "image": "agent:v1"}, {"name": "main", "image": "app:1"}],
        },
        "status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [status("agent", "agent:v1"), status("main", "app:1")],
        },
    });
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = pod.pointer_mut(parent).unwrap();
        match key.parse::<usize>() {
            Ok(index) => parent[index] = value.clone(),
            Err(_) => parent[key.replace("~1", "/")] = value.clone(),
        }
    }
    pod
}

/// Returns the Pod of a hot-upgrade pair: `agent-1` works with `agent:v1`, `agent-2` is idle.
pub(super) fn paired(set: &SidecarSet, changes: &[(&str, Value)]) -> Value {
    let containers = json!([
        {"name": "agent-1", "image": "agent:v1"}, {"name": "agent-2", "image": "empty:1"},
        {"name": "main", "image": "app:1"},
    ]);
    let statuses = json!([status("agent-1", "agent:v1"), status("agent-2", "empty:1"), status("main", "app:1")]);
    let mut of_pair = vec![
        ("/spec/containers", containers),
        ("/status/containerStatuses", statuses),
        ("/metadata/annotations/kruise.io~1sidecarset-working-hotupgrade-container", json!(r#"{"agent":"agent-1"}"#)),
        ("/metadata/annotations/version.sidecarset.kruise.io~1agent-1", json!("1")),
        ("/metadata/annotations/versionalt.sidecarset.kruise.io~1agent-1", json!("0")),
        ("/metadata/annotations/version.sidecarset.kruise.io~1agent-2", json!("0")),
        ("/metadata/annotations/versionalt.sidecarset.kruise.io~1agent-2", json!("1")),
    ];
    of_pair.extend_from_slice(changes);
    pod(set, &of_pair)
}

/// The upgrade policy `Resize` alone.
pub(super) const RESIZE: Upgrades =
    Upgrades { resize: true, recreate: false, native: false, progress_deadline: None, rollback: false };

/// Returns the status of a ready container that runs an image.
pub(super) fn status(name: &str, image: &str) -> Value {
    json!({"name": name, "image": image, "imageID": format!("docker://sha256:{image}"), "ready": true, "restartCount": 0})
}

/// Gives the statuses of a Pod what its spec asks for, as the kubelet does.
pub(super) fn report_containers(pod: &mut Value) {
    let statuses = pod["spec"]["containers"].as_array().unwrap().iter().map(|container| {
        let mut status = status(container["name"].as_str().unwrap(), container["image"].as_str().unwrap());
        status["resources"] = container["resources"].clone();
        status
    });
    pod["status"]["containerStatuses"] = statuses.collect();
}

pub(super) fn read(pod: &Value) -> Pod {
    Pod::decode(pod).unwrap()
}

/// Returns an object after a step, as an API server would store it.
pub(super) fn after(object: &Value, step: &Step) -> Value {
    let Step::JsonPatch { operations, .. } = step else { panic!("not a JSON Patch: {step:?}") };
    let mut after = object.clone();
    let patch: json_patch::Patch = serde_json::from_value(Value::Array(operations.clone())).unwrap();
    json_patch::patch(&mut after, &patch).unwrap();
    after
}

/// Returns the revision that stores a version, with these metadata beside its own.
pub(super) fn revision(set: &SidecarSet, number: i64, metadata: &Value) -> Revision {
    let mut object = History::new(set, "u", []).new_revision(number, 0, "u", "kruise-system");
    let mut annotations = object["metadata"]["annotations"].take();
    merge(&mut annotations, &metadata["annotations"]);
    object["metadata"]["uid"] = json!(format!("r{number}"));
    merge(&mut object["metadata"], metadata);
    object["metadata"]["annotations"] = annotations;
    Revision::from_controller_revision(&ControllerRevision::decode(object).unwrap())
}

/// Returns the annotation with the record of a failure.
fn failed(record: &Failed) -> Value {
    json!({"annotations": {FAILED: record.text()}})
}
