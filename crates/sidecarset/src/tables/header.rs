//! Checks of `kind` and `apiVersion` of a manifest.

use pillion_kubernetes::field::{FieldError, FieldPath};
use pillion_kubernetes::json;
use serde_json::Value;

/// Checks that the text at `key` is one of `supported`.
pub(crate) fn expect_text(object: &Value, key: &str, supported: &[&str], errors: &mut Vec<FieldError>) {
    let path = FieldPath::new(key);
    match json::at(object, &[key]) {
        None | Some(Value::Null) => {
            errors.push(FieldError::required(path, format!("must be {}", supported.join(" or "))));
        }
        Some(Value::String(text)) if supported.contains(&text.as_str()) => {}
        Some(Value::String(text)) => errors.push(FieldError::not_supported(path, text, supported)),
        Some(other) => errors.push(FieldError::not_supported(path, other.to_string(), supported)),
    }
}
