//! Field validation of a selector.

use serde_json::Value;

use super::Op;
use crate::field::{FieldError, FieldPath};
use crate::{format, json};

/// Checks a `LabelSelector` as Kubernetes' `ValidateLabelSelector` does with its default options: operators, which of
/// them take values, keys and values.
pub fn validate(selector: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let at = path.child("matchLabels");
    for (key, value) in json::object(selector, &["matchLabels"]).into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        errors.extend(format::qualified_name(key).map(|wrong| FieldError::invalid(&at, key, wrong)));
        errors.extend(format::label_value(value).map(|wrong| FieldError::invalid(&at, value, wrong)));
    }
    let at = path.child("matchExpressions");
    for (index, expression) in json::items(selector, &["matchExpressions"]).iter().enumerate() {
        errors.extend(validate_expression(expression, &at.index(index)));
    }
    errors
}

/// [`validate`], and an empty selector is an error (V-5).
pub fn validate_not_empty(selector: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = validate(selector, path);
    let has_labels = json::object(selector, &["matchLabels"]).is_some_and(|labels| !labels.is_empty());
    if !has_labels && json::items(selector, &["matchExpressions"]).is_empty() {
        let wrong = "an empty selector is not valid for a SidecarSet; set matchLabels or matchExpressions";
        errors.push(FieldError::invalid(path, "{}", wrong));
    }
    errors
}

fn validate_expression(expression: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let key = json::text(expression, &["key"]);
    let operator = json::text(expression, &["operator"]);
    let values = json::items(expression, &["values"]);
    match Op::of(operator) {
        Some(Op::In | Op::NotIn) if values.is_empty() => {
            errors.push(FieldError::required(&path.child("values"), "operators In and NotIn need values"));
        }
        Some(Op::Exists | Op::DoesNotExist) if !values.is_empty() => {
            let wrong = "operators Exists and DoesNotExist take no values";
            errors.push(FieldError::forbidden(&path.child("values"), wrong));
        }
        Some(_) => {}
        None => {
            let wrong = "not a valid selector operator; use In, NotIn, Exists or DoesNotExist";
            errors.push(FieldError::invalid(&path.child("operator"), operator, wrong));
        }
    }
    errors.extend(format::qualified_name(key).map(|wrong| FieldError::invalid(&path.child("key"), key, wrong)));
    for (index, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        let at = path.child("values").index(index);
        errors.extend(format::label_value(value).map(|wrong| FieldError::invalid(&at, value, wrong)));
    }
    errors
}
