//! `resourcesPolicy` of containers (V-11).

use serde_json::Value;

use crate::expression::{Expression, Slot};
use crate::field::{FieldError, FieldPath};
use crate::json;
use crate::pattern::Pattern;
use crate::sidecar_set::{SidecarSet, is_native};

/// Checks the policy of every container that has one.
pub fn validate(set: &SidecarSet) -> Vec<FieldError> {
    let spec = FieldPath::new("spec");
    let mut errors = Vec::new();
    for (list, containers) in [("initContainers", set.init_containers()), ("containers", set.containers())] {
        for (index, container) in containers.iter().enumerate() {
            let Some(policy) = json::at(container, &["resourcesPolicy"]) else {
                continue;
            };
            let path = spec.child(list).index(index).child("resourcesPolicy");
            if list == "initContainers" && !is_native(container) {
                let wrong = "only init containers with restartPolicy Always can have a resourcesPolicy; remove it";
                errors.push(FieldError::forbidden(&path, wrong));
            }
            errors.extend(validate_policy(container, policy, &path));
        }
    }
    errors
}

fn validate_policy(container: &Value, policy: &Value, path: &FieldPath) -> Vec<FieldError> {
    let is_set = |field| json::object(container, &["resources", field]).is_some_and(|map| !map.is_empty());
    if is_set("limits") || is_set("requests") {
        let wrong = "resourcesPolicy and resources cannot be configured together; remove one of them";
        return vec![FieldError::forbidden(path, wrong)];
    }
    let mut errors = Vec::new();
    let (at, regex) = (path.child("targetContainersNameRegex"), json::text(policy, &["targetContainersNameRegex"]));
    if regex.is_empty() {
        errors.push(FieldError::required(&at, "must not be empty; use '.*' for all containers"));
    } else if let Err(wrong) = Pattern::new(regex) {
        errors.push(FieldError::invalid(&at, regex, format!("is no regular expression: {wrong}")));
    }
    let at = path.child("resourcesExpr");
    let expressions = json::at(policy, &["resourcesExpr"]).unwrap_or(&Value::Null);
    let halves = ["limits", "requests"].map(|half| json::at(expressions, &[half]).map(|value| (half, value)));
    if halves.iter().all(Option::is_none) {
        errors.push(FieldError::required(&at, "configure at least one of limits and requests"));
    }
    for (half, value) in halves.into_iter().flatten() {
        for (resource, slot) in [("cpu", Slot::Cpu), ("memory", Slot::Memory)] {
            let text = json::text(value, &[resource]);
            if !text.is_empty() {
                let wrong = Expression::parse(text).and_then(|expression| expression.check(slot)).err();
                errors.extend(wrong.map(|wrong| {
                    FieldError::invalid(&at.child(half).child(resource), text, format!("invalid expression: {wrong}"))
                }));
            }
        }
    }
    errors
}
