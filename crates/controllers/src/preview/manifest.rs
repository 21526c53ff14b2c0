//! Whether a manifest is an object that controllers can read.

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Secret, ServiceAccount};
use kube::api::DynamicObject;
use pillion_kubernetes::json;
use pillion_runtime::store::WorkloadObject;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::pods::injected::PodObject;

/// Returns why an API server would reject a manifest, without its location; `None` if it would accept the manifest or
/// if no controller reads the kind.
pub fn problem(manifest: &Value) -> Option<String> {
    fn read<K: DeserializeOwned>(manifest: &Value) -> Option<String> {
        K::deserialize(manifest).err().map(|error| error.to_string())
    }
    if !pillion_simulation::is_shown(manifest) {
        return None;
    }
    let text = |key| json::text(manifest, &["metadata", key]);
    if text("name").is_empty() && text("generateName").is_empty() {
        return Some("metadata.name is missing".to_owned());
    }
    match json::text(manifest, &["kind"]) {
        "Pod" => read::<PodObject>(manifest),
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "Job" | "CronJob" | "CloneSet" => {
            read::<WorkloadObject>(manifest)
        }
        "Namespace" => read::<Namespace>(manifest),
        "Node" => read::<Node>(manifest),
        "ServiceAccount" => read::<ServiceAccount>(manifest),
        "Secret" => read::<Secret>(manifest),
        "ConfigMap" => read::<ConfigMap>(manifest),
        "ControllerRevision" => read::<ControllerRevision>(manifest),
        _ => read::<DynamicObject>(manifest),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::right(json!({"metadata": {"name": "a"}, "spec": {}}), None)]
    #[case::with_a_generated_name(json!({"metadata": {"generateName": "a-"}, "spec": {}}), None)]
    #[case::without_a_name(json!({"spec": {}}), Some("metadata.name is missing"))]
    #[case::without_a_spec(json!({"metadata": {"name": "a"}}), Some("missing field `spec`"))]
    #[case::of_another_type(json!({"metadata": {"name": "a", "labels": "x"}, "spec": {}}), Some("invalid type: string \"x\", expected a map"))]
    fn what_no_api_server_would_take_is_found(#[case] mut pod: Value, #[case] expected: Option<&str>) {
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        assert_eq!(problem(&pod).as_deref(), expected);
        pod["kind"] = json!("Service");
        assert_eq!(problem(&pod), None, "nobody looks at it");
    }
}
