//! Where in an object something is wrong, what is wrong, and what to do about it.

use std::fmt;

use serde_path_to_error::Segment;

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
        let mut path = self.clone();
        path.push_field(name);
        path
    }

    /// The item `index` of the list at this path.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.key(&index.to_string())
    }

    /// The entry `key` of the map at this path.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        let mut path = self.clone();
        path.push_in_brackets(key);
        path
    }

    fn push_field(&mut self, name: &str) {
        if !self.0.is_empty() {
            self.0.push('.');
        }
        push_name(&mut self.0, name);
    }

    fn push_in_brackets(&mut self, key: &str) {
        self.0.push('[');
        push_name(&mut self.0, key);
        self.0.push(']');
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

/// The longest part of a path that is shown whole, in bytes: more than any key that Kubernetes takes. A path is written
/// for each error below it (E18).
const STEP: usize = 400;

fn push_name(path: &mut String, name: &str) {
    if name.len() <= STEP {
        path.push_str(name);
    } else {
        path.push_str(&shortened(name));
    }
}

/// Where a value is while it is looked at: a chain of steps on the stack. Text is made of it only for an error, and most
/// objects have none.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    above: Option<&'a Place<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Field(&'a str),
    Key(&'a str),
    Index(usize),
    Item(&'a str, usize),
}

impl<'a> Place<'a> {
    /// The place of a top-level field, or any path in text; `""` is the object itself.
    pub const fn new(root: &'a str) -> Self {
        Self { above: None, step: Step::Field(root) }
    }

    const fn then(&'a self, step: Step<'a>) -> Self {
        Self { above: Some(self), step }
    }

    /// The field `name` below this place.
    #[must_use]
    pub const fn child(&'a self, name: &'a str) -> Self {
        self.then(Step::Field(name))
    }

    /// The item `index` of the list at this place.
    #[must_use]
    pub const fn index(&'a self, index: usize) -> Self {
        self.then(Step::Index(index))
    }

    /// The entry `key` of the map at this place.
    #[must_use]
    pub const fn key(&'a self, key: &'a str) -> Self {
        self.then(Step::Key(key))
    }

    /// The item `index` of the list `name` below this place.
    #[must_use]
    pub const fn item(&'a self, name: &'a str, index: usize) -> Self {
        self.then(Step::Item(name, index))
    }

    /// The path. Recurses once for every step.
    pub fn path(&self) -> FieldPath {
        let mut path = self.above.map(Place::path).unwrap_or_default();
        match self.step {
            Step::Field(name) => path.push_field(name),
            Step::Key(key) => path.push_in_brackets(key),
            Step::Index(index) => path.push_in_brackets(&index.to_string()),
            Step::Item(name, index) => {
                path.push_field(name);
                path.push_in_brackets(&index.to_string());
            }
        }
        path
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
/// The most of another library's message that an error shows, in characters.
const DETAIL: usize = 400;

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
        Self::new(path, Cause::NotSupported, supported_values(supported)).showing(value)
    }

    /// [`Cause::Type`], with the words of serde. `error` tells the place below `root`.
    pub fn undecodable(root: &FieldPath, error: &serde_path_to_error::Error<impl fmt::Display>) -> Self {
        let path = error.path().iter().fold(root.clone(), |path, segment| match segment {
            Segment::Seq { index } => path.index(*index),
            Segment::Map { key } => path.child(key),
            Segment::Enum { .. } | Segment::Unknown => path,
        });
        // The words of serde may hold a text of any length.
        Self::new(&path, Cause::Type, cut(&error.inner().to_string(), DETAIL))
    }

    /// The same error with the offending value.
    #[must_use]
    pub fn showing(self, value: impl fmt::Display) -> Self {
        self.showing_text(&value)
    }

    /// Apart from [`FieldError::showing`] so that it is compiled once, not for every type of value.
    fn showing_text(self, value: &dyn fmt::Display) -> Self {
        Self { value: Some(shortened(&value.to_string())), ..self }
    }

    /// The same error with everything in its path placed below `parent`.
    #[must_use]
    pub fn below(mut self, parent: &FieldPath) -> Self {
        self.path = match (parent.as_str(), self.path.as_str()) {
            ("", _) => self.path,
            (_, "") => parent.clone(),
            (parent, path) if path.starts_with('[') => FieldPath([parent, path].concat()),
            (_, path) => parent.child(path),
        };
        self
    }
}

/// The beginning of a text, with dots if something is left out.
pub(crate) fn shortened(text: &str) -> String {
    cut(text, SHOWN)
}

/// Up to `characters` characters of a text, and dots if there are more.
fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters).and_then(|(end, _)| text.get(..end)) {
        Some(beginning) => format!("{beginning}..."),
        None => text.to_owned(),
    }
}

/// Errors in one line.
pub(crate) fn joined(errors: &[FieldError]) -> String {
    let mut text = String::new();
    for error in errors {
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&error.to_string());
    }
    text
}

/// A text in quotes and on one line, as Rust's `{:?}` writes it: what would break the line, or hide or turn parts of
/// it, is escaped. (That of the standard library knows every character of Unicode, which is seven kilobytes.)
pub(crate) fn quoted(text: &str) -> String {
    quoted_in('"', text)
}

/// [`quoted`] with another quotation mark.
pub(crate) fn quoted_in(mark: char, text: &str) -> String {
    let mut quoted = String::new();
    quoted.push(mark);
    for character in text.chars() {
        match character {
            '\\' => quoted.push_str("\\\\"),
            '\0' => quoted.push_str("\\0"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{1}'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{ad}'
            | '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}' => quoted.extend(character.escape_unicode()),
            _ => {
                if character == mark {
                    quoted.push('\\');
                }
                quoted.push(character);
            }
        }
    }
    quoted.push(mark);
    quoted
}

/// How many errors of one kind of object are told. More say nothing new, and each is longer than what causes it (E18).
pub const ERRORS_MAX: usize = 1_000;

/// Adding errors to a list: each kind is one call that is compiled once, as there are hundreds.
pub trait Report {
    /// Any error; none where there are [`ERRORS_MAX`] already.
    fn report(&mut self, cause: Cause, place: &Place<'_>, value: Option<&str>, detail: &str);

    /// Whether another error would not be told.
    fn is_full(&self) -> bool;

    /// [`Cause::Required`].
    fn required(&mut self, place: &Place<'_>, detail: &str) {
        self.report(Cause::Required, place, None, detail);
    }

    /// [`Cause::Forbidden`].
    fn forbidden(&mut self, place: &Place<'_>, detail: &str) {
        self.report(Cause::Forbidden, place, None, detail);
    }

    /// [`Cause::TooLong`]; the limit is in bytes.
    fn too_long(&mut self, place: &Place<'_>, limit: usize) {
        if self.is_full() {
            return;
        }
        self.report(Cause::TooLong, place, None, &format!("may have at most {limit} bytes"));
    }

    /// [`Cause::Invalid`], showing `value`.
    fn invalid(&mut self, place: &Place<'_>, value: &str, detail: &str) {
        self.report(Cause::Invalid, place, Some(value), detail);
    }

    /// [`Cause::Invalid`], showing `number`.
    fn invalid_number(&mut self, place: &Place<'_>, number: i64, detail: &str) {
        self.invalid(place, &number.to_string(), detail);
    }

    /// [`Cause::Duplicate`], showing `value`.
    fn duplicate(&mut self, place: &Place<'_>, value: &str) {
        self.report(Cause::Duplicate, place, Some(value), "");
    }

    /// [`Cause::NotFound`], showing `value`.
    fn not_found(&mut self, place: &Place<'_>, value: &str, detail: &str) {
        self.report(Cause::NotFound, place, Some(value), detail);
    }

    /// [`Cause::NotSupported`], showing `value` and the values that would do.
    fn not_supported(&mut self, place: &Place<'_>, value: &str, supported: &[&str]) {
        if self.is_full() {
            return;
        }
        self.report(Cause::NotSupported, place, Some(value), &supported_values(supported));
    }

    /// [`Cause::Invalid`], showing `value`, where something is wrong with it.
    fn wrong(&mut self, place: &Place<'_>, value: &str, wrong: Option<&str>) {
        if let Some(detail) = wrong {
            self.invalid(place, value, detail);
        }
    }
}

impl Report for Vec<FieldError> {
    fn report(&mut self, cause: Cause, place: &Place<'_>, value: Option<&str>, detail: &str) {
        if self.is_full() {
            return;
        }
        self.push(FieldError { path: place.path(), cause, value: value.map(shortened), detail: detail.to_owned() });
    }

    fn is_full(&self) -> bool {
        self.len() >= ERRORS_MAX
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
        if !self.path.as_str().is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(self.cause.as_str())?;
        if let Some(value) = &self.value {
            write!(f, ": {}", quoted(value))?;
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
        let root = Place::new("");
        let (spec, empty) = (root.child("spec"), Place::new(""));
        let container = spec.item("containers", 0);
        assert_eq!(container.child("env").key("a/b").path().as_str(), "spec.containers[0].env[a/b]");
        assert_eq!(empty.index(3).path().as_str(), "[3]");
        assert_eq!(root.path().as_str(), "");
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
    fn what_breaks_or_hides_a_line_is_escaped() {
        for text in [
            "",
            "a b",
            "say \"no\" \\ 'yes'",
            "1\n2\r\t3",
            "\u{1b}[31m",
            "é 日本 \u{202e}abc\u{200b}",
            "\u{85}\u{2028}\0",
        ] {
            assert_eq!(quoted(text), format!("{text:?}"));
        }
    }

    #[test]
    fn e18_errors_have_a_limit_and_long_keys_are_cut_in_paths() {
        let mut errors = Vec::new();
        let long = "k".repeat(100_000);
        let root = Place::new("map");
        for _ in 0..=ERRORS_MAX {
            errors.required(&root.key(&long).child("name"), "");
        }
        assert_eq!((errors.len(), errors.is_full()), (ERRORS_MAX, true));
        assert_eq!(errors[0].path.as_str(), format!("map[{}...].name", "k".repeat(80)));
        assert_eq!(root.key(&"k".repeat(STEP)).path().as_str().len(), STEP + 5);
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
