//! Names of objects in messages.

use pillion_kubernetes::json;
use serde_json::Value;

/// Returns `Deployment shop/web`, or `Deployment web` if `namespace` is empty.
pub fn label(object: &Value, namespace: &str) -> String {
    let text = |path: &[&str]| json::text(object, path).to_owned();
    let kind = match text(&["kind"]) {
        kind if kind.is_empty() => "object".to_owned(),
        kind => kind,
    };
    let name = match (text(&["metadata", "name"]), text(&["metadata", "generateName"])) {
        (name, prefix) if name.is_empty() && prefix.is_empty() => "(no name)".to_owned(),
        (name, prefix) if name.is_empty() => format!("{prefix}*"),
        (name, _) => name,
    };
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}
