//! Where in an object something is wrong, what is wrong, and what to do about it.

use std::fmt;

/// The path of a field, as Kubernetes writes it: `spec.containers[0].env[1].name`, `metadata.labels[app]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath(String);

impl FieldPath {
    /// The path of a top-level field; `""` is the object itself.
    pub fn new(root: impl Into<String>) -> Self {
        Self(root.into())
    }

    /// The field `name` below this path.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { Self(format!("{}.{name}", self.0)) }
    }

    /// The item `index` of the list at this path.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// The entry `key` of the map at this path.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

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
    pub path: FieldPath,
    /// The kind of error.
    pub cause: Cause,
    /// The offending value as it should be shown: never a secret, cut to a readable length.
    pub value: Option<String>,
    /// What is wrong and what to do about it. Lower case, no full stop.
    pub detail: String,
}

/// The longest value that an error shows, in characters.
const SHOWN: usize = 80;

impl FieldError {
    /// An error without a value.
    pub fn new(path: &FieldPath, cause: Cause, detail: impl Into<String>) -> Self {
        Self { path: path.clone(), cause, value: None, detail: detail.into() }
    }

    /// [`Cause::Required`].
    pub fn required(path: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(path, Cause::Required, detail)
    }

    /// [`Cause::Forbidden`].
    pub fn forbidden(path: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(path, Cause::Forbidden, detail)
    }

    /// [`Cause::Invalid`], showing `value`.
    pub fn invalid(path: &FieldPath, value: impl fmt::Display, detail: impl Into<String>) -> Self {
        Self::new(path, Cause::Invalid, detail).showing(value)
    }

    /// [`Cause::Duplicate`], showing `value`.
    pub fn duplicate(path: &FieldPath, value: impl fmt::Display) -> Self {
        Self::new(path, Cause::Duplicate, "").showing(value)
    }

    /// [`Cause::NotFound`], showing `value`.
    pub fn not_found(path: &FieldPath, value: impl fmt::Display, detail: impl Into<String>) -> Self {
        Self::new(path, Cause::NotFound, detail).showing(value)
    }

    /// [`Cause::NotSupported`], showing `value` and the values that would do.
    pub fn not_supported(path: &FieldPath, value: impl fmt::Display, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|value| format!("\"{value}\"")).collect();
        Self::new(path, Cause::NotSupported, format!("supported values: {}", supported.join(", "))).showing(value)
    }

    /// The same error with the offending value.
    #[must_use]
    pub fn showing(self, value: impl fmt::Display) -> Self {
        self.showing_text(&value)
    }

    /// Apart from [`FieldError::showing`] so that it is compiled once, not for every type of value.
    fn showing_text(mut self, value: &dyn fmt::Display) -> Self {
        let full = value.to_string();
        let mut shown: String = full.chars().take(SHOWN).collect();
        if shown.len() < full.len() {
            shown.push_str("...");
        }
        self.value = Some(shown);
        self
    }

    /// The same error with everything in its path placed below `parent`.
    #[must_use]
    pub fn below(mut self, parent: &FieldPath) -> Self {
        self.path = match (parent.as_str(), self.path.as_str()) {
            ("", _) => self.path,
            (_, "") => parent.clone(),
            (_, path) if path.starts_with('[') => FieldPath(format!("{parent}{path}")),
            (_, path) => parent.child(path),
        };
        self
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.as_str().is_empty() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_as_kubernetes_writes_them() {
        let path = FieldPath::new("spec").child("containers").index(0).child("env").key("a/b");
        assert_eq!(path.as_str(), "spec.containers[0].env[a/b]");
        assert_eq!(FieldPath::new("").child("spec").as_str(), "spec");
    }

    #[test]
    fn errors_move_below_a_parent() {
        let parent = FieldPath::new("sidecarSets").index(3);
        let moved = |path: &str| FieldError::required(&FieldPath::new(path), "").below(&parent).path;
        assert_eq!(moved("spec.selector").as_str(), "sidecarSets[3].spec.selector");
        assert_eq!(moved("[2]").as_str(), "sidecarSets[3][2]");
        assert_eq!(moved("").as_str(), "sidecarSets[3]");
    }

    #[test]
    fn errors_print_path_cause_value_and_remedy() {
        let path = FieldPath::new("spec.partition");
        assert_eq!(
            FieldError::invalid(&path, "abc", "use a number or a percentage").to_string(),
            "spec.partition: Invalid value: \"abc\": use a number or a percentage"
        );
        assert_eq!(FieldError::duplicate(&path, "x").to_string(), "spec.partition: Duplicate value: \"x\"");
        let long = FieldError::invalid(&path, "x".repeat(500), "").to_string();
        assert!(long.len() < 150, "{long}");
    }
}
