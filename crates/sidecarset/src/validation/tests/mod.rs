//! Test tables, by rule. Every case starts from a valid `SidecarSet` and describes its changes.
#![allow(clippy::needless_pass_by_value, reason = "json!(...) reads better without a borrow")]

mod conflicts;
mod lookups;
mod rules;

use pillion_kubernetes::field::FieldError;
use serde_json::{Value, json};

use crate::sidecar_set::{SidecarSet, defaults};

/// Returns a valid, defaulted `SidecarSet` with one container and one volume.
fn manifest(name: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "updateStrategy": {"type": "NotUpdate"},
            "containers": [{"name": "logger", "image": "logger:1", "volumeMounts": [{"name": "log", "mountPath": "/log"}]}],
            "volumes": [{"name": "log", "emptyDir": {}}],
        },
    })
}

/// Returns [`manifest`] with changes: objects are merged, null removes a field, any other value replaces it.
fn set(name: &str, changes: Value) -> SidecarSet {
    let mut object = manifest(name);
    merge(&mut object, changes);
    defaults::apply(&mut object);
    SidecarSet::from_decoded(object)
}

/// Returns a valid `SidecarSet` with changes in `spec`.
fn with_spec(changes: Value) -> SidecarSet {
    set("a", json!({"spec": changes}))
}

fn merge(target: &mut Value, changes: Value) {
    match (target, changes) {
        (Value::Object(target), Value::Object(changes)) => {
            for (key, change) in changes {
                if change.is_null() {
                    target.remove(&key);
                } else {
                    merge(target.entry(key).or_insert(Value::Null), change);
                }
            }
        }
        (target, change) => *target = change,
    }
}

/// Returns the errors that a rule adds to an empty list.
fn collect(rule: impl FnOnce(&mut Vec<FieldError>)) -> Vec<FieldError> {
    let mut errors = Vec::new();
    rule(&mut errors);
    errors
}

/// Returns the paths of errors, in order.
fn paths(errors: &[FieldError]) -> Vec<&str> {
    errors.iter().map(|error| error.path.as_str()).collect()
}

/// Returns a container with a name, an image and these fields.
fn container(name: &str, fields: Value) -> Value {
    let mut container = json!({"name": name, "image": "i:1"});
    merge(&mut container, fields);
    container
}
