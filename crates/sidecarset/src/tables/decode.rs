//! The walk that checks types and removes JSON nulls.
//!
//! It refuses the same values as the reference's decoder (sigs.k8s.io/json into Go structs), and collects every error
//! instead of only the first. Keys are case-sensitive. Unknown fields stay unchanged.

use pillion_kubernetes::field::{Cause, FieldError, FieldErrors, FieldPath};
use pillion_kubernetes::json::{self, MAX_DEPTH};
use pillion_kubernetes::node::shown;
use serde_json::Value;

use super::scalar;
use super::{Field, Kind, Table};

/// The maximum number of objects in one list: many times the number that a Pod can have. Each object has a fixed cost,
/// however short it is (E18).
const ITEMS_MAX: usize = 4_000;
/// The maximum number of containers in one list. Defaults make each container several times longer before it is hashed.
const CONTAINERS_MAX: usize = 1_000;

/// Checks `value` against `table` and normalizes it in place. Adds every error to `errors`, below `path`.
///
/// * A field with the value `null` is removed: `null` means absent.
/// * An item that is `null` becomes Go's zero value: `{}` in a list of objects, `""` in a list or a map of texts, `"0"`
///   in a map of quantities.
/// * Numbers and quantities keep the text in which they were written.
///
/// # Errors
/// [`Cause::Type`] for each value of another type, [`Cause::Invalid`] for values nested deeper than [`MAX_DEPTH`],
/// [`Cause::TooMany`] for a list of more than 4,000 objects or 1,000 containers. The value is then only partly
/// normalized and must not be used.
pub fn decode(value: &mut Value, table: &'static Table, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    object(value, table, path, 1, errors);
}

/// Checks and normalizes an object. `depth` is the depth of `value`: 1 for the root object.
fn object(value: &mut Value, table: &'static Table, place: &FieldPath<'_>, depth: usize, errors: &mut Vec<FieldError>) {
    let Value::Object(object) = value else {
        errors.push(mismatch(value, "an object", place));
        return;
    };
    let mut nulls = false;
    for (name, value) in object.iter_mut() {
        let place = place.child(name);
        match table.field(name) {
            Some(_) if value.is_null() => nulls = true,
            Some(known) => field(value, known, &place, depth, errors),
            None => nesting(value, &place, depth, errors),
        }
    }
    if nulls {
        object.retain(|name, value| !value.is_null() || table.field(name).is_none());
    }
}

fn field(value: &mut Value, known: &Field, place: &FieldPath<'_>, depth: usize, errors: &mut Vec<FieldError>) {
    match known.kind {
        Kind::Object(table) => object(value, table, place, depth + 1, errors),
        kind @ (Kind::Objects(_) | Kind::Texts) => {
            if !is_too_long(value, known, place, errors) {
                each_item(value, kind, place, depth, errors);
            }
        }
        Kind::TextMap => each_entry(value, Kind::Text, place, errors),
        Kind::QuantityMap => each_entry(value, Kind::Quantity, place, errors),
        Kind::Any => nesting(value, place, depth, errors),
        kind => check(value, kind, place, errors),
    }
}

/// Reports a list with too many objects. Returns whether it did.
fn is_too_long(value: &Value, known: &Field, place: &FieldPath<'_>, errors: &mut Vec<FieldError>) -> bool {
    let most = match known {
        Field { kind: Kind::Objects(_), name: "containers" | "initContainers", .. } => CONTAINERS_MAX,
        Field { kind: Kind::Objects(_), .. } => ITEMS_MAX,
        _ => usize::MAX,
    };
    let is_too_long = json::items(value, &[]).len() > most;
    if is_too_long {
        errors.add(|| FieldError::new(place, Cause::TooMany, format!("may have at most {most} items; remove some")));
    }
    is_too_long
}

fn each_item(value: &mut Value, kind: Kind, place: &FieldPath<'_>, depth: usize, errors: &mut Vec<FieldError>) {
    let Value::Array(list) = value else {
        errors.push(mismatch(value, "a list", place));
        return;
    };
    for (index, item) in list.iter_mut().enumerate() {
        if errors.is_full() {
            return;
        }
        let place = place.index(index);
        match kind {
            Kind::Objects(_) if item.is_null() => *item = Value::Object(json::Object::new()),
            Kind::Objects(table) => object(item, table, &place, depth + 2, errors),
            _ => entry(item, Kind::Text, &place, errors),
        }
    }
}

fn each_entry(value: &mut Value, kind: Kind, place: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let Value::Object(map) = value else {
        errors.push(mismatch(value, "an object", place));
        return;
    };
    for (key, value) in map.iter_mut() {
        if errors.is_full() {
            return;
        }
        entry(value, kind, &place.key(key), errors);
    }
}

/// Checks a scalar in a list or a map, and replaces `null` by the zero value.
fn entry(value: &mut Value, kind: Kind, place: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if value.is_null() {
        let zero = if matches!(kind, Kind::Quantity) { scalar::ZERO_QUANTITY } else { "" };
        *value = Value::String(zero.to_owned());
    } else {
        check(value, kind, place, errors);
    }
}

fn check(value: &Value, kind: Kind, place: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let Err(wrong) = scalar::check(value, kind) else { return };
    match wrong {
        scalar::Wrong::Type(expected) => errors.push(mismatch(value, expected, place)),
        scalar::Wrong::Value(detail) => {
            errors.add(|| FieldError::new(place, Cause::Type, detail).showing(shown(value)));
        }
    }
}

/// Returns the error for a value of another type. It does not show the value, which may be secret or large.
pub(super) fn mismatch(value: &Value, expected: &str, place: &FieldPath<'_>) -> FieldError {
    let advice = match value {
        Value::Number(_) | Value::Bool(_) if expected == scalar::TEXT => "; put it in quotes",
        Value::String(text) if scalar::is_quoted(text, expected) => "; write it without quotes",
        _ => "",
    };
    let mut error = FieldError::wrong_type(place, expected, value);
    error.detail.push_str(advice);
    error
}

/// Refuses an unknown value that is nested too deeply, because later walks recurse into it. `depth` is the depth of the
/// enclosing object.
fn nesting(value: &Value, place: &FieldPath<'_>, depth: usize, errors: &mut Vec<FieldError>) {
    let left = MAX_DEPTH.saturating_sub(depth);
    if json::depth(value, left + 1) > left {
        let detail = format!("is nested too deeply; an object may be at most {MAX_DEPTH} levels deep");
        errors.add(|| FieldError::new(place, Cause::Invalid, detail));
    }
}
