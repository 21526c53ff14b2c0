//! Validation of `resourcesPolicy` of containers (VAL-11).

use pillion_kubernetes::field::{Cause, FieldError, FieldErrors};
use pillion_kubernetes::json;
use pillion_kubernetes::node::Node;
use pillion_pattern::Pattern;
use serde_json::Value;

use crate::expression::{Expression, Slot};
use crate::sidecar::is_native;
use crate::sidecar_set::weight;

/// Checks the policy of every container that has one.
pub(super) fn check(spec: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    if weight::expressions(spec.value) > weight::EXPRESSIONS_MAX {
        return errors.add(|| FieldError::new(spec.place, Cause::TooLong, weight::EXPRESSIONS_TOO_LONG));
    }
    for list in super::LISTS {
        for container in spec.items(list) {
            let Some(policy) = &container.get("resourcesPolicy") else { continue };
            if list == "initContainers" && !is_native(container.value) {
                let wrong = "only init containers with restartPolicy Always can have a resourcesPolicy; remove it";
                errors.forbidden(&policy.place, wrong);
            }
            check_policy(container.value, policy, errors);
        }
    }
}

fn check_policy(container: &Value, policy: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let is_set = |field| json::object(container, &["resources", field]).is_some_and(|map| !map.is_empty());
    if is_set("limits") || is_set("requests") {
        let wrong = "resourcesPolicy and resources cannot be configured together; remove one of them";
        return errors.forbidden(&policy.place, wrong);
    }
    let regex = policy.text("targetContainersNameRegex");
    if regex.is_empty() {
        errors.required(&policy.at("targetContainersNameRegex"), "must not be empty; use '.*' for all containers");
    } else if let Err(wrong) = Pattern::new(regex) {
        let wrong = format!("is no regular expression: {wrong}");
        policy.invalid("targetContainersNameRegex", &wrong, errors);
    }
    let expressions = policy.part("resourcesExpr");
    if !expressions.has("limits") && !expressions.has("requests") {
        errors.required(&expressions.place, "configure at least one of limits and requests");
    }
    for half in ["limits", "requests"] {
        let half = expressions.part(half);
        for (resource, slot) in [("cpu", Slot::Cpu), ("memory", Slot::Memory)] {
            let text = half.text(resource);
            if text.is_empty() {
                continue;
            }
            if let Err(wrong) = Expression::parse(text).and_then(|expression| expression.check(slot)) {
                half.invalid(resource, &format!("invalid expression: {wrong}"), errors);
            }
        }
    }
}
