//! The value of a scalar, as JSON and as a key.

use serde_json::{Number, Value};

/// The value of a scalar.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer above the largest `i64`.
    Uint(u64),
    Float(f64),
    /// A number of JSON, as it is written.
    Exact(Number),
    Text(String),
}

impl Scalar {
    /// Returns the value as JSON.
    ///
    /// # Errors
    /// What is wrong: JSON has no infinite number.
    pub(crate) fn json(&self) -> Result<Value, String> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Number((*value).into()),
            Self::Uint(value) => Value::Number((*value).into()),
            Self::Float(value) => {
                let number = value.is_finite().then(|| serde_json::from_str(&float(*value, f64::to_string)).ok());
                Value::Number(number.flatten().ok_or_else(|| format!("JSON has no number {value}"))?)
            }
            Self::Exact(number) => Value::Number(number.clone()),
            Self::Text(text) => Value::String(text.clone()),
        })
    }

    /// Returns the value as the key of an object.
    ///
    /// # Errors
    /// What is wrong: nothing, and integers above the largest `i64`, are no keys.
    pub(crate) fn key(&self) -> Result<String, String> {
        Ok(match self {
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) if value.is_nan() => ".nan".to_owned(),
            Self::Float(value) if value.is_infinite() => if *value > 0.0 { ".inf" } else { "-.inf" }.to_owned(),
            Self::Float(value) => short(*value),
            Self::Text(text) => text.clone(),
            Self::Exact(number) => number.to_string(),
            Self::Null => return Err("a key is empty or null".to_owned()),
            Self::Uint(value) => return Err(format!("the number {value} is too large for a key; quote it")),
        })
    }
}

/// Writes a float as Go's JSON does: with an exponent below 1e-6 and from 1e21 on.
fn float(value: f64, digits: impl Fn(&f64) -> String) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) { exponent(&format!("{value:e}"), 1) } else { digits(&value) }
}

/// Writes a float in the precision of 32 bits, as sigs.k8s.io/yaml writes keys: with an exponent below 1e-4 and from 1e6
/// on.
#[expect(clippy::cast_possible_truncation, reason = "sigs.k8s.io/yaml rounds so")]
fn short(value: f64) -> String {
    let value = value as f32;
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e6).contains(&size) { exponent(&format!("{value:e}"), 2) } else { value.to_string() }
}

/// Rust writes `1e-7` and `1e21`; Go writes `1e-07` and `1e+21`, and JSON from Go `1e-7`.
fn exponent(text: &str, digits: usize) -> String {
    let Some((mantissa, exponent)) = text.split_once('e') else { return text.to_owned() };
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{exponent:0>digits$}")
}
