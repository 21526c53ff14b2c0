//! A JSON value together with its path.

use serde_json::Value;

use crate::field::{FieldError, FieldPath};

/// A value that is being checked, and where it is.
///
/// A key whose value is `null` reads as absent; a field of another type than expected reads as unset, since types are
/// checked where objects are decoded.
pub(super) struct Node<'a> {
    pub(super) value: &'a Value,
    pub(super) path: FieldPath,
}

impl<'a> Node<'a> {
    /// The items of a list at `path`.
    pub(super) fn list(items: &'a [Value], path: &FieldPath) -> impl Iterator<Item = Self> + use<'a> {
        let path = path.clone();
        items.iter().enumerate().map(move |(index, value)| Self { value, path: path.index(index) })
    }

    /// The path of the field `key`.
    pub(super) fn at(&self, key: &str) -> FieldPath {
        self.path.child(key)
    }

    /// The value of the field `key`.
    pub(super) fn raw(&self, key: &str) -> Option<&'a Value> {
        self.value.as_object()?.get(key).filter(|value| !value.is_null())
    }

    /// Whether the field `key` is there, whatever it holds: a set Go pointer.
    pub(super) fn has(&self, key: &str) -> bool {
        self.raw(key).is_some()
    }

    /// The field `key`, where it is there.
    pub(super) fn get(&self, key: &str) -> Option<Self> {
        Some(Self { value: self.raw(key)?, path: self.at(key) })
    }

    /// The items of the list `key`.
    pub(super) fn items(&self, key: &str) -> impl Iterator<Item = Self> + use<'a> {
        Self::list(self.raw(key).and_then(Value::as_array).map_or(&[], Vec::as_slice), &self.at(key))
    }

    /// The text of `key`, `""` where there is none.
    pub(super) fn text(&self, key: &str) -> &'a str {
        self.optional_text(key).unwrap_or_default()
    }

    /// The text of `key`, where there is one.
    pub(super) fn optional_text(&self, key: &str) -> Option<&'a str> {
        self.raw(key).and_then(Value::as_str)
    }

    /// The texts in the list `key`.
    pub(super) fn texts(&self, key: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.raw(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// The integer of `key`, where there is one.
    pub(super) fn integer(&self, key: &str) -> Option<i64> {
        self.raw(key).and_then(Value::as_i64)
    }

    /// The flag of `key`, where there is one.
    pub(super) fn optional_flag(&self, key: &str) -> Option<bool> {
        self.raw(key).and_then(Value::as_bool)
    }

    /// The flag of `key`, `false` where there is none.
    pub(super) fn flag(&self, key: &str) -> bool {
        self.optional_flag(key).unwrap_or_default()
    }

    /// Requires that `key` holds a text or a list that is not empty; answers whether it does.
    pub(super) fn require(&self, key: &str, errors: &mut Vec<FieldError>) -> bool {
        let set = match self.raw(key) {
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Array(items)) => !items.is_empty(),
            _ => false,
        };
        if !set {
            errors.push(FieldError::required(&self.at(key), "must not be empty"));
        }
        set
    }

    /// Requires that `key` holds one of `known`.
    pub(super) fn one_of(&self, key: &str, known: &[&str], errors: &mut Vec<FieldError>) {
        self.one_of_at(key, &self.at(key), known, errors);
    }

    /// Requires that `key` holds one of `known`; errors are reported at `path`.
    pub(super) fn one_of_at(&self, key: &str, path: &FieldPath, known: &[&str], errors: &mut Vec<FieldError>) {
        match self.text(key) {
            "" => {
                let detail = format!("{key} must be one of: {}", known.join(", "));
                errors.push(FieldError::required(path, detail));
            }
            value if known.contains(&value) => {}
            value => errors.push(FieldError::not_supported(path, value, known)),
        }
    }

    /// Requires that `key` holds an integer from `low` to `high`, where it holds one.
    pub(super) fn in_range(&self, key: &str, low: i64, high: i64, errors: &mut Vec<FieldError>) {
        if let Some(value) = self.integer(key)
            && !(low..=high).contains(&value)
        {
            let detail = format!("must be between {low} and {high}, inclusive");
            errors.push(FieldError::invalid(&self.at(key), value, detail));
        }
    }

    /// Requires that the text of `key` has the format `format`, where it is there.
    pub(super) fn formatted(&self, key: &str, format: fn(&str) -> Option<String>, errors: &mut Vec<FieldError>) {
        if let Some(text) = self.optional_text(key) {
            push_wrong(&self.at(key), text, format(text), errors);
        }
    }
}

/// Reports what is wrong with `value`, where something is.
pub(super) fn push_wrong(path: &FieldPath, value: &str, wrong: Option<String>, errors: &mut Vec<FieldError>) {
    errors.extend(wrong.map(|detail| FieldError::invalid(path, value, detail)));
}

/// Lower case. What is not ASCII is no part of a valid name in either case.
pub(super) fn lower_case(text: &str) -> String {
    text.to_ascii_lowercase()
}
