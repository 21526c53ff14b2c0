//! The walk that only looks: whether fields have the JSON types that the tables say.

use pillion_kubernetes::field::{FieldError, FieldErrors, FieldPath};
use serde_json::Value;

use super::decode::mismatch;
use super::{Kind, Schema, scalar};

/// Adds an error for every field of `value` that has another JSON type than in `schema`. Null is absent, as an item
/// it is empty. Of scalars only texts are checked.
pub fn check_shape(value: &Value, schema: &Schema, place: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if errors.is_full() {
        return;
    }
    let Some(object) = value.as_object() else {
        errors.push(mismatch(value, "an object", place));
        return;
    };
    for field in schema.fields {
        let place = place.child(field.name);
        match (field.kind, object.get(field.name)) {
            (_, None | Some(Value::Null)) => {}
            (Kind::Text, Some(value)) => check_text(value, &place, errors),
            (Kind::TextMap, Some(Value::Object(map))) => {
                for (key, value) in map {
                    check_text(value, &place.key(key), errors);
                }
            }
            (Kind::Objects(schema), Some(Value::Array(items))) => {
                for (index, item) in items.iter().enumerate().filter(|(_, item)| !item.is_null()) {
                    check_shape(item, schema, &place.index(index), errors);
                }
            }
            (Kind::Objects(_), Some(value)) => errors.push(mismatch(value, "a list", &place)),
            (Kind::Object(schema), Some(value)) => check_shape(value, schema, &place, errors),
            (Kind::TextMap, Some(value)) => errors.push(mismatch(value, "an object", &place)),
            _ => {}
        }
    }
}

fn check_text(value: &Value, place: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if !value.is_string() && !errors.is_full() {
        errors.push(mismatch(value, scalar::TEXT, place));
    }
}
