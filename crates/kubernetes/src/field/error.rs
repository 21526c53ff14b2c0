//! Errors of fields, each with its cause and a remedy.

use std::fmt;

use serde_json::Value;
use serde_path_to_error::Segment;

use super::path::FieldPath;
use super::text::{cut, shortened};
use crate::json;

/// The kind of a field error; the names are those that Kubernetes prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A value is missing.
    Required,
    /// A value is malformed or not allowed here.
    Invalid,
    /// A value is not one of those that are known.
    NotSupported,
    /// A value stands twice where it must be unique.
    Duplicate,
    /// A value refers to something that is not there.
    NotFound,
    /// A value is well formed but may not be set.
    Forbidden,
    /// A value has the wrong JSON type.
    Type,
    /// A value is longer than it may be.
    TooLong,
    /// A list holds more items than it may.
    TooMany,
    /// A field that nothing reads.
    Unknown,
}

impl Cause {
    /// The words that stand between the path and the value.
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

/// One thing that is wrong with an object: the field, the cause, the value, and what to do.
///
/// Printed as `<path>: <cause>: "<value>": <detail>`, the form of Kubernetes' own field errors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldError {
    /// The field.
    pub path: String,
    /// The kind of error.
    pub cause: Cause,
    /// The offending value as it should be shown: never a secret, cut to a readable length.
    pub value: Option<String>,
    /// The problem and the remedy. Lower case, no full stop.
    pub detail: String,
}

/// The most of another library's message that an error shows, in characters.
const DETAIL: usize = 400;

/// `path` is a [`FieldPath`] or its text.
impl FieldError {
    /// An error without a value.
    pub fn new(path: impl Into<String>, cause: Cause, detail: impl Into<String>) -> Self {
        Self { path: path.into(), cause, value: None, detail: detail.into() }
    }

    /// [`Cause::Required`].
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, Cause::Required, detail)
    }

    /// [`Cause::Forbidden`].
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, Cause::Forbidden, detail)
    }

    /// [`Cause::Invalid`], showing `value`.
    pub fn invalid(path: impl Into<String>, value: impl fmt::Display, detail: impl Into<String>) -> Self {
        Self::new(path, Cause::Invalid, detail).showing(value)
    }

    /// [`Cause::Duplicate`], showing `value`.
    pub fn duplicate(path: impl Into<String>, value: impl fmt::Display) -> Self {
        Self::new(path, Cause::Duplicate, "").showing(value)
    }

    /// [`Cause::NotFound`], showing `value`.
    pub fn not_found(path: impl Into<String>, value: impl fmt::Display, detail: impl Into<String>) -> Self {
        Self::new(path, Cause::NotFound, detail).showing(value)
    }

    /// [`Cause::NotSupported`], showing `value` and the values that would do.
    pub fn not_supported(path: impl Into<String>, value: impl fmt::Display, supported: &[&str]) -> Self {
        Self::new(path, Cause::NotSupported, supported_values(supported)).showing(value)
    }

    /// [`Cause::TooLong`]; the limit is in bytes.
    pub fn too_long(path: impl Into<String>, limit: usize) -> Self {
        Self::new(path, Cause::TooLong, format!("may have at most {limit} bytes"))
    }

    /// [`Cause::Type`]: `wanted` names a type, and `found` has another. Its content is not shown: it may be a secret,
    /// or long.
    pub fn wrong_type(path: impl Into<String>, wanted: &str, found: &Value) -> Self {
        Self::new(path, Cause::Type, format!("must be {wanted}, found {}", json::type_name(found)))
    }

    /// [`Cause::Type`], with the words of serde. `error` tells the path below `root`.
    pub fn undecodable(root: impl fmt::Display, error: &serde_path_to_error::Error<impl fmt::Display>) -> Self {
        let path = error.path().iter().fold(root.to_string(), |path, segment| match segment {
            Segment::Seq { index } => FieldPath::new(&path).index(*index).to_string(),
            Segment::Map { key } => FieldPath::new(&path).child(key).to_string(),
            Segment::Enum { .. } | Segment::Unknown => path,
        });
        // The words of serde may hold a text of any length.
        Self::new(path, Cause::Type, cut(&error.inner().to_string(), DETAIL))
    }

    /// The same error with the offending value.
    #[must_use]
    pub fn showing(self, value: impl fmt::Display) -> Self {
        Self { value: Some(shortened(&value.to_string())), ..self }
    }

    /// The same error with everything in its path placed below `parent`.
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
    let mut text = String::from("supported values: ");
    for (index, value) in supported.iter().enumerate() {
        text.push_str(if index == 0 { "\"" } else { ", \"" });
        text.push_str(value);
        text.push('"');
    }
    text
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

/// Errors in one line.
pub fn joined(errors: &[FieldError]) -> String {
    let mut text = String::new();
    for error in errors {
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&error.to_string());
    }
    text
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
