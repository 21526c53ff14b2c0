//! A JSON value together with its field path.

use serde_json::Value;

use crate::field::{FieldError, FieldErrors, FieldPath};

static NULL: Value = Value::Null;

/// A value under validation, and its field path.
///
/// A key with the value `null` reads as absent. A field of another type than expected reads as unset, because types are
/// checked when objects are decoded.
#[derive(Clone, Copy)]
pub struct Node<'v, 'p> {
    /// The value.
    pub value: &'v Value,
    /// Its path in the object.
    pub place: FieldPath<'p>,
}

impl<'v> Node<'v, '_> {
    /// Returns the node of a whole object.
    pub const fn root(value: &'v Value) -> Self {
        Self { value, place: FieldPath::new("") }
    }

    /// Returns the path of the field `key`.
    pub fn at<'s>(&'s self, key: &'s str) -> FieldPath<'s> {
        self.place.child(key)
    }

    /// Returns the value of the field `key`, unless it is absent or null.
    pub fn raw(&self, key: &str) -> Option<&'v Value> {
        self.value.as_object()?.get(key).filter(|value| !value.is_null())
    }

    /// Whether the field `key` is present with any value but null: a Go pointer that is set.
    pub fn has(&self, key: &str) -> bool {
        self.raw(key).is_some()
    }

    /// Returns the field `key`, if it is present.
    pub fn get<'s>(&'s self, key: &'s str) -> Option<Node<'v, 's>> {
        Some(Node { value: self.raw(key)?, place: self.place.child(key) })
    }

    /// Returns the field `key`, or null if it is absent.
    pub fn part<'s>(&'s self, key: &'s str) -> Node<'v, 's> {
        Node { value: self.raw(key).unwrap_or(&NULL), place: self.place.child(key) }
    }

    /// Returns the values in the list `key`.
    pub fn list(&self, key: &str) -> &'v [Value] {
        self.raw(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Returns the items of the list `key`, with their paths.
    pub fn items<'s>(&'s self, key: &'s str) -> Items<'v, 's> {
        Items::new(self.list(key), &self.place, key)
    }

    /// Returns the text of `key`, or `""` if there is none.
    pub fn text(&self, key: &str) -> &'v str {
        self.optional_text(key).unwrap_or_default()
    }

    /// Returns the text of `key`, if there is one.
    pub(crate) fn optional_text(&self, key: &str) -> Option<&'v str> {
        self.raw(key).and_then(Value::as_str)
    }

    /// Whether the text of `key` is empty or absent.
    pub fn is_empty(&self, key: &str) -> bool {
        self.text(key).is_empty()
    }

    /// Whether the text of `key`, or `""` if there is none, is one of `texts`.
    pub fn is_one_of(&self, key: &str, texts: &[&str]) -> bool {
        texts.contains(&self.text(key))
    }

    /// Returns the text of this value, or `""` if it is not a text.
    pub fn own_text(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    /// Returns the integer of `key`, if there is one.
    pub fn integer(&self, key: &str) -> Option<i64> {
        self.raw(key).and_then(Value::as_i64)
    }

    /// Returns the integer of `key`, or 0 if there is none.
    pub fn number(&self, key: &str) -> i64 {
        self.integer(key).unwrap_or_default()
    }

    /// Returns the boolean of `key`, if there is one.
    pub(crate) fn optional_flag(&self, key: &str) -> Option<bool> {
        self.raw(key).and_then(Value::as_bool)
    }

    /// Returns the boolean of `key`, or `false` if there is none.
    pub fn flag(&self, key: &str) -> bool {
        self.optional_flag(key).unwrap_or_default()
    }

    /// Adds an error that shows the text of `key` as invalid.
    pub fn invalid(&self, key: &str, detail: &str, errors: &mut Vec<FieldError>) {
        errors.invalid(&self.at(key), self.text(key), detail);
    }

    /// Adds an error that shows the integer of `key` as invalid.
    pub fn invalid_number(&self, key: &str, detail: &str, errors: &mut Vec<FieldError>) {
        errors.invalid(&self.at(key), self.number(key), detail);
    }

    /// Requires a text or a list in `key` that is not empty. Returns whether there is one.
    pub(crate) fn require(&self, key: &str, errors: &mut Vec<FieldError>) -> bool {
        let set = match self.raw(key) {
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Array(items)) => !items.is_empty(),
            _ => false,
        };
        if !set {
            errors.required(&self.at(key), "must not be empty");
        }
        set
    }

    /// Requires one of the texts `known` in `key`.
    pub fn one_of(&self, key: &str, known: &[&str], errors: &mut Vec<FieldError>) {
        self.one_of_at(key, &self.place.child(key), known, errors);
    }

    /// Requires one of the texts `known` in `key`. Reports errors at `place`.
    pub(crate) fn one_of_at(&self, key: &str, place: &FieldPath<'_>, known: &[&str], errors: &mut Vec<FieldError>) {
        match self.text(key) {
            "" => errors.required(place, &format!("{key} must be one of: {}", known.join(", "))),
            _ if self.is_one_of(key, known) => {}
            value => errors.not_supported(place, value, known),
        }
    }

    /// Requires that the text in `key`, if any, is one of `known`.
    pub fn known(&self, key: &str, known: &[&str], errors: &mut Vec<FieldError>) {
        if let Some(value) = self.optional_text(key)
            && !self.is_one_of(key, known)
        {
            errors.not_supported(&self.place.child(key), value, known);
        }
    }

    /// Requires that the integer in `key`, if any, is from `low` to `high`.
    pub(crate) fn in_range(&self, key: &str, low: i64, high: i64, errors: &mut Vec<FieldError>) {
        if let Some(value) = self.integer(key)
            && !(low..=high).contains(&value)
        {
            self.invalid_number(key, &format!("must be between {low} and {high}, inclusive"), errors);
        }
    }

    /// Requires that the text of `key`, if any, has the format `format`.
    pub(crate) fn formatted(&self, key: &str, format: Format, errors: &mut Vec<FieldError>) {
        if let Some(text) = self.optional_text(key) {
            errors.wrong(&self.place.child(key), text, format(text));
        }
    }

    /// Requires that the text of `key`, or `""` if there is none, has the format `format`.
    pub(crate) fn always_formatted(&self, key: &str, format: Format, errors: &mut Vec<FieldError>) {
        let text = self.text(key);
        errors.wrong(&self.place.child(key), text, format(text));
    }

    /// Requires that the text of `key` has the format `format`, unless it is empty or absent.
    pub(crate) fn formatted_unless_empty(&self, key: &str, format: Format, errors: &mut Vec<FieldError>) {
        if !self.is_empty(key) {
            self.formatted(key, format, errors);
        }
    }

    /// Requires that the text of `key` is not empty and has the format `format`.
    pub(crate) fn require_formatted(&self, key: &str, format: Format, errors: &mut Vec<FieldError>) {
        if self.require(key, errors) {
            self.formatted(key, format, errors);
        }
    }
}

/// A check of a text: returns the problem, if there is one.
pub type Format = fn(&str) -> Option<&'static str>;

/// An iterator over the items of a list.
pub struct Items<'v, 'p> {
    left: std::slice::Iter<'v, Value>,
    index: usize,
    above: &'p FieldPath<'p>,
    key: &'p str,
}

impl<'v, 'p> Items<'v, 'p> {
    /// Returns the items of a list whose path is the field `key` of `above`.
    pub fn new(items: &'v [Value], above: &'p FieldPath<'p>, key: &'p str) -> Self {
        Self { left: items.iter(), index: 0, above, key }
    }
}

impl<'v, 'p> Iterator for Items<'v, 'p> {
    type Item = Node<'v, 'p>;

    fn next(&mut self) -> Option<Self::Item> {
        let value = self.left.next()?;
        let place = self.above.item(self.key, self.index);
        self.index += 1;
        Some(Node { value, place })
    }
}

/// Returns a text as it is, and any other value as JSON.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
