//! SidecarSets for Pods with the label `app: web`, whose sidecars have identities.

use serde_json::{Value, json};

/// One container and a ServiceAccount, both called like it; `fields` are more of its spec.
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

/// One that shares its identity, and may do this to Pods.
pub fn merging(name: &str, verb: &str) -> Value {
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]});
    set(name, &json!({"behaviorWhenServiceAccountInjection": "Merge", "serviceAccountPermissions": [rule]}))
}
