//! Reading and editing JSON without panics.
//!
//! A Pod and a `SidecarSet` stay [`Value`]s from end to end, so that fields newer than this crate survive. The readers
//! here treat a field of an unexpected type as absent. Types are checked when objects are decoded
//! (`pillion_sidecarset::tables`), not at every use.

#[cfg(test)]
mod tests;

use serde_json::Value;

pub use pillion_json::{Bounded, Budget, Object, ParseError, Part, Partial, parse};

/// The maximum depth of a recursive walk over JSON. Deeper input is refused before it can overflow the guest's stack.
pub const MAX_DEPTH: usize = 64;

/// Creates an object with these entries.
pub fn object_of<const N: usize>(entries: [(&str, Value); N]) -> Value {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Returns the value at `path`, a list of object keys.
pub fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.as_object()?.get(*key))
}

/// Returns the text at `path`, or `""`: Kubernetes' JSON does not distinguish an absent string from an empty one.
pub fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the boolean at `path`, or `false`.
pub fn flag(value: &Value, path: &[&str]) -> bool {
    at(value, path).and_then(Value::as_bool).unwrap_or_default()
}

/// Whether a Kubernetes object is being deleted: `metadata.deletionTimestamp` is set.
pub fn is_terminating(object: &Value) -> bool {
    at(object, &["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null())
}

/// Returns the items of the list at `path`, or none.
pub fn items<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the texts in the list at `path`.
pub fn texts<'a>(value: &'a Value, path: &[&str]) -> Vec<&'a str> {
    items(value, path).iter().filter_map(Value::as_str).collect()
}

/// Returns the object at `path`.
pub fn object<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Object> {
    at(value, path).and_then(Value::as_object)
}

/// Returns the pairs of a `map[string]string` at `path`, ascending by key. Skips values that are not strings.
pub fn string_map<'a>(value: &'a Value, path: &[&str]) -> impl Iterator<Item = (&'a str, &'a str)> {
    object(value, path).into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

/// Returns the object at `key` of `parent`. Creates it if the field is absent or null; returns `None` if the field has
/// another type.
pub fn object_mut<'a>(parent: &'a mut Object, key: &str) -> Option<&'a mut Object> {
    let slot = parent.entry(key).or_insert(Value::Null);
    if slot.is_null() {
        *slot = Value::Object(Object::new());
    }
    slot.as_object_mut()
}

/// Returns the list at `key` of `parent`. Creates it if the field is absent or null; returns `None` if the field has
/// another type.
pub fn list_mut<'a>(parent: &'a mut Object, key: &str) -> Option<&'a mut Vec<Value>> {
    let slot = parent.entry(key).or_insert(Value::Null);
    if slot.is_null() {
        *slot = Value::Array(Vec::new());
    }
    slot.as_array_mut()
}

/// Removes and returns the member `key` of an object.
pub fn take(object: &mut Object, key: &str) -> Option<Value> {
    object.remove(key)
}

/// Returns the name of a value's type for messages: `a string`, `null`, ...
pub const fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Returns the length of a value as compact JSON, in bytes, not counting escapes. The result for a value longer than
/// `limit` may be any number a little above `limit`.
pub fn length(value: &Value, limit: usize) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(number) => number.as_str().len(),
        Value::String(text) => text.len() + 2,
        Value::Array(list) => length_of_members(list.iter().map(|item| (0, item)), limit),
        Value::Object(object) => object_length(object, limit),
    }
}

/// Returns the [`length`] of an object.
pub fn object_length(object: &Object, limit: usize) -> usize {
    length_of_members(object.iter().map(|(key, member)| (key.len() + 3, member)), limit)
}

/// Returns the length of the members of a list or an object. Each member comes with the bytes it needs besides its
/// value.
fn length_of_members<'a>(members: impl Iterator<Item = (usize, &'a Value)>, limit: usize) -> usize {
    let mut sum = 2_usize;
    for (own, member) in members {
        if sum > limit {
            break;
        }
        sum = sum.saturating_add(own + 1).saturating_add(length(member, limit - sum));
    }
    sum
}

/// Returns the depth of `value`: 0 for a scalar, one more than the deepest member for a container. Stops at `limit`.
pub fn depth(value: &Value, limit: usize) -> usize {
    if limit == 0 {
        return 0;
    }
    let deepest = |members: &mut dyn Iterator<Item = &Value>| {
        1 + members.map(|member| depth(member, limit - 1)).max().unwrap_or(0)
    };
    match value {
        Value::Array(list) => deepest(&mut list.iter()),
        Value::Object(object) => deepest(&mut object.values()),
        _ => 0,
    }
}
