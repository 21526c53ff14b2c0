//! SidecarSets for Pods with the label `app: web`, whose sidecars have identities.

use serde_json::{Value, json};

/// Returns a SidecarSet with one container and a ServiceAccount, both named like the set. `fields` are further fields
/// of its spec.
pub fn set(name: &str, fields: &Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [{"name": name, "image": format!("{name}:1")}],
            "serviceAccountName": name
        }
    });
    json_patch::merge(&mut set["spec"], fields);
    set
}

/// Returns a SidecarSet that shares its identity with others of the tests, and may perform this verb on Pods.
pub fn merging(name: &str, verb: &str) -> Value {
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]});
    let partners: Vec<&str> = ["logs", "metrics", "traces"].into_iter().filter(|partner| *partner != name).collect();
    set(
        name,
        &json!({
            "behaviorWhenServiceAccountInjection": "Merge", "serviceAccountPermissions": [rule],
            "serviceAccountPartners": partners,
        }),
    )
}
