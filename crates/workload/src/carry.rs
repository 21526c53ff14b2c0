//! Applies the policy's changes to a Pod to the object that the Pod came from.
//!
//! The controller and the API server fill in many fields between a template and the Pod that the policy sees. A preview
//! must not print them: they depend on the cluster, and applying the output would freeze them. So only differences
//! between the Pod before and after the policy are carried over.

use serde_json::{Map, Value};

use crate::{Template, admission, claims};

/// Returns the Pod template of `object` with the changes between the Pod `before` and `after`, as [`carry`] does; `None`
/// if the object has nothing at the template's place.
pub fn into_template(object: &Value, template: &Template, before: &Value, after: &Value) -> Option<Value> {
    let original = object.pointer(&template.pointer)?;
    if template.owner.is_none() {
        return Some(carry(original, before, after));
    }
    // The volumes of claims are no items of the template.
    let [before, after] = [before, after].map(|pod| claims::unmount(object, template, pod));
    Some(carry(original, &before, &after))
}

/// Returns `original` with the changes between `before` and `after`. `before` is `original` with fields filled in;
/// items of its lists start with those of `original`.
///
/// Values that do not change stay as in `original`, absent if absent there. Never carries over the token that the API
/// server mounts: applying the output would mount a second one.
pub fn carry(original: &Value, before: &Value, after: &Value) -> Value {
    if before == after {
        return original.clone();
    }
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => Value::Object(object(original, before, after)),
        (Value::Array(before), Value::Array(after)) => Value::Array(list(original, before, after)),
        (_, after) => without_token(after),
    }
}

fn object(original: &Value, before: &Map<String, Value>, after: &Map<String, Value>) -> Map<String, Value> {
    let mut carried = original.as_object().cloned().unwrap_or_default();
    for (key, new) in after {
        let old = before.get(key);
        if old == Some(new) || is_filled_in_alias(key, original, before, after) {
            continue;
        }
        let value = match (carried.get(key), old) {
            (Some(original), Some(old)) => carry(original, old, new),
            (None, Some(old)) => carry(&Value::Null, old, new),
            (_, None) => without_token(new),
        };
        // A list that is empty without the token is absent from the original.
        if carried.contains_key(key) || !is_empty(&value) || is_empty(new) {
            carried.insert(key.clone(), value);
        }
    }
    carried.retain(|key, _| after.contains_key(key) || !before.contains_key(key));
    carried
}

/// Whether this is the deprecated alias of `serviceAccountName` as filled in by the API server rather than written by
/// the author.
fn is_filled_in_alias(key: &str, original: &Value, before: &Map<String, Value>, after: &Map<String, Value>) -> bool {
    let is_written = original.get(key).is_some() || !before.contains_key(key);
    key == "serviceAccount" && !is_written && after.get(key) == after.get("serviceAccountName")
}

fn list(original: &Value, before: &[Value], after: &[Value]) -> Vec<Value> {
    let original = original.as_array().map_or(&[][..], Vec::as_slice);
    let mut used = vec![false; before.len()];
    // All items before this index are used. Most lists keep their order, so one pass suffices.
    let mut first = 0;
    let mut carried = Vec::with_capacity(after.len());
    for new in after {
        let mut find = |is_it: &dyn Fn(&Value) -> bool| {
            let mut candidates = before.iter().zip(used.iter_mut()).enumerate().skip(first);
            let (index, (old, used)) = candidates.find(|(_, (old, used))| !**used && is_it(old))?;
            *used = true;
            Some((index, old))
        };
        let found = find(&|old| old == new).or_else(|| find(&|old| is_same_item(old, new)));
        first += used.iter().skip(first).take_while(|used| **used).count();
        match found {
            Some((index, old)) => match original.get(index) {
                Some(original) => carried.push(carry(original, old, new)),
                None if admission::is_token(new) => {}
                // Filled in by the API server, for example pull secrets of a ServiceAccount. Print them, too: the list
                // in the manifest would replace them.
                None => carried.push(new.clone()),
            },
            None => carried.push(without_token(new)),
        }
    }
    carried
}

/// Whether two items have the same name. Mounts must also have the same path, since several may use one volume.
fn is_same_item(one: &Value, other: &Value) -> bool {
    let name = one.get("name").filter(|name| name.is_string());
    name.is_some() && name == other.get("name") && one.get("mountPath") == other.get("mountPath")
}

/// Returns a value added by the policy without copies of the token's volumes and mounts.
fn without_token(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(without_token).collect()),
        Value::Object(entries) => {
            let mut kept = Map::new();
            for (key, value) in entries {
                let value = match value.as_array().filter(|_| key == "volumeMounts" || key == "volumes") {
                    Some(items) => {
                        let others: Vec<_> = items.iter().filter(|item| !admission::is_token(item)).cloned().collect();
                        if others.is_empty() && !items.is_empty() {
                            continue;
                        }
                        Value::Array(others)
                    }
                    None => without_token(value),
                };
                kept.insert(key.clone(), value);
            }
            Value::Object(kept)
        }
        scalar => scalar.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
}

#[cfg(test)]
mod tests {
    use pillion_samples::strategies;
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::nothing(json!({"a": 1}), json!({"a": 1, "default": 2}), json!({"a": 1, "default": 2}), json!({"a": 1}))]
    #[case::added(json!({"a": 1}), json!({"a": 1, "d": 2}), json!({"a": 1, "d": 2, "new": 3}), json!({"a": 1, "new": 3}))]
    #[case::changed(json!({"a": 1}), json!({"a": 1, "d": 2}), json!({"a": 4, "d": 2}), json!({"a": 4}))]
    #[case::changed_default(json!({}), json!({"d": 2}), json!({"d": 3}), json!({"d": 3}))]
    #[case::removed(json!({"a": 1, "b": 1}), json!({"a": 1, "b": 1}), json!({"a": 1}), json!({"a": 1}))]
    #[case::removed_default(json!({}), json!({"d": 2}), json!({}), json!({}))]
    #[case::item_before_and_after(
        json!({"l": [{"name": "a"}]}), json!({"l": [{"name": "a", "d": 1}]}),
        json!({"l": [{"name": "x"}, {"name": "a", "d": 1}, {"name": "y"}]}),
        json!({"l": [{"name": "x"}, {"name": "a"}, {"name": "y"}]})
    )]
    #[case::item_changed(
        json!({"l": [{"name": "a", "v": 1}]}), json!({"l": [{"name": "a", "v": 1, "d": 1}]}),
        json!({"l": [{"name": "a", "v": 2, "d": 1}]}), json!({"l": [{"name": "a", "v": 2}]})
    )]
    #[case::item_removed(json!({"l": [1, 2]}), json!({"l": [1, 2]}), json!({"l": [2]}), json!({"l": [2]}))]
    #[case::pull_secrets_of_the_service_account(
        json!({}), json!({"imagePullSecrets": [{"name": "sa"}]}),
        json!({"imagePullSecrets": [{"name": "sa"}, {"name": "new"}]}),
        json!({"imagePullSecrets": [{"name": "sa"}, {"name": "new"}]})
    )]
    #[case::token_volume_beside_a_new_one(
        json!({}), json!({"volumes": [{"name": "kube-api-access-xxxxx"}]}),
        json!({"volumes": [{"name": "kube-api-access-xxxxx"}, {"name": "new"}]}), json!({"volumes": [{"name": "new"}]})
    )]
    #[case::account(
        json!({}), json!({"serviceAccountName": "default", "serviceAccount": "default"}),
        json!({"serviceAccountName": "x", "serviceAccount": "x"}), json!({"serviceAccountName": "x"})
    )]
    #[case::account_that_was_written_by_its_alias(
        json!({"serviceAccount": "a"}), json!({"serviceAccountName": "a", "serviceAccount": "a"}),
        json!({"serviceAccountName": "x", "serviceAccount": "x"}), json!({"serviceAccountName": "x", "serviceAccount": "x"})
    )]
    #[case::token_swapped(
        json!({"containers": [{"name": "c"}]}),
        json!({
            "containers": [{"name": "c", "volumeMounts": [{"name": "kube-api-access-xxxxx"}]}],
            "volumes": [{"name": "kube-api-access-xxxxx"}]
        }),
        json!({"containers": [{"name": "c"}], "volumes": [{"name": "sidecarset-sa-0"}]}),
        json!({"containers": [{"name": "c"}], "volumes": [{"name": "sidecarset-sa-0"}]})
    )]
    #[case::token_that_the_manifest_has(
        json!({"volumes": [{"name": "kube-api-access-7mt8f"}]}), json!({"volumes": [{"name": "kube-api-access-7mt8f"}]}),
        json!({"volumes": [{"name": "sidecarset-sa-0"}]}), json!({"volumes": [{"name": "sidecarset-sa-0"}]})
    )]
    #[case::shared_token(
        json!({"containers": []}), json!({"containers": []}),
        json!({"containers": [{"name": "s", "volumeMounts": [{"name": "kube-api-access-xxxxx"}]}]}),
        json!({"containers": [{"name": "s"}]})
    )]
    #[case::token_taken_away(
        json!({"name": "c"}), json!({"name": "c", "volumeMounts": [{"name": "kube-api-access-xxxxx"}]}),
        json!({"name": "c", "volumeMounts": []}), json!({"name": "c", "volumeMounts": []})
    )]
    fn only_changes_are_carried_over(
        #[case] original: Value,
        #[case] before: Value,
        #[case] after: Value,
        #[case] expected: Value,
    ) {
        assert_eq!(carry(&original, &before, &after), expected);
    }

    proptest! {
        #[test]
        fn without_defaults_everything_is_carried_over(pod in strategies::pod(), other in strategies::pod()) {
            prop_assert_eq!(carry(&pod, &pod, &other), other);
        }

        #[test]
        fn what_nobody_changed_stays(pod in strategies::pod()) {
            let mut before = pod.clone();
            admission::apply(&mut before, |_| None);
            prop_assert_eq!(carry(&pod, &before, &before), pod);
        }
    }
}
