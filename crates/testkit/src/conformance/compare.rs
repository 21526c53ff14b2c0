//! Compares objects by the rules of the conformance cases.

use std::fmt;

use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::quantity::Quantity;
use serde_json::Value;

/// Structs that Go writes even if they are empty.
const WRITTEN_EMPTY: [&str; 8] = [
    "status",
    "resources",
    "injectionStrategy",
    "updateStrategy",
    "upgradeStrategy",
    "shareVolumePolicy",
    "metadata",
    "resourcesExpr",
];
/// Maps, which Go omits if they are empty.
const MAPS: [&str; 6] = ["labels", "annotations", "limits", "requests", "matchLabels", "nodeSelector"];
/// Texts that Go writes even if they are empty.
const WRITTEN_EMPTY_TEXT: [&str; 15] = [
    "name",
    "mountPath",
    "key",
    "fieldPath",
    "value",
    "path",
    "targetContainersMode",
    "operator",
    "orderedKey",
    "devicePath",
    "resource",
    "resourceName",
    "restartPolicy",
    "type",
    "topologyKey",
];
/// Numbers that Go writes even if they are zero.
const WRITTEN_ZERO: [&str; 5] = ["weight", "containerPort", "port", "revision", "maxSkew"];
/// Pointers in Go: their zero value has a meaning, and Go writes it if it was given.
const POINTERS: [&str; 12] = [
    "optional",
    "readOnlyRootFilesystem",
    "runAsNonRoot",
    "allowPrivilegeEscalation",
    "privileged",
    "runAsUser",
    "runAsGroup",
    "defaultMode",
    "expirationSeconds",
    "terminationGracePeriodSeconds",
    "enableServiceLinks",
    "automountServiceAccountToken",
];

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The path.
    pub path: String,
    /// The value of the reference.
    pub expected: Option<Value>,
    /// The actual value.
    pub actual: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<Value>| value.as_ref().map_or_else(|| "nothing".to_owned(), ToString::to_string);
        write!(f, "{}: {}, expected {}", self.path, shown(&self.actual), shown(&self.expected))
    }
}

/// Returns all differences between two objects. `dropped` decides whether the reference drops the field at a path
/// because it does not know it.
pub fn differences(expected: &Value, actual: &Value, dropped: &impl Fn(&str) -> bool) -> Vec<Difference> {
    let mut found = Vec::new();
    at(&FieldPath::default(), "", expected, actual, dropped, &mut found);
    found
}

fn at(
    path: &FieldPath<'_>,
    parent: &str,
    expected: &Value,
    actual: &Value,
    dropped: &impl Fn(&str) -> bool,
    found: &mut Vec<Difference>,
) {
    let both = || Difference { path: path.to_string(), expected: Some(expected.clone()), actual: Some(actual.clone()) };
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            for (key, value) in expected {
                let path = path.child(key);
                // Go writes times without fractions, in UTC.
                if key == "creationTimestamp" {
                    continue;
                }
                match actual.get(key).filter(|value| !value.is_null()) {
                    Some(actual) => at(&path, key, value, actual, dropped, found),
                    None if is_written_by_go(key, value) || (parent == "status" && is_zero(value)) => {}
                    None => {
                        found.push(Difference { path: path.to_string(), expected: Some(value.clone()), actual: None });
                    }
                }
            }
            for (key, value) in actual.iter().filter(|(key, _)| !expected.contains_key(*key)) {
                let path = path.child(key).to_string();
                if !is_dropped_by_go(key, value) && !dropped(&path) {
                    found.push(Difference { path, expected: None, actual: Some(value.clone()) });
                }
            }
        }
        (Value::Array(expected), Value::Array(actual)) => {
            if expected.len() != actual.len() {
                found.push(both());
                return;
            }
            for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                at(&path.index(index), parent, expected, actual, dropped, found);
            }
        }
        _ if expected == actual => {}
        (Value::String(expected), Value::String(actual)) if path.to_string().starts_with("metadata.annotations.") => {
            match (embedded(expected), embedded(actual)) {
                (Some(one), Some(other)) if one == other => {}
                _ => found.push(both()),
            }
        }
        _ if is_quantity(path)
            && Quantity::from_json(expected).is_ok_and(|one| Quantity::from_json(actual) == Ok(one)) => {}
        _ => found.push(both()),
    }
}

fn is_quantity(path: &FieldPath<'_>) -> bool {
    let path = path.to_string();
    [".limits.", ".requests.", ".capacity.", ".overhead."].iter().any(|part| path.contains(part))
        || [".sizeLimit", ".divisor"].iter().any(|end| path.ends_with(end))
}

/// Returns the JSON in an annotation, without timestamps.
fn embedded(text: &str) -> Option<Value> {
    let mut value: Value = serde_json::from_str(text).ok()?;
    for entry in value.as_object_mut()?.values_mut() {
        if let Some(entry) = entry.as_object_mut() {
            entry.remove("updateTimestamp");
        }
    }
    Some(value)
}

fn is_written_by_go(key: &str, value: &Value) -> bool {
    value.is_null()
        || (WRITTEN_EMPTY.contains(&key) && is_zero(value))
        || (WRITTEN_EMPTY_TEXT.contains(&key) && value == "")
        || (WRITTEN_ZERO.contains(&key) && *value == 0)
        || (key == "divisor" && value == "0")
        || (key == "matchSelector" && is_zero(value))
}

/// Whether Go omits this given value from JSON.
fn is_dropped_by_go(key: &str, value: &Value) -> bool {
    match value {
        Value::Object(_) => (WRITTEN_EMPTY.contains(&key) || MAPS.contains(&key)) && is_zero(value),
        _ => !POINTERS.contains(&key) && is_zero(value),
    }
}

/// Whether the value consists of zero values only.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.values().all(is_zero),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn differ(expected: &Value, actual: &Value) -> usize {
        differences(expected, actual, &|_| false).len()
    }

    #[test]
    fn what_go_adds_is_no_difference() {
        assert_eq!(differ(&json!({"metadata": {"creationTimestamp": null}, "status": {"a": 0}}), &json!({})), 0);
        assert_eq!(differ(&json!({"c": [{"name": "x", "resources": {}}]}), &json!({"c": [{"name": "x"}]})), 0);
        assert_eq!(differ(&json!({}), &json!({"stdin": false, "list": []})), 0);
    }

    #[test]
    fn everything_else_is_one() {
        assert_eq!(differ(&json!({"emptyDir": {}}), &json!({})), 1);
        assert_eq!(differ(&json!({}), &json!({"emptyDir": {}})), 1);
        assert_eq!(differ(&json!({}), &json!({"optional": false})), 1);
        assert_eq!(differ(&json!({"a": [1, 2]}), &json!({"a": [2, 1]})), 2);
        assert_eq!(differ(&json!({"a": [1]}), &json!({"a": [1, 1]})), 1);
        assert_eq!(differ(&json!({"a": "1Gi"}), &json!({"a": "1024Mi"})), 1);
        assert_eq!(differ(&json!({"stdin": true}), &json!({})), 1);
    }

    #[test]
    fn quantities_are_compared_by_value_and_annotations_as_json() {
        let limits = |text: &str| json!({"resources": {"limits": {"memory": text}}});
        assert_eq!(differ(&limits("1Gi"), &limits("1024Mi")), 0);
        assert_eq!(differ(&limits("1Gi"), &limits("1Mi")), 1);
        let annotated = |text: &str| json!({"metadata": {"annotations": {"k": text}}});
        let entry =
            |time: &str, hash: &str| annotated(&json!({"s": {"updateTimestamp": time, "hash": hash}}).to_string());
        assert_eq!(differ(&entry("a", "h"), &entry("b", "h")), 0);
        assert_eq!(differ(&entry("a", "h"), &entry("a", "i")), 1);
        assert_eq!(differ(&annotated("a,b"), &annotated("b,a")), 1);
    }
}
