//! Validation of a selector.

use super::Op;
use crate::field::{FieldError, FieldErrors};
use crate::json;
use crate::name_validation;
use crate::node::Node;

/// Checks a `LabelSelector` as Kubernetes' `ValidateLabelSelector` does with its default options: operators, the values
/// that they require or refuse, keys and values.
pub fn check(selector: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    check_labels(selector, "matchLabels", errors);
    for expression in selector.items("matchExpressions") {
        check_expression(&expression, errors);
    }
}

/// Checks a selector as [`check`] does, and refuses an empty selector (VAL-5).
pub fn check_not_empty(selector: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    check(selector, errors);
    let has_labels = json::object(selector.value, &["matchLabels"]).is_some_and(|labels| !labels.is_empty());
    if !has_labels && selector.list("matchExpressions").is_empty() {
        let wrong = "an empty selector is not valid for a SidecarSet; set matchLabels or matchExpressions";
        errors.invalid(&selector.place, "{}", wrong);
    }
}

/// Checks the labels in the map `key`. Kubernetes reports invalid keys and values at the path of the map.
pub fn check_labels(object: &Node<'_, '_>, key: &str, errors: &mut Vec<FieldError>) {
    let at = object.at(key);
    for (name, value) in json::string_map(object.value, &[key]) {
        errors.wrong(&at, name, name_validation::qualified_name(name));
        errors.wrong(&at, value, name_validation::label_value(value));
    }
}

fn check_expression(expression: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let any = !expression.list("values").is_empty();
    match Op::parse(expression.text("operator")) {
        Some(Op::In | Op::NotIn) if !any => {
            errors.required(&expression.at("values"), "operators In and NotIn need values");
        }
        Some(Op::Exists | Op::DoesNotExist) if any => {
            errors.forbidden(&expression.at("values"), "operators Exists and DoesNotExist take no values");
        }
        Some(_) => {}
        None => {
            let wrong = "not a valid selector operator; use In, NotIn, Exists or DoesNotExist";
            expression.invalid("operator", wrong, errors);
        }
    }
    expression.always_formatted("key", name_validation::qualified_name, errors);
    for value in expression.items("values") {
        errors.wrong(&value.place, value.own_text(), name_validation::label_value(value.own_text()));
    }
}
