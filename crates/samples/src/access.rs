//! A SidecarSet with an identity, and who may do what in its namespaces (ESC-8).

use serde_json::{Value, json};

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// The SidecarSet `logs` with the account `agent`, in namespaces with `team: a`.
pub fn set(mode: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "metadata": {"name": "logs", "uid": "1"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}}, "namespaceSelector": {"matchLabels": {"team": "a"}},
            "serviceAccountName": "agent", "serviceAccountMode": mode,
            "containers": [{"name": "logs", "image": "logs:1"}]
        }
    })
}

/// Returns a Namespace of a team.
pub fn namespace(name: &str, team: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}})
}

/// Returns a rule for resources of the core group.
pub fn rule(resources: &[&str], verbs: &[&str], names: &[&str]) -> Value {
    json!({"apiGroups": [""], "resources": resources, "verbs": verbs, "resourceNames": names})
}

/// Returns a role with these rules and its binding to a subject; cluster-wide without a namespace.
pub fn bound(namespace: Option<&str>, rules: &[Value], subject: &Value) -> [Value; 2] {
    let prefix = if namespace.is_some() { "" } else { "Cluster" };
    let mut role =
        json!({"apiVersion": RBAC, "kind": format!("{prefix}Role"), "metadata": {"name": "r"}, "rules": rules});
    let mut binding = json!({
        "apiVersion": RBAC, "kind": format!("{prefix}RoleBinding"), "metadata": {"name": "b"}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": format!("{prefix}Role"), "name": "r"}
    });
    if let Some(namespace) = namespace {
        role["metadata"]["namespace"] = json!(namespace);
        binding["metadata"]["namespace"] = json!(namespace);
    }
    [role, binding]
}

/// Returns a user as the subject of a binding.
pub fn jane() -> Value {
    json!({"kind": "User", "name": "jane"})
}
