//! The walk that checks types and takes JSON nulls out.
//!
//! It refuses what the reference's decoder (sigs.k8s.io/json into Go structs) refuses and collects every error
//! instead of the first. Keys are matched case-sensitively. A field that no table knows is not touched.

use pillion_kubernetes::field::{Cause, FieldError, FieldErrors, FieldPath};
use pillion_kubernetes::json::{self, MAX_DEPTH};
use pillion_kubernetes::node::shown;
use serde_json::Value;

use super::scalar;
use super::{Field, Kind, Schema};

/// The most objects in one list: many times what a Pod can have. Each costs the same however short it is (E18).
const ITEMS_MAX: usize = 4_000;
/// The same for containers, each of which defaults make several times longer before it is hashed.
const CONTAINERS_MAX: usize = 1_000;

/// Checks `value` against `schema` and normalises it in place; every error is added to `errors`, below `path`.
///
/// * A field whose value is `null` is removed: `null` is absent.
/// * Where `null` is an item, it becomes the zero value that Go gives it: `{}` in a list of objects, `""` in a list
///   or a map of texts, `"0"` in a map of quantities.
/// * Numbers and quantities keep the text in which they were written.
///
/// # Errors
/// [`Cause::Type`] for each value of another type, [`Cause::Invalid`] for what is nested deeper than
/// [`MAX_DEPTH`], [`Cause::TooMany`] for a list of more than 4,000 objects or 1,000 containers. The value is then partly
/// normalised and must not be used.
pub fn decode(value: &mut Value, schema: &'static Schema, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    object(value, schema, path, 1, errors);
}

/// `depth` is that of `value`: 1 for the object that was handed in.
fn object(
    value: &mut Value,
    schema: &'static Schema,
    place: &FieldPath<'_>,
    depth: usize,
    errors: &mut Vec<FieldError>,
) {
    let Value::Object(object) = value else {
        errors.push(mismatch(value, "an object", place));
        return;
    };
    let mut nulls = false;
    for (name, value) in object.iter_mut() {
        let place = place.child(name);
        match schema.field(name) {
            Some(_) if value.is_null() => nulls = true,
            Some(known) => field(value, known, &place, depth, errors),
            None => nesting(value, &place, depth, errors),
        }
    }
    if nulls {
        object.retain(|name, value| !value.is_null() || schema.field(name).is_none());
    }
}

fn field(value: &mut Value, known: &Field, place: &FieldPath<'_>, depth: usize, errors: &mut Vec<FieldError>) {
    match known.kind {
        Kind::Object(schema) => object(value, schema, place, depth + 1, errors),
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

/// Reports a list of more objects than it may have.
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
            Kind::Objects(schema) => object(item, schema, &place, depth + 2, errors),
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

/// A scalar in a list or a map, where `null` is the zero value.
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

/// The error for a value of another type. The value is not shown: it may be a secret, or large.
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

/// Refuses what the tables do not bound: later walks over it recurse. `depth` is that of the object around it.
fn nesting(value: &Value, place: &FieldPath<'_>, depth: usize, errors: &mut Vec<FieldError>) {
    let left = MAX_DEPTH.saturating_sub(depth);
    if json::depth(value, left + 1) > left {
        let detail = format!("is nested too deeply; an object may be at most {MAX_DEPTH} levels deep");
        errors.add(|| FieldError::new(place, Cause::Invalid, detail));
    }
}
