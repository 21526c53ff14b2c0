//! A deserializer that reads the settings strictly.
//!
//! serde's derived types are too lenient for settings: they accept a list as a struct, with the fields in order, and an
//! object as an enumeration. They also treat `null` as a value; in the settings it counts as absent.

use std::fmt;

use pillion_kubernetes::field::{Cause, FieldError, FieldPath};
use serde::de::value::{BorrowedStrDeserializer, MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, Error, Expected, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value;

use pillion_kubernetes::words::nearest;

/// The most entries of a list (E18): reading each takes thousands of instructions.
const ENTRIES_MAX: usize = 10_000;

/// A JSON value that is read with these rules. Numbers in the settings are natural.
#[derive(Clone, Copy)]
pub(super) struct Strict<'a>(pub(super) &'a Value);

impl Strict<'_> {
    fn unexpected(&self) -> Unexpected<'_> {
        match self.0 {
            Value::Null => Unexpected::Unit,
            Value::Bool(flag) => Unexpected::Bool(*flag),
            Value::Number(_) => Unexpected::Other("a number"),
            Value::String(text) => Unexpected::Str(text),
            Value::Array(_) => Unexpected::Seq,
            Value::Object(_) => Unexpected::Map,
        }
    }
}

impl<'de> IntoDeserializer<'de, ShapeError> for Strict<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Strict<'de> {
    type Error = ShapeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ShapeError> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(*flag),
            Value::Number(number) => match number.as_u64() {
                Some(number) => visitor.visit_u64(number),
                None => Err(ShapeError::invalid_type(self.unexpected(), &visitor)),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) if items.len() > ENTRIES_MAX => Err(ShapeError::too_many()),
            Value::Array(items) => visitor.visit_seq(SeqDeserializer::new(items.iter().map(Strict))),
            Value::Object(members) => {
                let members = members.iter().filter(|(_, member)| !member.is_null());
                visitor.visit_map(MapDeserializer::new(members.map(|(key, member)| (key.as_str(), Strict(member)))))
            }
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ShapeError> {
        if self.0.is_object() {
            self.deserialize_any(visitor)
        } else {
            Err(ShapeError::invalid_type(self.unexpected(), &visitor))
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ShapeError> {
        match self.0 {
            Value::String(text) => visitor.visit_enum(BorrowedStrDeserializer::new(text)),
            _ => Err(ShapeError::invalid_type(self.unexpected(), &"a string")),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ShapeError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, ShapeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ShapeError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier
    }
}

/// An error about a value: a [`FieldError`] without its path.
#[derive(Debug)]
pub(super) struct ShapeError {
    /// The missing member of the value, if that is the error.
    missing: Option<&'static str>,
    cause: Cause,
    value: Option<String>,
    detail: String,
}

impl ShapeError {
    fn new(cause: Cause, detail: String) -> Self {
        Self { missing: None, cause, value: None, detail }
    }

    fn too_many() -> Self {
        Self::new(Cause::TooMany, format!("may have at most {ENTRIES_MAX} entries; remove some"))
    }

    /// Returns the error for the value at `path`.
    pub(super) fn at(self, path: &FieldPath<'_>) -> FieldError {
        let path = self.missing.map_or_else(|| path.to_string(), |member| path.child(member).to_string());
        let error = FieldError::new(path, self.cause, self.detail);
        match self.value {
            Some(value) => error.showing(value),
            None => error,
        }
    }
}

impl Error for ShapeError {
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self::new(Cause::Invalid, problem.to_string())
    }

    // The value is not shown, since it may be long.
    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Bool(_) => "a boolean",
            Unexpected::Str(_) => "a string",
            Unexpected::Seq => "a list",
            Unexpected::Map => "an object",
            Unexpected::Unit => "null",
            _ => "a number",
        };
        let expected = match expected.to_string().as_str() {
            "a sequence" => "a list".to_owned(),
            "a map" => "an object".to_owned(),
            "a boolean" => "true or false".to_owned(),
            "u64" => "a whole number that is not negative".to_owned(),
            other => other.to_owned(),
        };
        Self::new(Cause::Type, format!("must be {expected}, found {found}"))
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> Self {
        let detail = match nearest(key, known.iter().copied()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("known here: {}", known.join(", ")),
        };
        Self::new(Cause::Unknown, detail)
    }

    fn unknown_variant(value: &str, known: &'static [&'static str]) -> Self {
        let FieldError { cause, value, detail, .. } = FieldError::not_supported("", value, known);
        Self { missing: None, cause, value, detail }
    }

    fn missing_field(member: &'static str) -> Self {
        Self { missing: Some(member), ..Self::new(Cause::Required, "must be set".to_owned()) }
    }
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for ShapeError {}
