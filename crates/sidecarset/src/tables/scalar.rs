//! Scalars: the JSON values that a Go type accepts, and the JSON that Go writes for them.

use pillion_json::go as go_json;
use pillion_kubernetes::quantity::Quantity;
use serde_json::{Number, Value};

use super::{Kind, time};

/// The name of `int32` and `int64` in errors.
pub(super) const INTEGER: &str = "an integer";
/// The name of `bool` in errors.
pub(super) const BOOLEAN: &str = "a boolean";
/// The name of `string` in errors.
pub(super) const TEXT: &str = "a string";
/// The zero value of a quantity.
pub(super) const ZERO_QUANTITY: &str = "0";

/// The reason why a value does not fit.
pub(super) enum Wrong {
    /// The value does not have this JSON type.
    Type(&'static str),
    /// The value has the right JSON type, but this problem.
    Value(String),
}

/// Checks that a scalar of this kind can hold `value`, which is not `null`. Kinds that are not scalars accept any
/// value.
pub(super) fn check(value: &Value, kind: Kind) -> Result<(), Wrong> {
    match (kind, value) {
        (Kind::Text | Kind::IntOrString, Value::String(_)) | (Kind::Bool, Value::Bool(_)) => Ok(()),
        (Kind::Text, _) => Err(Wrong::Type(TEXT)),
        (Kind::Bool, _) => Err(Wrong::Type(BOOLEAN)),
        (Kind::Int64, Value::Number(number)) => integer(number, i64::MIN, i64::MAX),
        (Kind::Int32 | Kind::IntOrString, Value::Number(number)) => integer(number, i32::MIN.into(), i32::MAX.into()),
        (Kind::Int32 | Kind::Int64, _) => Err(Wrong::Type(INTEGER)),
        (Kind::IntOrString, _) => Err(Wrong::Type("an integer or a string")),
        (Kind::Quantity, Value::String(_) | Value::Number(_)) => {
            Quantity::from_json(value).map(drop).map_err(|error| Wrong::Value(error.to_string()))
        }
        (Kind::Quantity, _) => Err(Wrong::Type("a quantity, like \"500m\" or \"1Gi\"")),
        (Kind::Time, Value::String(text)) => match time::canonical(text) {
            Some(_) => Ok(()),
            None => Err(Wrong::Value("must be a time as in RFC 3339, like \"2026-01-02T03:04:05Z\"".to_owned())),
        },
        (Kind::Time, _) => Err(Wrong::Type("a time in a string")),
        _ => Ok(()),
    }
}

/// Checks the literal, as Go does: `1.0` and `1e3` are not integers.
fn integer(number: &Number, low: i64, high: i64) -> Result<(), Wrong> {
    if number.as_i64().is_some_and(|value| (low..=high).contains(&value)) {
        return Ok(());
    }
    Err(Wrong::Value(format!("must be an integer between {low} and {high}, without fraction or exponent")))
}

/// Whether `text` would be valid for the expected type without its quotes.
pub(super) fn is_quoted(text: &str, expected: &str) -> bool {
    match expected {
        INTEGER => text.parse::<i64>().is_ok(),
        BOOLEAN => matches!(text, "true" | "false"),
        _ => false,
    }
}

/// Writes a scalar as Go does, or unchanged if [`check`] would refuse it. With `as_float`, writes a number as Go writes
/// it from a generic map, where every number is a float64.
pub(super) fn write(out: &mut String, value: &Value, kind: Kind, as_float: bool) {
    match (kind, value) {
        (Kind::Quantity, _) => match Quantity::from_json(value) {
            Ok(quantity) => go_json::write_string(out, &quantity.to_string()),
            Err(_) => go_json::write_sorted(out, value),
        },
        (Kind::Time, Value::String(text)) => match time::canonical(text).as_deref() {
            Some(time::ZERO) => out.push_str("null"),
            canonical => go_json::write_string(out, canonical.unwrap_or(text)),
        },
        (_, Value::Number(number)) => write_integer(out, number, as_float),
        (_, Value::String(text)) => go_json::write_string(out, text),
        (_, Value::Bool(flag)) => out.push_str(if *flag { "true" } else { "false" }),
        (_, other) => go_json::write_sorted(out, other),
    }
}

fn write_integer(out: &mut String, number: &Number, as_float: bool) {
    match number.as_i64() {
        // Up to 2^53 integers and floats print alike. Beyond, Go and Rust print the same shortest digits.
        #[expect(clippy::cast_precision_loss, reason = "the loss is what the reference stores")]
        Some(value) if as_float => out.push_str(&(value as f64).to_string()),
        Some(value) => out.push_str(&value.to_string()),
        None => out.push_str(number.as_str()),
    }
}
