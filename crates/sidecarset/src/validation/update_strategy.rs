//! Validation of `spec.updateStrategy` (VAL-7, DIFF-24).

use std::collections::BTreeSet;

use pillion_kubernetes::field::{FieldError, FieldErrors};
use pillion_kubernetes::node::{Node, shown};
use pillion_kubernetes::selector;
use serde_json::Value;

use crate::sidecar_set::SidecarSet;

/// Checks the type and, for `RollingUpdate`, the other fields.
pub(super) fn check(set: &SidecarSet, strategy: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    if strategy.value.is_null() || super::update_type(set) == super::NOT_UPDATE {
        return;
    }
    if !super::is_rolling_update(set) {
        return strategy.known("type", &[super::ROLLING_UPDATE, super::NOT_UPDATE], errors);
    }

    let (partition, selector) = (strategy.part("partition"), strategy.get("selector"));
    if selector.is_some() && !partition.value.is_null() && partition.value.as_i64() != Some(0) {
        let wrong = "partition and selector cannot be used together; remove one of them";
        errors.invalid(&strategy.place, shown(partition.value), wrong);
    }
    if let Some(selector) = selector {
        selector::check_not_empty(&selector, errors);
    }
    for field in [partition, strategy.part("maxUnavailable")] {
        errors.wrong(&field.place, &shown(field.value), wrong_amount(field.value));
    }
    check_priority(&strategy.part("priorityStrategy"), errors);
    let mut seen = BTreeSet::new();
    for term in strategy.items("scatterStrategy") {
        let (key, value) = (term.text("key"), term.text("value"));
        if key.is_empty() {
            errors.required(&term.at("key"), NO_KEY);
        } else if !seen.insert(format!("{key}:{value}")) {
            errors.duplicate(&term.place, &format!("{key}={value}"));
        }
    }
}

const NO_KEY: &str = "name a label key";

/// Checks for a non-negative integer or a percentage. Percentages above 100% are valid.
fn wrong_amount(value: &Value) -> Option<&'static str> {
    match value {
        Value::String(text) if is_percent(text) => None,
        Value::String(_) => Some("must be a number of Pods, or a percentage such as '10%'"),
        other if other.as_i64().is_some_and(|number| number < 0) => Some("must not be negative"),
        _ => None,
    }
}

fn check_priority(priority: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    if !priority.list("weightPriority").is_empty() && !priority.list("orderPriority").is_empty() {
        errors.required(&priority.place, "only one of weightPriority and orderPriority can be used");
    }
    for term in priority.items("weightPriority") {
        if !(0..=100).contains(&term.number("weight")) {
            term.invalid_number("weight", "must be a number from 0 to 100", errors);
        }
        selector::check_not_empty(&term.part("matchSelector"), errors);
    }
    for term in priority.items("orderPriority") {
        if term.is_empty("orderedKey") {
            errors.required(&term.at("orderedKey"), NO_KEY);
        }
    }
}

/// Whether the text is a percentage: digits and `%`.
fn is_percent(text: &str) -> bool {
    text.strip_suffix('%').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages() {
        assert!(is_percent("0%") && is_percent("150%"));
        assert!(!is_percent("%") && !is_percent("1.5%") && !is_percent("-1%") && !is_percent("10"));
    }
}
