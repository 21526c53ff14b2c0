//! A JSON value together with its place.

use serde_json::Value;

use crate::field::{FieldError, FieldErrors, FieldPath};
use crate::format;
use crate::json;

static NULL: Value = Value::Null;

/// A value that is being checked, and where it is.
///
/// A key whose value is `null` reads as absent; a field of another type than expected reads as unset, since types are
/// checked where objects are decoded.
#[derive(Clone, Copy)]
pub struct Node<'v, 'p> {
    /// The value.
    pub value: &'v Value,
    /// Its place in the object.
    pub place: FieldPath<'p>,
}

impl<'v> Node<'v, '_> {
    /// A whole object.
    pub const fn root(value: &'v Value) -> Self {
        Self { value, place: FieldPath::new("") }
    }

    /// The place of the field `key`.
    pub fn at<'s>(&'s self, key: &'s str) -> FieldPath<'s> {
        self.place.child(key)
    }

    /// The value of the field `key`.
    pub fn raw(&self, key: &str) -> Option<&'v Value> {
        self.value.as_object()?.get(key).filter(|value| !value.is_null())
    }

    /// Whether the field `key` is there, whatever it holds: a set Go pointer.
    pub fn has(&self, key: &str) -> bool {
        self.raw(key).is_some()
    }

    /// The field `key`, where it is there.
    pub fn get<'s>(&'s self, key: &'s str) -> Option<Node<'v, 's>> {
        Some(Node { value: self.raw(key)?, place: self.place.child(key) })
    }

    /// The field `key`, null where it is not there.
    pub fn part<'s>(&'s self, key: &'s str) -> Node<'v, 's> {
        Node { value: self.raw(key).unwrap_or(&NULL), place: self.place.child(key) }
    }

    /// The values in the list `key`.
    pub fn list(&self, key: &str) -> &'v [Value] {
        self.raw(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// The items of the list `key`.
    pub fn items<'s>(&'s self, key: &'s str) -> Items<'v, 's> {
        Items::of(self.list(key), &self.place, key)
    }

    /// The text of `key`, `""` where there is none.
    pub fn text(&self, key: &str) -> &'v str {
        self.optional_text(key).unwrap_or_default()
    }

    /// The text of `key`, where there is one.
    pub fn optional_text(&self, key: &str) -> Option<&'v str> {
        self.raw(key).and_then(Value::as_str)
    }

    /// Whether the text of `key` is empty or not there.
    pub fn is_empty(&self, key: &str) -> bool {
        self.text(key).is_empty()
    }

    /// Whether the text of `key`, `""` where there is none, is one of `texts`.
    pub fn is_one_of(&self, key: &str, texts: &[&str]) -> bool {
        texts.contains(&self.text(key))
    }

    /// The text of this value, `""` where it is none.
    pub fn own_text(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    /// The integer of `key`, where there is one.
    pub fn integer(&self, key: &str) -> Option<i64> {
        self.raw(key).and_then(Value::as_i64)
    }

    /// The integer of `key`, 0 where there is none.
    pub fn number(&self, key: &str) -> i64 {
        self.integer(key).unwrap_or_default()
    }

    /// The flag of `key`, where there is one.
    pub fn optional_flag(&self, key: &str) -> Option<bool> {
        self.raw(key).and_then(Value::as_bool)
    }

    /// The flag of `key`, `false` where there is none.
    pub fn flag(&self, key: &str) -> bool {
        self.optional_flag(key).unwrap_or_default()
    }

    /// Adds that the text of `key` is wrong, and shows it.
    pub fn invalid(&self, key: &str, detail: &str, errors: &mut Vec<FieldError>) {
        errors.invalid(&self.at(key), self.text(key), detail);
    }

    /// Adds that the integer of `key` is wrong, and shows it.
    pub fn invalid_number(&self, key: &str, detail: &str, errors: &mut Vec<FieldError>) {
        errors.invalid(&self.at(key), self.number(key), detail);
    }

    /// Requires that `key` holds a text or a list that is not empty; answers whether it does.
    pub fn require(&self, key: &str, errors: &mut Vec<FieldError>) -> bool {
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

    /// Requires that `key` holds one of `known`.
    pub fn one_of(&self, key: &str, known: &[&str], errors: &mut Vec<FieldError>) {
        self.one_of_at(key, &self.place.child(key), known, errors);
    }

    /// Requires that `key` holds one of `known`; errors are reported at `place`.
    pub fn one_of_at(&self, key: &str, place: &FieldPath<'_>, known: &[&str], errors: &mut Vec<FieldError>) {
        match self.text(key) {
            "" => errors.required(place, &[key, " must be one of: ", &format::joined(known, ", ")].concat()),
            _ if self.is_one_of(key, known) => {}
            value => errors.not_supported(place, value, known),
        }
    }

    /// Requires that `key`, where it holds a text, holds one of `known`.
    pub fn known(&self, key: &str, known: &[&str], errors: &mut Vec<FieldError>) {
        if let Some(value) = self.optional_text(key)
            && !self.is_one_of(key, known)
        {
            errors.not_supported(&self.place.child(key), value, known);
        }
    }

    /// Requires that `key` holds an integer from `low` to `high`, where it holds one.
    pub fn in_range(&self, key: &str, low: i64, high: i64, errors: &mut Vec<FieldError>) {
        if let Some(value) = self.integer(key)
            && !(low..=high).contains(&value)
        {
            self.invalid_number(key, &format!("must be between {low} and {high}, inclusive"), errors);
        }
    }

    /// Requires that the text of `key` has the format `format`, where it is there.
    pub fn formatted(&self, key: &str, format: Format, errors: &mut Vec<FieldError>) {
        if let Some(text) = self.optional_text(key) {
            errors.wrong(&self.place.child(key), text, format(text));
        }
    }

    /// Requires that the text of `key`, `""` where there is none, has the format `format`.
    pub fn always_formatted(&self, key: &str, format: Format, errors: &mut Vec<FieldError>) {
        let text = self.text(key);
        errors.wrong(&self.place.child(key), text, format(text));
    }

    /// Requires that the text of `key` has the format `format`, where it is not empty.
    pub fn formatted_unless_empty(&self, key: &str, format: Format, errors: &mut Vec<FieldError>) {
        if !self.is_empty(key) {
            self.formatted(key, format, errors);
        }
    }

    /// Requires that the text of `key` is not empty and has the format `format`.
    pub fn require_formatted(&self, key: &str, format: Format, errors: &mut Vec<FieldError>) {
        if self.require(key, errors) {
            self.formatted(key, format, errors);
        }
    }
}

/// What is wrong with a text, if anything.
pub type Format = fn(&str) -> Option<&'static str>;

/// The items of a list.
pub struct Items<'v, 'p> {
    left: std::slice::Iter<'v, Value>,
    index: usize,
    above: &'p FieldPath<'p>,
    key: &'p str,
}

impl<'v, 'p> Items<'v, 'p> {
    /// The items of the list `key` below `above`.
    pub fn of(items: &'v [Value], above: &'p FieldPath<'p>, key: &'p str) -> Self {
        Self { left: items.iter(), index: 0, above, key }
    }
}

impl<'v, 'p> Iterator for Items<'v, 'p> {
    type Item = Node<'v, 'p>;

    // Compiled once, not into every loop.
    fn next(&mut self) -> Option<Self::Item> {
        let value = self.left.next()?;
        let place = self.above.item(self.key, self.index);
        self.index += 1;
        Some(Node { value, place })
    }
}

/// The text of a value, its JSON where it is none.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => json::shown(other),
    }
}

/// Lower case. What is not ASCII is no part of a valid name in either case.
pub fn lower_case(text: &str) -> String {
    text.to_ascii_lowercase()
}
