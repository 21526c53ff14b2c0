//! The whitelist of patchPodMetadata in the settings (V-20).
//!
//! OpenKruise reads its ConfigMap leniently; a key that nothing reads would allow less than it seems to, so here it
//! is an error.

use serde_json::Value;

use super::read::wrong_type;
use crate::field::{Cause, FieldError, FieldPath};
use crate::pattern::Pattern;
use crate::{json, selector};

const RULES: &str = "rules";
const SELECTOR: &str = "selector";
const EXPRESSIONS: &str = "allowedAnnotationKeyExprs";

/// Checks the shape: known keys, types.
pub(super) fn decode(whitelist: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    keys(whitelist, &[RULES], path, errors);
    for (rule, at) in list(whitelist, RULES, path, errors) {
        keys(rule, &[SELECTOR, EXPRESSIONS], &at, errors);
        match json::at(rule, &[SELECTOR]) {
            None | Some(Value::Null | Value::Object(_)) => {}
            Some(other) => errors.push(wrong_type(&at.child(SELECTOR), other, "a label selector")),
        }
        for (expression, at) in list(rule, EXPRESSIONS, &at, errors) {
            if !expression.is_string() {
                errors.push(wrong_type(&at, expression, "a regular expression"));
            }
        }
    }
}

/// Checks what the shape does not tell: selectors and expressions.
pub(super) fn validate(whitelist: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, rule) in json::items(whitelist, &[RULES]).iter().enumerate() {
        let at = path.child(RULES).index(index);
        if let Some(labels) = json::at(rule, &[SELECTOR]).filter(|labels| !labels.is_null()) {
            errors.extend(selector::validate(labels, &at.child(SELECTOR)));
        }
        for (index, expression) in json::items(rule, &[EXPRESSIONS]).iter().enumerate() {
            let text = expression.as_str().unwrap_or_default();
            if let Err(wrong) = Pattern::new(text) {
                errors.push(FieldError::invalid(&at.child(EXPRESSIONS).index(index), text, wrong));
            }
        }
    }
    errors
}

fn keys(value: &Value, known: &[&str], path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(object) = value.as_object() else {
        errors.push(wrong_type(path, value, "an object"));
        return;
    };
    for key in object.keys().filter(|key| !known.contains(&key.as_str())) {
        let detail = format!("known here: {}", known.join(", "));
        errors.push(FieldError::new(&path.child(key), Cause::Unknown, detail));
    }
}

fn list<'a>(
    value: &'a Value,
    key: &str,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) -> Vec<(&'a Value, FieldPath)> {
    let path = path.child(key);
    match json::at(value, &[key]) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(items)) => items.iter().enumerate().map(|(index, item)| (item, path.index(index))).collect(),
        Some(other) => {
            errors.push(wrong_type(&path, other, "a list"));
            Vec::new()
        }
    }
}
