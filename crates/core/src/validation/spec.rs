//! `spec` as a whole: selectors, lists that must not be empty, enumerations of containers (V-4, V-5, V-8, V-9).

use crate::field::{FieldError, FieldPath};
use crate::json;
use crate::selector;
use crate::sidecar_set::{SidecarSet, is_native};

/// Where injected containers may go.
const INJECT_POLICIES: [&str; 2] = ["BeforeAppContainer", "AfterAppContainer"];
/// Whether volumes are shared.
const SHARE_POLICIES: [&str; 2] = ["enabled", "disabled"];

/// Checks what needs no other rule's subject.
pub fn validate(set: &SidecarSet) -> Vec<FieldError> {
    let spec = FieldPath::new("spec");
    let mut errors = Vec::new();

    if super::is_rolling_update(set) && set.init_containers().iter().any(is_native) {
        let wrong =
            "native sidecars in initContainers cannot be updated in place; set updateStrategy.type to NotUpdate";
        errors.push(FieldError::required(&spec.child("updateStrategy"), wrong));
    }

    match set.spec(&["selector"]) {
        Some(selector) => errors.extend(selector::validate_not_empty(selector, &spec.child("selector"))),
        None => errors.push(FieldError::required(&spec.child("selector"), "say which Pods to inject into")),
    }
    if let Some(selector) = set.spec(&["namespaceSelector"]) {
        errors.extend(selector::validate_not_empty(selector, &spec.child("namespaceSelector")));
    }

    if set.init_containers().is_empty() && set.containers().is_empty() {
        errors.push(FieldError::required(&spec, "define at least one of initContainers and containers"));
    }
    for (index, container) in set.containers().iter().enumerate() {
        let at = spec.child("containers").index(index);
        let policy = json::text(container, &["podInjectPolicy"]);
        if !INJECT_POLICIES.contains(&policy) {
            errors.push(FieldError::not_supported(&at.child("podInjectPolicy"), policy, &INJECT_POLICIES));
        }
        let share = json::text(container, &["shareVolumePolicy", "type"]);
        if !SHARE_POLICIES.contains(&share) {
            let path = at.child("shareVolumePolicy").child("type");
            errors.push(FieldError::not_supported(&path, share, &SHARE_POLICIES));
        }
    }
    errors
}
