//! Comparing objects by the rules of the conformance cases.

use pillion_core::field::FieldPath;
use pillion_core::quantity::Quantity;
use serde_json::Value;

/// Structs that Go writes though they are empty.
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

/// What differs, if anything: the first difference, with its path. `unknown` are the fields that nobody knows: the
/// reference drops them.
pub fn objects(expected: &Value, actual: &Value, unknown: &[FieldPath]) -> Result<(), String> {
    at(&FieldPath::default(), "", expected, actual, unknown)
}

fn at(path: &FieldPath, parent: &str, expected: &Value, actual: &Value, unknown: &[FieldPath]) -> Result<(), String> {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            for (key, value) in expected {
                let path = path.child(key);
                // Go writes times without fractions, in UTC.
                if key == "creationTimestamp" {
                    continue;
                }
                match actual.get(key).filter(|value| !value.is_null()) {
                    Some(actual) => at(&path, key, value, actual, unknown)?,
                    None if is_written_by_go(key, value) || (parent == "status" && is_zero(value)) => {}
                    None => return Err(format!("{path}: missing, expected {value}")),
                }
            }
            let mut extra = actual.iter().filter(|(key, value)| !expected.contains_key(*key) && !is_zero(value));
            match extra.find(|(key, _)| !unknown.contains(&path.child(key))) {
                Some((key, value)) => Err(format!("{path}.{key}: unexpected {value}")),
                None => Ok(()),
            }
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => expected
            .iter()
            .zip(actual)
            .enumerate()
            .try_for_each(|(index, (expected, actual))| at(&path.index(index), parent, expected, actual, unknown)),
        _ if expected == actual => Ok(()),
        _ if is_zero(expected) && is_zero(actual) => Ok(()),
        _ if Quantity::from_json(expected).is_ok_and(|one| Quantity::from_json(actual) == Ok(one)) => Ok(()),
        _ => Err(format!("{path}: {actual}, expected {expected}")),
    }
}

fn is_written_by_go(key: &str, value: &Value) -> bool {
    value.is_null()
        || (WRITTEN_EMPTY.contains(&key) && is_zero(value))
        || (key == "divisor" && value == "0")
        || (matches!(
            key,
            "name"
                | "mountPath"
                | "key"
                | "fieldPath"
                | "value"
                | "path"
                | "targetContainersMode"
                | "operator"
                | "orderedKey"
                | "devicePath"
                | "resource"
                | "resourceName"
                | "restartPolicy"
                | "type"
                | "apiVersion"
                | "kind"
        ) && value == "")
        || (matches!(key, "weight" | "containerPort" | "port" | "revision") && *value == 0)
        || (key == "matchSelector" && is_zero(value))
}

/// Nothing but zero values.
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
