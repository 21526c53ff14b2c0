//! Field masks: the fields of an object that a policy wants.

use std::collections::BTreeMap;

use serde_json::Value;

/// A tree of the wanted fields. A node without children selects everything below it.
#[derive(Debug, Default)]
pub(super) struct Mask {
    children: BTreeMap<String, Mask>,
}

impl Mask {
    /// Builds the tree from paths such as `spec.containers.image`.
    pub(super) fn new<'a>(paths: impl IntoIterator<Item = &'a String>) -> Self {
        let mut root = Self::default();
        for path in paths {
            let mut node = &mut root;
            for part in path.split('.') {
                node = node.children.entry(part.to_owned()).or_default();
            }
        }
        root
    }

    /// Removes the fields that are not wanted. A path applies to all items of a list.
    ///
    /// If a mask names both a field and a part of it (`spec`, `spec.nodeName`), only the part is kept, as in the policy
    /// server.
    pub(super) fn prune(&self, value: &mut Value) {
        if self.children.is_empty() {
            return;
        }
        match value {
            Value::Object(fields) => {
                fields.retain(|key, _| self.children.contains_key(key));
                for (key, value) in fields {
                    if let Some(child) = self.children.get(key) {
                        child.prune(value);
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.prune(item)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::none_wants_everything(&[], json!({"a": {"b": 1}, "c": 2}))]
    #[case::a_whole_field(&["a"], json!({"a": {"b": 1, "d": [{"x": 1, "y": 2}, {"y": 3}, 4]}}))]
    #[case::a_part(&["a.b"], json!({"a": {"b": 1}}))]
    #[case::through_lists(&["a.d.y", "c"], json!({"a": {"d": [{"y": 2}, {"y": 3}, 4]}, "c": 2}))]
    #[case::the_part_wins_over_the_whole(&["a", "a.b"], json!({"a": {"b": 1}}))]
    #[case::a_scalar_has_no_parts(&["c.x"], json!({"c": 2}))]
    #[case::nothing_there(&["z"], json!({}))]
    fn what_the_masks_name_stays(#[case] masks: &[&str], #[case] mut expected: Value) {
        let mut value = json!({"a": {"b": 1, "d": [{"x": 1, "y": 2}, {"y": 3}, 4]}, "c": 2});
        if masks.is_empty() {
            expected = value.clone();
        }
        let masks: Vec<String> = masks.iter().map(ToString::to_string).collect();
        Mask::new(&masks).prune(&mut value);
        assert_eq!(value, expected);
    }
}
