//! Field errors with their causes and remedies.

use std::fmt;

use serde_json::Value;
use serde_path_to_error::Segment;

use super::path::FieldPath;
use super::text::{cut, shortened};
use crate::json;

/// The kind of a field error, named as Kubernetes prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A value is missing.
    Required,
    /// A value is malformed or not allowed here.
    Invalid,
    /// A value is not one of the known values.
    NotSupported,
    /// A value appears twice but must be unique.
    Duplicate,
    /// A value refers to an object or item that does not exist.
    NotFound,
    /// A value is well formed but may not be set.
    Forbidden,
    /// A value has the wrong JSON type.
    Type,
    /// A value is longer than it may be.
    TooLong,
    /// A list holds more items than it may.
    TooMany,
    /// A field is unknown, so nothing reads it.
    Unknown,
}

impl Cause {
    /// Returns the words between the path and the value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::Type => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::NotFound => "Not found",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Unknown => "Unknown field",
        }
    }
}

/// One error of an object: the field, the cause, the value, and the remedy.
///
/// Printed as `<path>: <cause>: "<value>": <detail>`, the form of Kubernetes' own field errors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldError {
    /// The path of the field.
    pub path: String,
    /// The kind of error.
    pub cause: Cause,
    /// The offending value for display: never a secret, cut to a readable length.
    pub value: Option<String>,
    /// The problem and the remedy. Lower case, no full stop.
    pub detail: String,
}

/// The maximum number of characters that an error shows of another library's message.
const DETAIL: usize = 400;

/// The constructors take `path` as a [`FieldPath`] or as text.
impl FieldError {
    /// Creates an error without a value.
    pub fn new(path: impl Into<String>, cause: Cause, detail: impl Into<String>) -> Self {
        Self { path: path.into(), cause, value: None, detail: detail.into() }
    }

    /// Creates an error with [`Cause::Required`].
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, Cause::Required, detail)
    }

    /// Creates an error with [`Cause::Forbidden`].
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, Cause::Forbidden, detail)
    }

    /// Creates an error with [`Cause::Invalid`] that shows `value`.
    pub fn invalid(path: impl Into<String>, value: impl fmt::Display, detail: impl Into<String>) -> Self {
        Self::new(path, Cause::Invalid, detail).showing(value)
    }

    /// Creates an error with [`Cause::Duplicate`] that shows `value`.
    pub fn duplicate(path: impl Into<String>, value: impl fmt::Display) -> Self {
        Self::new(path, Cause::Duplicate, "").showing(value)
    }

    /// Creates an error with [`Cause::NotFound`] that shows `value`.
    pub fn not_found(path: impl Into<String>, value: impl fmt::Display, detail: impl Into<String>) -> Self {
        Self::new(path, Cause::NotFound, detail).showing(value)
    }

    /// Creates an error with [`Cause::NotSupported`] that shows `value` and the supported values.
    pub fn not_supported(path: impl Into<String>, value: impl fmt::Display, supported: &[&str]) -> Self {
        Self::new(path, Cause::NotSupported, supported_values(supported)).showing(value)
    }

    /// Creates an error with [`Cause::TooLong`]. The limit is in bytes.
    pub fn too_long(path: impl Into<String>, limit: usize) -> Self {
        Self::new(path, Cause::TooLong, format!("may have at most {limit} bytes"))
    }

    /// Creates an error with [`Cause::Type`]: `wanted` names a type, and `found` has another. The error does not show
    /// the content of `found`, which may be secret or long.
    pub fn wrong_type(path: impl Into<String>, wanted: &str, found: &Value) -> Self {
        Self::new(path, Cause::Type, format!("must be {wanted}, found {}", json::type_name(found)))
    }

    /// Creates an error with [`Cause::Type`] from an error of serde, whose path is relative to `root`.
    pub fn undecodable(root: impl fmt::Display, error: &serde_path_to_error::Error<impl fmt::Display>) -> Self {
        let path = error.path().iter().fold(root.to_string(), |path, segment| match segment {
            Segment::Seq { index } => FieldPath::new(&path).index(*index).to_string(),
            Segment::Map { key } => FieldPath::new(&path).child(key).to_string(),
            Segment::Enum { .. } | Segment::Unknown => path,
        });
        // Serde's message may contain a text of any length.
        Self::new(path, Cause::Type, cut(&error.inner().to_string(), DETAIL))
    }

    /// Returns the same error with the offending value.
    #[must_use]
    pub fn showing(self, value: impl fmt::Display) -> Self {
        Self { value: Some(shortened(&value.to_string())), ..self }
    }

    /// Returns the same error with its path moved below `parent`.
    #[must_use]
    pub fn below(mut self, parent: impl fmt::Display) -> Self {
        let parent = parent.to_string();
        self.path = match (parent.as_str(), self.path.as_str()) {
            ("", _) => self.path,
            (_, "") => parent,
            (parent, path) if path.starts_with('[') => format!("{parent}{path}"),
            (parent, path) => format!("{parent}.{path}"),
        };
        self
    }
}

fn supported_values(supported: &[&str]) -> String {
    let quoted: Vec<String> = supported.iter().map(|value| format!("\"{value}\"")).collect();
    format!("supported values: {}", quoted.join(", "))
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(self.cause.as_str())?;
        if let Some(value) = &self.value {
            write!(f, ": {value:?}")?;
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

impl std::error::Error for FieldError {}

/// Joins errors into one line.
pub fn joined(errors: &[FieldError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_move_below_a_parent() {
        let parent = FieldPath::new("sidecarSets");
        let moved = |path: &str| FieldError::required(path, "").below(parent.index(3)).path;
        assert_eq!(moved("spec.selector"), "sidecarSets[3].spec.selector");
        assert_eq!(moved("[2]"), "sidecarSets[3][2]");
        assert_eq!(moved(""), "sidecarSets[3]");
    }

    #[test]
    fn errors_print_path_cause_value_and_remedy() {
        let path = FieldPath::new("spec.partition");
        assert_eq!(
            FieldError::invalid(path, "abc", "use a number or a percentage").to_string(),
            "spec.partition: Invalid value: \"abc\": use a number or a percentage"
        );
        assert_eq!(FieldError::duplicate(path, "x").to_string(), "spec.partition: Duplicate value: \"x\"");
        let long = FieldError::invalid(path, "x".repeat(500), "").to_string();
        assert!(long.len() < 150, "{long}");
    }
}
