//! The Pod that a workload would create, for a dry run (ROLL-67).

use pillion_kubernetes::json;
use serde_json::{Value, json};

use crate::pod::Pod;
use crate::target::RolloutTarget;

/// Returns the Pod that a workload would create in place of an evicted one: its template, with the volumes of a
/// `StatefulSet`'s claims. Returns `None` if the workload has no template.
pub fn pod(workload: &Value) -> Option<Value> {
    let template = workload.pointer("/spec/template")?;
    let text = |path: &[&str]| json::text(workload, path);
    let mut spec = template.get("spec")?.clone();
    let claims = json::items(workload, &["spec", "volumeClaimTemplates"]).iter().map(|claim| {
        let name = json::text(claim, &["metadata", "name"]);
        json!({"name": name, "persistentVolumeClaim": {"claimName": format!("{name}-{}", text(&["metadata", "name"]))}})
    });
    let claims: Vec<Value> = claims.collect();
    if !claims.is_empty() {
        let volumes = spec.as_object_mut()?.entry("volumes").or_insert_with(|| json!([]));
        let volumes = volumes.as_array_mut()?;
        volumes.retain(|volume| claims.iter().all(|claim| claim.get("name") != volume.get("name")));
        volumes.extend(claims);
    }
    let metadata = |key: &str| json::object(template, &["metadata", key]).cloned().unwrap_or_default();
    Some(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": format!("{}-", text(&["metadata", "name"])),
            "namespace": text(&["metadata", "namespace"]),
            "labels": metadata("labels"),
            "annotations": metadata("annotations"),
            "ownerReferences": [{
                "apiVersion": text(&["apiVersion"]), "kind": text(&["kind"]), "name": text(&["metadata", "name"]),
                "uid": text(&["metadata", "uid"]), "controller": true,
            }],
        },
        "spec": spec,
    }))
}

/// Checks that a Pod, as the API server would store it, has the version.
///
/// # Errors
/// Why it does not have it, without a full stop.
pub fn check(target: &RolloutTarget<'_>, stored: &Value) -> Result<(), String> {
    let pod = Pod::decode(stored).map_err(|error| format!("the answer to a dry run cannot be read: {error}"))?;
    if target.recorded_hash(pod.records()) == target.hash() {
        return Ok(());
    }
    let kind = pod.metadata.owner.as_deref().map_or("its controller", |owner| owner.kind.as_str());
    let gets = if pod.injected().any(|name| name == target.name()) {
        "get another version of the SidecarSet"
    } else {
        "do not get the sidecar"
    };
    Err(format!("new Pods of its {kind} {gets}, as a dry run shows"))
}
