//! The manifests that join the policy's settings.

use pillion_admission::settings::SYSTEM_NAMESPACE;
use pillion_kubernetes::json;
use pillion_sidecarset::names;
use serde_json::Value;

/// The list of SidecarSets in the settings.
pub const SIDECAR_SETS: &str = "sidecarSets";
/// The list of ControllerRevisions in the settings: a `customVersion` is only looked up among these.
pub const CONTROLLER_REVISIONS: &str = "controllerRevisions";

/// Returns the list of the settings that an object joins: [`SIDECAR_SETS`] or [`CONTROLLER_REVISIONS`]. `None` for all
/// other objects.
pub fn list_for(object: &Value, settings: &Value) -> Option<&'static str> {
    match json::text(object, &["kind"]) {
        "SidecarSet" if json::text(object, &["apiVersion"]).starts_with("apps.kruise.io/") => Some(SIDECAR_SETS),
        "ControllerRevision" if is_revision_of_a_set(object, system_namespace(settings)) => Some(CONTROLLER_REVISIONS),
        _ => None,
    }
}

/// Returns the namespace with the revisions of SidecarSets.
fn system_namespace(settings: &Value) -> &str {
    match json::text(settings, &["systemNamespace"]) {
        "" => SYSTEM_NAMESPACE,
        namespace => namespace,
    }
}

/// Other controllers store ControllerRevisions, too, and names may repeat between namespaces.
fn is_revision_of_a_set(object: &Value, system_namespace: &str) -> bool {
    let namespace = json::text(object, &["metadata", "namespace"]);
    (namespace.is_empty() || namespace == system_namespace)
        && json::at(object, &["metadata", "labels", names::SIDECAR_SET_NAME_LABEL]).is_some()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn revision(namespace: &str, labels: &Value) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision",
            "metadata": {"name": "a-1", "namespace": namespace, "labels": labels}
        })
    }

    #[rstest]
    #[case::sidecar_set(json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet"}), Some(SIDECAR_SETS))]
    #[case::sidecar_set_of_another_project(json!({"apiVersion": "example.com/v1", "kind": "SidecarSet"}), None)]
    #[case::revision(revision("kruise-system", &json!({"kruise.io/sidecarset-name": "a"})), Some(CONTROLLER_REVISIONS))]
    #[case::revision_without_namespace(revision("", &json!({"kruise.io/sidecarset-name": "a"})), Some(CONTROLLER_REVISIONS))]
    #[case::revision_elsewhere(revision("other", &json!({"kruise.io/sidecarset-name": "a"})), None)]
    #[case::revision_of_a_daemon_set(revision("kruise-system", &json!({})), None)]
    #[case::pod(json!({"apiVersion": "v1", "kind": "Pod"}), None)]
    fn objects_join_their_list(#[case] object: Value, #[case] expected: Option<&str>) {
        assert_eq!(list_for(&object, &json!({})), expected);
    }

    #[test]
    fn the_settings_name_the_namespace_of_revisions() {
        let labels = json!({"kruise.io/sidecarset-name": "a"});
        let settings = json!({"systemNamespace": "sidecars"});
        assert_eq!(list_for(&revision("sidecars", &labels), &settings), Some(CONTROLLER_REVISIONS));
        assert_eq!(list_for(&revision("kruise-system", &labels), &settings), None);
    }
}
