//! Renders the role of people who read SidecarSets, as `pillion explain --cluster` does.

use serde_json::{Value, json};

use super::document::{Document, metadata};
use super::insert;

/// The label by which the API server adds a role to `view`, and so to `edit` and `admin`.
const AGGREGATE_TO_VIEW: &str = "rbac.authorization.k8s.io/aggregate-to-view";
const ABOUT: &str = "Reading SidecarSets, for people. The ClusterRoles view, edit and admin include it. SidecarSets belong \
                     to no namespace, so only a ClusterRoleBinding gives the right. Nobody may write them by this role.";

/// Returns the role. No binding: who may read all SidecarSets is for the cluster's administrators to say.
pub fn document(file: &'static str, instance: &str) -> Document {
    let mut metadata = metadata(&format!("{instance}-sidecarsets-view"), None, instance, "rbac", &Value::Null);
    if let Some(labels) = metadata.get_mut("labels") {
        insert(labels, AGGREGATE_TO_VIEW, json!("true"));
    }
    let reading =
        json!({"apiGroups": ["apps.kruise.io"], "resources": ["sidecarsets"], "verbs": ["get", "list", "watch"]});
    let object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": [reading],
    });
    Document::new(file, ABOUT, object)
}
