//! Converts the path of a field into a place in a file.

use crate::manifest::Manifest;
use pillion_kubernetes::field::{Cause, FieldError};
use pillion_yaml::token;
use serde_json::Value;

use crate::place::FilePlace;

/// The part of an existing field to point at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// The key: the field is unexpected, or all of it is meant.
    Key,
    /// The value if it is a scalar; the key of a list or an object.
    Value,
}

/// The deepest existing part of an object on a path.
#[derive(Debug, PartialEq, Eq)]
pub struct ResolvedPath {
    /// Its JSON pointer.
    pub pointer: String,
    /// Whether the part is the whole path, rather than a parent of a missing field.
    pub is_whole: bool,
}

/// Finds the part of an object at a path. The path alone does not show where a key with dots or brackets ends; the
/// existing keys do.
pub fn resolve(object: &Value, path: &str) -> ResolvedPath {
    let mut best = Best { pointer: String::new(), left: path.len() };
    walk(object, path, &mut String::new(), &mut best);
    ResolvedPath { pointer: best.pointer, is_whole: best.left == 0 }
}

struct Best {
    pointer: String,
    left: usize,
}

/// The depth is bounded by the length of the path, which is short for decoded objects.
fn walk(value: &Value, rest: &str, pointer: &mut String, best: &mut Best) {
    if rest.len() < best.left {
        best.left = rest.len();
        best.pointer.clone_from(pointer);
    }
    if best.left == 0 {
        return;
    }
    let length = pointer.len();
    match value {
        Value::Array(items) => {
            let Some((index, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) else { return };
            let Some(item) = index.parse().ok().and_then(|index: usize| items.get(index)) else { return };
            pointer.push('/');
            pointer.push_str(index);
            walk(item, after, pointer, best);
            pointer.truncate(length);
        }
        Value::Object(entries) => {
            // Try the longest key first: prefer one key with dots to several keys.
            let mut candidates: Vec<(&String, &Value, &str)> =
                entries.iter().filter_map(|(key, value)| Some((key, value, after(rest, key)?))).collect();
            candidates.sort_by_key(|(.., after)| after.len());
            for (key, value, after) in candidates {
                pointer.push('/');
                pointer.push_str(&token(key));
                walk(value, after, pointer, best);
                pointer.truncate(length);
            }
        }
        _ => {}
    }
}

/// Returns the rest of a path after `key`: a field (`.key`, or `key` at the root) or an entry of a map (`[key]`).
fn after<'a>(rest: &'a str, key: &str) -> Option<&'a str> {
    if let Some(inside) = rest.strip_prefix('[') {
        return inside.strip_prefix(key)?.strip_prefix(']');
    }
    let after = rest.strip_prefix('.').unwrap_or(rest).strip_prefix(key)?;
    (after.is_empty() || after.starts_with(['.', '['])).then_some(after)
}

/// Returns the place of a field in the file of `manifest`, or of its nearest existing parent. `shown` is the invalid
/// value: if the field is a map or a list that contains it, returns its place instead.
pub fn place(manifest: &Manifest, path: &str, aim: Aim, shown: Option<&str>) -> FilePlace {
    let resolved = resolve(&manifest.value, path);
    let pointer = resolved.pointer.as_str();
    let value = manifest.value.pointer(pointer);
    if resolved.is_whole
        && let Some(place) = shown.zip(value).and_then(|(shown, value)| inside(manifest, pointer, value, shown))
    {
        return place;
    }
    let is_scalar = !matches!(value, Some(Value::Object(_) | Value::Array(_)));
    let of_value = || manifest.value_at(pointer).filter(|span| !span.is_empty());
    let key = manifest.key_at(pointer);
    let span = match key {
        Some(key) if !(resolved.is_whole && is_scalar && aim == Aim::Value) => Some(key),
        key => of_value().or(key),
    };
    match span {
        Some(span) => FilePlace::new(&manifest.source, span),
        None => first_words(manifest, pointer),
    }
}

/// Returns errors about an object as texts, each after the file and line of its field.
pub fn messages(manifest: &Manifest, errors: &[FieldError]) -> Vec<String> {
    let message = |error: &FieldError| match error {
        FieldError { path, cause: Cause::Type, value: None, detail } => format!("{path}: {detail}"),
        error => error.to_string(),
    };
    errors.iter().map(|error| format!("{}: {}", line(manifest, error), message(error))).collect()
}

/// Returns the file and line of the field with an error, as in `pods.yaml:7`.
pub fn line(manifest: &Manifest, error: &FieldError) -> String {
    let aim = if error.cause == Cause::Unknown { Aim::Key } else { Aim::Value };
    let place = place(manifest, &error.path, aim, error.value.as_deref());
    format!("{}:{}", place.source.name, place.start().line)
}

/// Returns the place of the key or scalar `shown` in the map or list at `pointer`.
fn inside(manifest: &Manifest, pointer: &str, value: &Value, shown: &str) -> Option<FilePlace> {
    let span = match value {
        Value::Object(entries) => {
            if entries.contains_key(shown) {
                manifest.key_at(&format!("{pointer}/{}", token(shown)))?
            } else {
                let (key, _) = entries.iter().find(|(_, value)| value.as_str() == Some(shown))?;
                manifest.value_at(&format!("{pointer}/{}", token(key)))?
            }
        }
        Value::Array(items) => {
            let index = items.iter().position(|item| item.as_str() == Some(shown))?;
            manifest.value_at(&format!("{pointer}/{index}"))?
        }
        _ => return None,
    };
    Some(FilePlace::new(&manifest.source, span))
}

/// Points at the first key of a whole document or of an item of a block list, which have no range of their own.
fn first_words(manifest: &Manifest, pointer: &str) -> FilePlace {
    let start = manifest.value_at(pointer).map_or(0, |span| span.start);
    let line = manifest.source.text.get(start..).and_then(|text| text.lines().next()).unwrap_or_default();
    let word = line.split(':').next().unwrap_or_default();
    FilePlace::new(&manifest.source, start..start + word.len())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::manifest::{Source, parse};

    #[rstest]
    #[case::root("", "", true)]
    #[case::field("spec.containers[1].image", "/spec/containers/1/image", true)]
    #[case::missing_field("spec.containers[1].env[0].name", "/spec/containers/1", false)]
    #[case::missing_item("spec.containers[7].image", "/spec/containers", false)]
    #[case::not_a_part_of_a_name("spec.container", "/spec", false)]
    #[case::map_key("metadata.annotations[kruise.io/a.b~c]", "/metadata/annotations/kruise.io~1a.b~0c", true)]
    #[case::map_key_with_brackets("metadata.annotations[a].b[c]", "/metadata/annotations/a].b[c", true)]
    #[case::map_key_as_a_field("metadata.annotations.kruise.io/a.b~c", "/metadata/annotations/kruise.io~1a.b~0c", true)]
    #[case::missing_map_key("metadata.annotations[x]", "/metadata/annotations", false)]
    #[case::key_with_dots("spec.a.b[0]", "/spec/a.b[0]", true)]
    #[case::key_with_dots_goes_on("spec.a.b.c", "/spec/a.b/c", true)]
    #[case::shorter_key_where_the_longer_leads_nowhere("spec.a.b.d", "/spec/a/b.d", true)]
    #[case::a_key_that_is_a_number("spec.map[0]", "/spec/map/0", true)]
    #[case::below_a_scalar("spec.containers[1].image.x", "/spec/containers/1/image", false)]
    #[case::not_ascii("spec.ä[ö]", "/spec/ä/ö", true)]
    fn paths_name_what_is_there(#[case] path: &str, #[case] pointer: &str, #[case] is_whole: bool) {
        let object = json!({
            "metadata": {"annotations": {"kruise.io/a.b~c": "", "a].b[c": "", "a": {}}},
            "spec": {
                "containers": [{}, {"image": "x"}], "a.b[0]": 1, "a.b": {"c": 1}, "a": {"b": {"c": 2}, "b.d": 3},
                "map": {"0": 1}, "ä": {"ö": 1},
            },
        });
        let expected = ResolvedPath { pointer: pointer.to_owned(), is_whole };
        assert_eq!(resolve(&object, path), expected);
    }

    const YAML: &str = "# a set\nmetadata:\n  annotations:\n    kruise.io/a.b: 'x y'\n    empty:\n  labels: {a: b}\nspec:\n  \
                        list:\n  - name: one\n    args: [p, q]\n  - name: two\n  text: |\n    l1\n    l2\n";
    const JSON: &str = "{\"spec\": {\"list\": [{\"a/b\": 5}, {}], \"k\": {\"v\": \"w\"}}}";

    #[rstest]
    #[case::scalar(YAML, "spec.list[0].name", Aim::Value, None, "one", 9)]
    #[case::its_key(YAML, "spec.list[0].name", Aim::Key, None, "name", 9)]
    #[case::list(YAML, "spec.list", Aim::Value, None, "list", 8)]
    #[case::item(YAML, "spec.list[1]", Aim::Value, None, "name", 11)]
    #[case::missing(YAML, "spec.list[1].image", Aim::Value, None, "name", 11)]
    #[case::missing_at_the_top(YAML, "status", Aim::Value, None, "metadata", 2)]
    #[case::quoted_value_below_a_key_with_dots(
        YAML,
        "metadata.annotations[kruise.io/a.b]",
        Aim::Value,
        None,
        "'x y'",
        4
    )]
    #[case::no_value(YAML, "metadata.annotations[empty]", Aim::Value, None, "empty", 5)]
    #[case::key_that_is_shown(YAML, "metadata.annotations", Aim::Value, Some("kruise.io/a.b"), "kruise.io/a.b", 4)]
    #[case::value_that_is_shown(YAML, "metadata.labels", Aim::Value, Some("b"), "b", 6)]
    #[case::item_that_is_shown(YAML, "spec.list[0].args", Aim::Value, Some("q"), "q", 10)]
    #[case::shown_elsewhere(YAML, "metadata.labels", Aim::Value, Some("z"), "labels", 6)]
    #[case::text_over_lines(YAML, "spec.text", Aim::Value, None, "l1\n    l2", 13)]
    #[case::json_number(JSON, "spec.list[0].a/b", Aim::Value, None, "5", 1)]
    #[case::json_key(JSON, "spec.list[0].a/b", Aim::Key, None, "\"a/b\"", 1)]
    #[case::json_item(JSON, "spec.list[1].x", Aim::Value, None, "{", 1)]
    #[case::json_object(JSON, "spec.k", Aim::Value, None, "\"k\"", 1)]
    fn carets_stand_under_the_field(
        #[case] text: &str,
        #[case] path: &str,
        #[case] aim: Aim,
        #[case] shown: Option<&str>,
        #[case] expected: &str,
        #[case] line: usize,
    ) {
        let source = Arc::new(Source::new("a.yaml", text));
        let manifest = parse(&source).unwrap().remove(0);
        let place = place(&manifest, path, aim, shown);
        assert_eq!((text.get(place.span.clone()).unwrap(), place.start().line), (expected, line));
    }
}
