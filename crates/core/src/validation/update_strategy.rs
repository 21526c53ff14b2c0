//! `spec.updateStrategy` (V-7, Q-24).

use serde_json::Value;

use crate::field::{FieldError, FieldPath};
use crate::format;
use crate::json;
use crate::ordered::Set;
use crate::selector;
use crate::sidecar_set::SidecarSet;

/// Checks the type, and under `RollingUpdate` the rest.
pub fn validate(set: &SidecarSet) -> Vec<FieldError> {
    let path = FieldPath::new("spec").child("updateStrategy");
    let Some(strategy) = set.spec(&["updateStrategy"]) else {
        return Vec::new();
    };
    let kind = super::update_type(set);
    if kind == super::NOT_UPDATE {
        return Vec::new();
    }
    if !super::is_rolling_update(set) {
        return vec![FieldError::not_supported(&path.child("type"), kind, &[super::ROLLING_UPDATE, super::NOT_UPDATE])];
    }

    let mut errors = Vec::new();
    let (partition, selector) = (json::at(strategy, &["partition"]), json::at(strategy, &["selector"]));
    if selector.is_some() && partition.is_some_and(|partition| partition.as_i64() != Some(0)) {
        let wrong = "partition and selector cannot be used together; remove one of them";
        errors.push(FieldError::invalid(&path, json::shown(partition.unwrap_or(&Value::Null)), wrong));
    }
    errors.extend(selector.into_iter().flat_map(|it| selector::validate_not_empty(it, &path.child("selector"))));
    for field in ["partition", "maxUnavailable"] {
        let value = json::at(strategy, &[field]);
        errors.extend(value.and_then(|value| validate_amount(value, &path.child(field))));
    }
    if let Some(priority) = json::at(strategy, &["priorityStrategy"]) {
        errors.extend(validate_priority(priority, &path.child("priorityStrategy")));
    }
    let scatter = json::items(strategy, &["scatterStrategy"]);
    errors.extend(validate_scatter(scatter, &path.child("scatterStrategy")));
    errors
}

/// A non-negative integer or a percentage. More than 100% is accepted.
fn validate_amount(value: &Value, path: &FieldPath) -> Option<FieldError> {
    match value {
        Value::String(text) if format::is_percent(text) => None,
        Value::String(text) => {
            Some(FieldError::invalid(path, text, "must be a number of Pods, or a percentage such as '10%'"))
        }
        other if other.as_i64().is_some_and(|number| number < 0) => {
            Some(FieldError::invalid(path, json::shown(other), "must not be negative"))
        }
        _ => None,
    }
}

fn validate_priority(priority: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (weights, orders) = (json::items(priority, &["weightPriority"]), json::items(priority, &["orderPriority"]));
    if !weights.is_empty() && !orders.is_empty() {
        errors.push(FieldError::required(path, "only one of weightPriority and orderPriority can be used"));
    }
    for (index, term) in weights.iter().enumerate() {
        let at = path.child("weightPriority").index(index);
        let weight = json::at(term, &["weight"]).and_then(Value::as_i64).unwrap_or_default();
        if !(0..=100).contains(&weight) {
            errors.push(FieldError::invalid(&at.child("weight"), weight, "must be a number from 0 to 100"));
        }
        let selector = json::at(term, &["matchSelector"]).unwrap_or(&Value::Null);
        errors.extend(selector::validate_not_empty(selector, &at.child("matchSelector")));
    }
    for (index, term) in orders.iter().enumerate() {
        if json::text(term, &["orderedKey"]).is_empty() {
            let at = path.child("orderPriority").index(index).child("orderedKey");
            errors.push(FieldError::required(&at, "name a label key"));
        }
    }
    errors
}

fn validate_scatter(terms: &[Value], path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = Set::new();
    for (index, term) in terms.iter().enumerate() {
        let (key, value) = (json::text(term, &["key"]), json::text(term, &["value"]));
        if key.is_empty() {
            errors.push(FieldError::required(&path.index(index).child("key"), "name a label key"));
        } else if !seen.insert(format!("{key}:{value}")) {
            errors.push(FieldError::duplicate(&path.index(index), format_args!("{key}={value}")));
        }
    }
    errors
}
