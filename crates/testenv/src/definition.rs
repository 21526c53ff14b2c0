//! Definitions of kinds of other projects.

use serde_json::{Value, json};

/// Returns a `CustomResourceDefinition` that stands in for that of another project: it accepts any fields. `scope` is
/// `Cluster` or `Namespaced`.
pub fn stand_in(api_version: &str, kind: &str, scope: &str) -> Value {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let singular = kind.to_lowercase();
    let plural = singular.strip_suffix('y').map_or_else(|| format!("{singular}s"), |stem| format!("{stem}ies"));
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": singular},
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}
