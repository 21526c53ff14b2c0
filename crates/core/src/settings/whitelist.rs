//! The whitelist of patchPodMetadata in the settings (V-20).
//!
//! OpenKruise reads its ConfigMap leniently; a key that nothing reads would allow less than it seems to, so here it
//! is an error.

use serde_json::Value;

use super::read::wrong_type;
use crate::field::{Cause, FieldError, Report};
use crate::format;
use crate::node::Node;
use crate::pattern::{Pattern, STEPS_TOGETHER_MAX, TOO_MANY_EXPRESSIONS};
use crate::selector;

const RULES: &str = "rules";
const SELECTOR: &str = "selector";
const EXPRESSIONS: &str = "allowedAnnotationKeyExprs";

/// Checks the shape: known keys, types.
pub(super) fn decode(whitelist: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    check_keys(whitelist, &[RULES], errors);
    check_list(whitelist, RULES, errors);
    for rule in whitelist.items(RULES) {
        check_keys(&rule, &[SELECTOR, EXPRESSIONS], errors);
        let labels = rule.part(SELECTOR);
        if !matches!(labels.value, Value::Null | Value::Object(_)) {
            errors.push(wrong_type(&labels.place, labels.value, "a label selector"));
        }
        check_list(&rule, EXPRESSIONS, errors);
        for expression in rule.items(EXPRESSIONS) {
            if !expression.value.is_string() {
                errors.push(wrong_type(&expression.place, expression.value, "a regular expression"));
            }
        }
    }
}

/// Checks what the shape does not tell: selectors and expressions.
pub(super) fn validate(whitelist: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let mut steps = 0_usize;
    for rule in whitelist.items(RULES) {
        if let Some(labels) = rule.get(SELECTOR) {
            selector::check(&labels, errors);
        }
        for expression in rule.items(EXPRESSIONS) {
            let text = expression.own_text();
            match Pattern::new(text) {
                Ok(pattern) => steps = steps.saturating_add(pattern.steps()),
                Err(wrong) => errors.invalid(&expression.place, text, &wrong),
            }
            if steps > STEPS_TOGETHER_MAX {
                return errors.report(Cause::TooMany, &expression.place, None, TOO_MANY_EXPRESSIONS);
            }
        }
    }
}

fn check_keys(node: &Node<'_, '_>, known: &[&str], errors: &mut Vec<FieldError>) {
    let Some(object) = node.value.as_object() else {
        errors.push(wrong_type(&node.place, node.value, "an object"));
        return;
    };
    for key in object.keys() {
        if !known.contains(&key.as_str()) {
            errors.report(
                Cause::Unknown,
                &node.at(key),
                None,
                &["known here: ", &format::joined(known, ", ")].concat(),
            );
        }
    }
}

fn check_list(node: &Node<'_, '_>, key: &str, errors: &mut Vec<FieldError>) {
    let list = node.part(key);
    if !matches!(list.value, Value::Null | Value::Array(_)) {
        errors.push(wrong_type(&list.place, list.value, "a list"));
    }
}
