//! JSON merge patch on annotation values (INJ-10, INJ-11; RFC 7386).

use pillion_kubernetes::json::{self, Object};
use serde_json::Value;

/// The reason why a merge is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MergeError {
    /// The Pod's value is not JSON, or null.
    Document,
    /// The `SidecarSet`'s value is not JSON, null, or a scalar.
    Patch,
}

impl MergeError {
    /// Returns the message.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Document => "the Pod's value is no JSON document",
            Self::Patch => "the SidecarSet's value is neither a JSON object nor a JSON list",
        }
    }
}

/// Parses the annotation of a Pod as the document of a merge.
///
/// # Errors
/// As in the reference implementation, a document that is not JSON.
pub fn document(text: &str) -> Result<Value, MergeError> {
    json::parse(text.as_bytes()).map_err(|_| MergeError::Document)
}

/// Parses the value of a `SidecarSet` as a patch.
///
/// # Errors
/// A patch that is not JSON.
pub fn patch(text: &str) -> Result<Value, MergeError> {
    json::parse(text.as_bytes()).map_err(|_| MergeError::Patch)
}

/// Merges a patch into a document. The running time depends only on the length of the patch.
///
/// # Errors
/// As in the reference implementation: a document that is null; a patch that is null or a scalar. The patch replaces a
/// document that is a list or a scalar.
pub fn merge(document: Value, patch: &Value) -> Result<Value, MergeError> {
    match (document, patch) {
        (Value::Null, _) => Err(MergeError::Document),
        (Value::Object(mut document), Value::Object(patch)) => {
            merge_objects(&mut document, patch);
            Ok(Value::Object(document))
        }
        (_, patch @ (Value::Object(_) | Value::Array(_))) => Ok(without_nulls(patch)),
        _ => Err(MergeError::Patch),
    }
}

fn merge_objects(document: &mut Object, patch: &Object) {
    for (key, value) in patch {
        match (document.get_mut(key), value) {
            (None, Value::Null) => {}
            (Some(_), Value::Null) => {
                document.remove(key);
            }
            (Some(Value::Object(current)), Value::Object(patch)) => merge_objects(current, patch),
            // As in the reference implementation, a list that replaces an object keeps its nulls.
            (Some(current @ Value::Object(_)), value @ Value::Array(_)) => *current = value.clone(),
            // Unlike in the reference implementation, the same list keeps its nulls again: the Pod is admitted a second
            // time.
            (Some(current @ Value::Array(_)), value) if current == value => {}
            (Some(current), value) => *current = without_nulls(value),
            (None, value) => {
                document.insert(key.clone(), without_nulls(value));
            }
        }
    }
}

/// Returns the value without object members that are null, as a merge into an absent value does.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            // Do not use `collect`: it would compile another sort into the module.
            let mut kept = Object::new();
            for (key, value) in object {
                if !value.is_null() {
                    kept.insert(key.clone(), without_nulls(value));
                }
            }
            Value::Object(kept)
        }
        Value::Array(list) => Value::Array(list.iter().map(without_nulls).collect()),
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::adds_a_key(r#"{"main": 2}"#, r#"{"log-agent": 1}"#, Ok(r#"{"log-agent":1,"main":2}"#))]
    #[case::null_deletes(r#"{"a":1,"b":2}"#, r#"{"a":null}"#, Ok(r#"{"b":2}"#))]
    #[case::nested(r#"{"a":{"b":1}}"#, r#"{"a":{"c":2}}"#, Ok(r#"{"a":{"b":1,"c":2}}"#))]
    #[case::nulls_of_added_objects_go("{}", r#"{"a":{"b":null,"c":1}}"#, Ok(r#"{"a":{"c":1}}"#))]
    #[case::nulls_of_added_lists_go(r#"{"a":1}"#, r#"{"a":[{"b":null},null]}"#, Ok(r#"{"a":[{},null]}"#))]
    #[case::nulls_of_a_list_that_replaces_an_object_stay(
        r#"{"a":{}}"#,
        r#"{"a":[{"b":null}]}"#,
        Ok(r#"{"a":[{"b":null}]}"#)
    )]
    #[case::nulls_of_a_list_that_is_there_stay(
        r#"{"a":[{"b":null}]}"#,
        r#"{"a":[{"b":null}]}"#,
        Ok(r#"{"a":[{"b":null}]}"#)
    )]
    #[case::nulls_of_the_document_stay(r#"{"x":null}"#, r#"{"a":1}"#, Ok(r#"{"a":1,"x":null}"#))]
    #[case::list_document_gives_way("[1]", r#"{"a":1}"#, Ok(r#"{"a":1}"#))]
    #[case::text_document_gives_way(r#""x""#, r#"{"a":1}"#, Ok(r#"{"a":1}"#))]
    #[case::list_patch_replaces(r#"{"a":1}"#, "[1,2]", Ok("[1,2]"))]
    #[case::number_literals_stay(r#"{"a":1.50}"#, r#"{"b":1e3}"#, Ok(r#"{"a":1.50,"b":1e3}"#))]
    #[case::scalar_patch(r#"{"a":1}"#, "5", Err(MergeError::Patch))]
    #[case::null_patch(r#"{"a":1}"#, "null", Err(MergeError::Patch))]
    #[case::broken_patch(r#"{"a":1}"#, "{", Err(MergeError::Patch))]
    #[case::null_document("null", r#"{"a":1}"#, Err(MergeError::Document))]
    #[case::broken_document("not json", r#"{"a":1}"#, Err(MergeError::Document))]
    #[case::too_deep(&"[".repeat(10_000), "{}", Err(MergeError::Document))]
    fn inj11_merge_corner_cases(#[case] text: &str, #[case] patch: &str, #[case] expected: Result<&str, MergeError>) {
        let expected = expected.map(|text| serde_json::from_str::<Value>(text).unwrap());
        let merged = document(text).and_then(|document| merge(document, &super::patch(patch)?));
        assert_eq!(merged, expected);
    }
}
