//! Validation of an object's annotations.

use crate::field::{FieldError, FieldErrors};
use crate::json;
use crate::name_validation;
use crate::node::{Node, lower_case};

/// The size limit of all annotations of an object together, keys and values, in bytes.
const ANNOTATIONS_MAX: usize = 256 * 1024;

/// Checks the annotations of an object: the format of each key, ignoring case, and the total size.
pub fn check(object: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let at = object.at("annotations");
    let mut size = 0_usize;
    for (key, value) in json::string_map(object.value, &["annotations"]) {
        size = size.saturating_add(key.len()).saturating_add(value.len());
        errors.wrong(&at, key, name_validation::qualified_name(&lower_case(key)));
    }
    if size > ANNOTATIONS_MAX {
        errors.too_long(&at, ANNOTATIONS_MAX);
    }
}
