//! Validation of an object's annotations.

use serde_json::Value;

use crate::field::{Cause, FieldError, FieldErrors};
use crate::json;
use crate::name_validation;
use crate::node::Node;

/// The size limit of all annotations of an object together, keys and values, in bytes. It is that of the API server.
pub const ANNOTATIONS_MAX: usize = 256 * 1024;

/// Returns an error if the annotations of an object in a request are longer than the API server allows. It checks that
/// after the webhooks, so callers check it before they parse an annotation (E18).
pub fn too_long(object: &Value) -> Option<FieldError> {
    let path = ["metadata", "annotations"];
    let size: usize = json::string_map(object, &path).map(|(key, value)| key.len() + value.len()).sum();
    let detail = format!(
        "all keys and values together may have at most {ANNOTATIONS_MAX} bytes, as in the API server; shorten or remove \
         some of them"
    );
    (size > ANNOTATIONS_MAX).then(|| FieldError::new(path.join("."), Cause::TooLong, detail))
}

/// Checks the annotations of an object: the format of each key, ignoring case, and the total size.
pub fn check(object: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let at = object.at("annotations");
    let mut size = 0_usize;
    for (key, value) in json::string_map(object.value, &["annotations"]) {
        size = size.saturating_add(key.len()).saturating_add(value.len());
        errors.wrong(&at, key, name_validation::qualified_name(&key.to_ascii_lowercase()));
    }
    if size > ANNOTATIONS_MAX {
        errors.too_long(&at, ANNOTATIONS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::as_long_as_allowed(ANNOTATIONS_MAX - 2, false)]
    #[case::one_byte_more(ANNOTATIONS_MAX - 1, true)]
    fn e18_keys_and_values_count_together(#[case] bytes: usize, #[case] found: bool) {
        let object = json!({"metadata": {"annotations": {"a": "b", "": "x".repeat(bytes)}}});
        assert_eq!(too_long(&object).is_some(), found);
    }

    #[rstest]
    #[case::none(json!({}))]
    #[case::null(json!({"metadata": {"annotations": null}}))]
    #[case::another_type(json!({"metadata": {"annotations": [1]}}))]
    fn e18_an_object_without_annotations_is_short(#[case] object: Value) {
        assert_eq!(too_long(&object), None);
    }
}
