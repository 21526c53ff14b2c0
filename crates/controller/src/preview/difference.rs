//! Compares an object with the change that a preview plans for it.

use http::StatusCode;
use kube::Client;
use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json;
use serde_json::Value;

use super::objects::{Key, group, resource};
use super::server::{ask, get, path};
use super::{Change, PreviewError, Verb};

/// The maximum length of a printed value, in characters.
const SHOWN: usize = 100;

/// Returns the fields that each change would change, one line per field: `rules: + {"verbs":["get"]}`, or
/// `metadata.labels[a]: "b" -> "c"`. Only a [`Verb::Change`] with a known body has any. `client` is the client of the
/// preview. For Secrets, only the names of fields are printed.
///
/// # Errors
/// An object cannot be read.
pub async fn differences(client: &Client, changes: &[Change]) -> Result<Vec<Vec<String>>, PreviewError> {
    let mut all = Vec::new();
    for change in changes {
        let body = change.body.as_ref().filter(|_| change.verb == Verb::Change);
        all.push(match body {
            Some(body) => of(&before(client, change).await?, body, change.kind == "Secret"),
            None => Vec::new(),
        });
    }
    Ok(all)
}

/// Returns the current object; null if it does not exist.
async fn before(client: &Client, change: &Change) -> Result<Value, PreviewError> {
    let key = Key {
        group: group(&change.api_version).to_owned(),
        resource: resource(&change.kind),
        namespace: change.namespace.clone().unwrap_or_default(),
        name: change.name.clone(),
    };
    match ask(client, get(&path(&change.api_version, &key))).await {
        Ok((StatusCode::OK, object)) => Ok(object),
        Ok((StatusCode::NOT_FOUND, _)) => Ok(Value::Null),
        Ok((_, status)) => Err(PreviewError::Unreadable(json::text(&status, &["message"]).to_owned())),
        Err(error) => Err(PreviewError::Unreadable(error.to_string())),
    }
}

/// Returns the differences between an object and the body of a request: an object to apply, or a merge patch.
fn of(before: &Value, body: &Value, is_secret: bool) -> Vec<String> {
    let mut difference = Difference { is_applied: body.get("apiVersion").is_some(), is_secret, lines: Vec::new() };
    difference.walk(Some(before), body, &FieldPath::default());
    difference.lines
}

struct Difference {
    /// Whether the body is applied. An apply keeps items of other owners in lists of the metadata; a merge patch
    /// replaces every list.
    is_applied: bool,
    is_secret: bool,
    lines: Vec<String>,
}

impl Difference {
    fn walk(&mut self, before: Option<&Value>, wanted: &Value, at: &FieldPath<'_>) {
        let before = before.filter(|value| !value.is_null());
        match (before, wanted) {
            (_, Value::Object(fields)) if before.is_none_or(Value::is_object) => {
                for (key, value) in fields {
                    let is_name = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric());
                    let below = if is_name { at.child(key) } else { at.key(key) };
                    self.walk(before.and_then(|before| before.get(key)), value, &below);
                }
            }
            (None, Value::Null) => {}
            (Some(_), Value::Null) => self.say(at, "removed", String::new),
            (Some(Value::Array(before)), Value::Array(wanted)) if before != wanted => self.list(before, wanted, at),
            (Some(before), wanted) if before == wanted => {}
            (Some(before), wanted) => self.say(at, "changed", || format!("{} -> {}", shown(before), shown(wanted))),
            (None, wanted) => self.say(at, "added", || format!("+ {}", shown(wanted))),
        }
    }

    /// Adds a line for each item of a list that is added or removed.
    fn list(&mut self, before: &[Value], wanted: &[Value], at: &FieldPath<'_>) {
        let gone = before.iter().filter(|item| !wanted.contains(item));
        let is_shared = self.is_applied && at.to_string().starts_with("metadata.");
        let gone: Vec<&Value> = gone.filter(|_| !is_shared).collect();
        let new: Vec<&Value> = wanted.iter().filter(|item| !before.contains(item)).collect();
        if gone.is_empty() && new.is_empty() && !is_shared {
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
    #[case::nothing(json!({"a": 1, "b": 2}), json!({"a": 1}), &[])]
    #[case::scalar(json!({"a": {"b": 1}}), json!({"a": {"b": "x"}}), &["a.b: 1 -> \"x\""])]
    #[case::new(json!({"a": {}}), json!({"a": {"kruise.io/b": "x"}}), &["a[kruise.io/b]: + \"x\""])]
    #[case::removed(json!({"a": 1}), json!({"a": null, "b": null}), &["a: removed"])]
    #[case::items(json!({"rules": [1, 2]}), json!({"rules": [2, 3]}), &["rules: - 1", "rules: + 3"])]
    #[case::order(json!({"rules": [1, 2]}), json!({"rules": [2, 1]}), &["rules: in another order"])]
    #[case::another_type(json!({"a": {"b": 1}}), json!({"a": [1]}), &["a: {\"b\":1} -> [1]"])]
    #[case::patched_list(json!({"metadata": {"finalizers": ["a", "b"]}}), json!({"metadata": {"finalizers": ["a"]}}), &["metadata.finalizers: - \"b\""])]
    #[case::applied_list(
        json!({"metadata": {"finalizers": ["a", "b"]}}), json!({"apiVersion": null, "metadata": {"finalizers": ["a"]}}), &[]
    )]
    fn fields_that_differ_are_told(#[case] before: Value, #[case] body: Value, #[case] expected: &[&str]) {
        assert_eq!(of(&before, &body, false), expected);
    }

    #[test]
    fn values_of_secrets_are_not_told() {
        let body = json!({"data": {"token": "new", "more": "x", "less": null}, "items": ["a", "b"]});
        let found = of(&json!({"data": {"token": "old", "less": "y"}, "items": []}), &body, true);
        assert_eq!(found, ["data.less: removed", "data.more: added", "data.token: changed", "items: added"]);
    }

    #[test]
    fn long_values_are_cut() {
        let found = of(&json!({}), &json!({"a": "ä".repeat(500)}), false);
        assert!(found[0].ends_with("… (502 characters)") && found[0].chars().count() < 130, "{found:?}");
    }
}
