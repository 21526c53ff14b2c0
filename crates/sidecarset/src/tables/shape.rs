//! A read-only check that fields have the JSON types of the tables.

use pillion_kubernetes::field::{FieldError, FieldErrors, FieldPath};
use serde_json::Value;

use super::decode::mismatch;
use super::{Kind, Table, scalar};

/// Adds an error for every field of `value` that has another JSON type than in `table`. A field that is null counts as
/// absent, an item that is null counts as empty. Of the scalars, only texts are checked.
pub fn check_shape(value: &Value, table: &Table, place: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if errors.is_full() {
        return;
    }
    let Some(object) = value.as_object() else {
        errors.push(mismatch(value, "an object", place));
        return;
    };
    for field in table.fields {
        let place = place.child(field.name);
        match (field.kind, object.get(field.name)) {
            (_, None | Some(Value::Null)) => {}
            (Kind::Text, Some(value)) => check_text(value, &place, errors),
            (Kind::TextMap, Some(Value::Object(map))) => {
                for (key, value) in map {
                    check_text(value, &place.key(key), errors);
                }
            }
            (Kind::Objects(table), Some(Value::Array(items))) => {
                for (index, item) in items.iter().enumerate().filter(|(_, item)| !item.is_null()) {
                    check_shape(item, table, &place.index(index), errors);
                }
            }
            (Kind::Objects(_), Some(value)) => errors.push(mismatch(value, "a list", &place)),
            (Kind::Object(table), Some(value)) => check_shape(value, table, &place, errors),
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
