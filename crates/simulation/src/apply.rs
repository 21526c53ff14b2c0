//! Server-side apply, as far as the controllers use it.

use pillion_kubernetes::json;
use serde_json::{Map, Value};

/// Lists of the metadata to which several clients add items.
const SHARED: [&str; 2] = ["finalizers", "ownerReferences"];

/// Returns an object to which the fields of `wanted` were applied. Fields that the same manager applied before, and that
/// `wanted` lacks, are removed if `managedFields` tells of them.
pub(super) fn applied(object: &Value, wanted: &Value, manager: &str) -> Value {
    let mut applied = object.clone();
    for entry in json::items(object, &["metadata", "managedFields"]) {
        let is_ours = json::text(entry, &["manager"]) == manager && json::text(entry, &["operation"]) == "Apply";
        if let Some(fields) = entry.get("fieldsV1").and_then(Value::as_object).filter(|_| is_ours) {
            remove(&mut applied, wanted, fields);
        }
    }
    merge(&mut applied, wanted, true);
    applied
}

/// Removes the owned fields that `wanted` lacks. Items of lists stay: nothing tells which are ours.
fn remove(object: &mut Value, wanted: &Value, owned: &Map<String, Value>) {
    let Some(object) = object.as_object_mut() else { return };
    for (key, below) in owned {
        let Some(name) = key.strip_prefix("f:") else { continue };
        let below = below.as_object().filter(|below| !below.is_empty());
        match (wanted.get(name), below) {
            (None, None) => drop(object.remove(name)),
            (wanted, Some(below)) => {
                if let Some(value) = object.get_mut(name) {
                    remove(value, wanted.unwrap_or(&Value::Null), below);
                }
            }
            (Some(_), None) => {}
        }
    }
}

fn merge(object: &mut Value, wanted: &Value, is_top: bool) {
    let (Some(fields), Some(wanted)) = (object.as_object_mut(), wanted.as_object()) else {
        object.clone_from(wanted);
        return;
    };
    for (key, value) in wanted {
        match (fields.get_mut(key), value) {
            (Some(Value::Array(items)), Value::Array(more)) if !is_top && SHARED.contains(&key.as_str()) => {
                let new: Vec<Value> = more.iter().filter(|item| !items.contains(item)).cloned().collect();
                items.extend(new);
            }
            (Some(known @ Value::Object(_)), Value::Object(_)) => merge(known, value, false),
            _ => {
                fields.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::more(json!({"data": {"a": "1"}}), json!({"data": {"b": "2"}}), json!({"data": {"a": "1", "b": "2"}}))]
    #[case::list(json!({"rules": [1]}), json!({"rules": [2]}), json!({"rules": [2]}))]
    #[case::shared_list(
        json!({"metadata": {"finalizers": ["a"]}}), json!({"metadata": {"finalizers": ["b"]}}),
        json!({"metadata": {"finalizers": ["a", "b"]}})
    )]
    fn applied_fields_are_merged(#[case] object: Value, #[case] wanted: Value, #[case] expected: Value) {
        assert_eq!(applied(&object, &wanted, "me"), expected);
    }

    #[test]
    fn fields_that_the_manager_no_longer_applies_are_removed() {
        let owned = |manager: &str, keys: Value| json!({"manager": manager, "operation": "Apply", "fieldsV1": {"f:data": keys}});
        let managed = [owned("me", json!({"f:a": {}, "f:b": {}})), owned("other", json!({"f:c": {}}))];
        let object = json!({"metadata": {"managedFields": managed}, "data": {"a": "1", "b": "2", "c": "3"}});
        let after = applied(&object, &json!({"data": {"a": "4"}}), "me");
        assert_eq!(after["data"], json!({"a": "4", "c": "3"}));
    }
}
