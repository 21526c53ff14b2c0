//! Compares an object before and after a write.

use pillion_kubernetes::field::FieldPath;
use serde_json::Value;

/// The maximum length of a printed value, in characters.
const SHOWN: usize = 100;
/// The fields of the metadata that the API server counts with every write.
const COUNTED: [&str; 3] = ["resourceVersion", "generation", "managedFields"];

/// Returns the fields that differ, one line per field: `rules: + {"verbs":["get"]}`, or `metadata.labels[a]: "b" ->
/// "c"`. For Secrets, only the names of fields are printed.
pub(super) fn between(before: &Value, after: &Value, is_secret: bool) -> Vec<String> {
    let mut difference = Difference { is_secret, lines: Vec::new() };
    difference.walk(Some(before), Some(after), &FieldPath::default());
    difference.lines
}

struct Difference {
    is_secret: bool,
    lines: Vec<String>,
}

impl Difference {
    fn walk(&mut self, before: Option<&Value>, after: Option<&Value>, at: &FieldPath<'_>) {
        let [before, after] = [before, after].map(|value| value.filter(|value| !value.is_null()));
        match (before, after) {
            (Some(Value::Object(before)), Some(Value::Object(after))) => {
                let gone = before.keys().filter(|key| !after.contains_key(*key));
                for key in after.keys().chain(gone) {
                    if let Some(below) = field(at, key) {
                        self.walk(before.get(key), after.get(key), &below);
                    }
                }
            }
            (None, Some(Value::Object(after))) if !after.is_empty() => {
                for (key, value) in after {
                    if let Some(below) = field(at, key) {
                        self.walk(None, Some(value), &below);
                    }
                }
            }
            (None, None) => {}
            (Some(_), None) => self.say(at, "removed", String::new),
            (Some(Value::Array(before)), Some(Value::Array(after))) if before != after => self.list(before, after, at),
            (Some(before), Some(after)) if before == after => {}
            (Some(before), Some(after)) => {
                self.say(at, "changed", || format!("{} -> {}", shown(before), shown(after)));
            }
            (None, Some(after)) => self.say(at, "added", || format!("+ {}", shown(after))),
        }
    }

    /// Adds a line for each item of a list that is added or removed.
    fn list(&mut self, before: &[Value], after: &[Value], at: &FieldPath<'_>) {
        let gone: Vec<&Value> = before.iter().filter(|item| !after.contains(item)).collect();
        let new: Vec<&Value> = after.iter().filter(|item| !before.contains(item)).collect();
        if gone.is_empty() && new.is_empty() {
            self.say(at, "changed", || "in another order".to_owned());
        }
        for (sign, word, items) in [("-", "removed", gone), ("+", "added", new)] {
            for item in items {
                self.say(at, word, || format!("{sign} {}", shown(item)));
            }
        }
    }

    /// Adds a line. `word` replaces the values if these must not be printed.
    fn say(&mut self, at: &FieldPath<'_>, word: &str, values: impl FnOnce() -> String) {
        let text = if self.is_secret { String::new() } else { values() };
        let line = format!("{at}: {}", if text.is_empty() { word } else { &text });
        if self.lines.last() != Some(&line) {
            self.lines.push(line);
        }
    }
}

/// Returns the path of a field; `None` for those that the API server counts up.
fn field<'p>(at: &'p FieldPath<'p>, key: &'p str) -> Option<FieldPath<'p>> {
    if at.to_string() == "metadata" && COUNTED.contains(&key) {
        return None;
    }
    let is_name = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric());
    Some(if is_name { at.child(key) } else { at.key(key) })
}

/// Returns a value in one line, cut if it is long.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    let length = text.chars().count();
    if length <= SHOWN {
        return text;
    }
    let start: String = text.chars().take(SHOWN).collect();
    format!("{start}… ({length} characters)")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::nothing(json!({"a": 1}), json!({"a": 1}), &[])]
    #[case::scalar(json!({"a": {"b": 1}}), json!({"a": {"b": "x"}}), &["a.b: 1 -> \"x\""])]
    #[case::new(json!({"a": {}}), json!({"a": {"kruise.io/b": "x"}}), &["a[kruise.io/b]: + \"x\""])]
    #[case::removed(json!({"a": 1}), json!({"b": null}), &["a: removed"])]
    #[case::items(json!({"rules": [1, 2]}), json!({"rules": [2, 3]}), &["rules: - 1", "rules: + 3"])]
    #[case::order(json!({"rules": [1, 2]}), json!({"rules": [2, 1]}), &["rules: in another order"])]
    #[case::another_type(json!({"a": {"b": 1}}), json!({"a": [1]}), &["a: {\"b\":1} -> [1]"])]
    #[case::counted(json!({"metadata": {"generation": 1}}), json!({"metadata": {"generation": 2}}), &[])]
    fn fields_that_differ_are_told(#[case] before: Value, #[case] after: Value, #[case] expected: &[&str]) {
        assert_eq!(between(&before, &after, false), expected);
    }

    #[test]
    fn values_of_secrets_are_not_told() {
        let before = json!({"data": {"token": "old", "less": "y"}, "items": []});
        let after = json!({"data": {"token": "new", "more": "x"}, "items": ["a", "b"]});
        let found = between(&before, &after, true);
        assert_eq!(found, ["data.more: added", "data.token: changed", "data.less: removed", "items: added"]);
    }

    #[test]
    fn long_values_are_cut() {
        let found = between(&json!({}), &json!({"a": "ä".repeat(500)}), false);
        assert!(found[0].ends_with("… (502 characters)") && found[0].chars().count() < 130, "{found:?}");
    }
}
