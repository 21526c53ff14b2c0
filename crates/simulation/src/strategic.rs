//! Strategic merge patches, as far as kubelets use them: lists whose items have a key are merged by it.

use serde_json::Value;

/// The lists of a Pod that are merged, each with the key of its items (`patchMergeKey` in Kubernetes' types).
const KEYS: [(&str, &str); 8] = [
    ("conditions", "type"),
    ("containers", "name"),
    ("initContainers", "name"),
    ("ephemeralContainers", "name"),
    ("volumes", "name"),
    ("imagePullSecrets", "name"),
    ("ownerReferences", "uid"),
    ("env", "name"),
];

/// Merges a patch into an object.
pub(super) fn merge(object: &mut Value, patch: &Value) {
    let (Some(fields), Some(patch)) = (object.as_object_mut(), patch.as_object()) else {
        object.clone_from(patch);
        return;
    };
    for (name, wanted) in patch {
        let key = KEYS.iter().find(|(list, _)| list == name).map(|(_, key)| *key);
        match (fields.get_mut(name), wanted, key) {
            (_, Value::Null, _) => drop(fields.remove(name)),
            (Some(Value::Array(items)), Value::Array(more), Some(key)) => merge_items(items, more, key),
            (Some(known @ Value::Object(_)), Value::Object(_), _) => merge(known, wanted),
            _ => drop(fields.insert(name.clone(), wanted.clone())),
        }
    }
}

fn merge_items(items: &mut Vec<Value>, more: &[Value], key: &str) {
    for item in more {
        match items.iter_mut().find(|known| known.get(key) == item.get(key)) {
            Some(known) => merge(known, item),
            None => items.push(item.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::by_key(
        json!({"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "True"}]}),
        json!({"conditions": [{"type": "Ready", "status": "False"}, {"type": "New", "status": "True"}]}),
        json!({"conditions": [
            {"type": "Ready", "status": "False"}, {"type": "Other", "status": "True"}, {"type": "New", "status": "True"}
        ]})
    )]
    #[case::without_a_key(json!({"containerStatuses": [1, 2]}), json!({"containerStatuses": [3]}), json!({"containerStatuses": [3]}))]
    #[case::deep(json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 3}}), json!({"a": {"b": 3, "c": 2}}))]
    #[case::removed(json!({"a": 1, "b": 2}), json!({"a": null}), json!({"b": 2}))]
    #[case::new(json!({}), json!({"conditions": [{"type": "Ready"}]}), json!({"conditions": [{"type": "Ready"}]}))]
    fn lists_with_a_key_are_merged_by_it(#[case] mut object: Value, #[case] patch: Value, #[case] expected: Value) {
        merge(&mut object, &patch);
        assert_eq!(object, expected);
    }
}
