//! The objects that the policy can look up.

use pillion_bench::corpus::pods::NAMESPACE;
use pillion_identity::names;
use serde_json::{Value, json};

use super::sets;

/// The UID of all accounts.
const UID: &str = "0f1c7a5e-2b3d-4c58-8f0e-6a1b2c3d4e5f";

/// Returns a Namespace, accounts and their merged objects, stored revisions, and the whitelist.
pub(super) fn objects() -> Value {
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": NAMESPACE, "annotations": {"a": "b"},
            "labels": {"kubernetes.io/metadata.name": NAMESPACE, "stage": "production"},
        }}),
        sets::revision("agent"),
        sets::revision("other"),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "kruise-configuration", "namespace": "kruise-system"},
            "data": {"SidecarSet_PatchPodMetadata_WhiteList": sets::whitelist().to_string()},
        }),
    ];
    objects.extend(["agent", "other", "robot", "default"].map(account));
    objects.extend(merged());
    objects.into()
}

fn account(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": UID, "annotations": {"a": "b"}},
        "imagePullSecrets": [{"name": "registry"}], "secrets": [{"name": "token"}],
    })
}

/// Returns the merged account of the two SidecarSets, its Role and its RoleBinding.
pub(super) fn merged() -> [Value; 3] {
    let sets = ["agent", "other"];
    let name = names::merged(&sets);
    let metadata = json!({
        "name": name, "namespace": NAMESPACE, "uid": UID,
        "annotations": {names::SIDECAR_SETS: names::merged_annotation(&sets)},
        "finalizers": ["sa.pillion.dev/agent"], "labels": {"a": "b"},
    });
    let group = "rbac.authorization.k8s.io";
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "resourceNames": ["web-0"], "verbs": ["get"]});
    let subject = json!({"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE});
    [
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata,
            "imagePullSecrets": [{"name": "registry"}], "secrets": [{"name": "token"}],
        }),
        json!({"apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": metadata, "rules": [rule]}),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name}, "subjects": [subject],
        }),
    ]
}
