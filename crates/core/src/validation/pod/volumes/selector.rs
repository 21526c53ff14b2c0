//! Label selectors inside volumes.

use super::super::node::{Node, push_wrong};
use crate::field::FieldError;
use crate::format;

/// A label selector: operators, keys and values.
pub(super) fn check(selector: &Node<'_>, errors: &mut Vec<FieldError>) {
    check_labels(selector, "matchLabels", errors);
    for expression in selector.items("matchExpressions") {
        let operator = expression.text("operator");
        let any = expression.items("values").next().is_some();
        match operator {
            "In" | "NotIn" if !any => {
                errors.push(FieldError::required(&expression.at("values"), "In and NotIn need values"));
            }
            "Exists" | "DoesNotExist" if any => {
                errors.push(FieldError::forbidden(&expression.at("values"), "Exists and DoesNotExist take no values"));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let detail = "must be one of: In, NotIn, Exists, DoesNotExist";
                errors.push(FieldError::invalid(&expression.at("operator"), other, detail));
            }
        }
        let key = expression.text("key");
        push_wrong(&expression.at("key"), key, format::qualified_name(key), errors);
        for value in expression.items("values") {
            let text = value.value.as_str().unwrap_or_default();
            push_wrong(&value.path, text, format::label_value(text), errors);
        }
    }
}

/// The labels in the map `key`; Kubernetes reports wrong keys and values at the map.
pub(super) fn check_labels(object: &Node<'_>, key: &str, errors: &mut Vec<FieldError>) {
    let at = object.at(key);
    for (name, value) in crate::json::string_map(object.value, &[key]) {
        push_wrong(&at, name, format::qualified_name(name), errors);
        push_wrong(&at, value, format::label_value(value), errors);
    }
}
