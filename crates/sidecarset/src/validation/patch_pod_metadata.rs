//! Validation of `spec.patchPodMetadata` (VAL-13, TCN-8, OVR-9), without the whitelist.

use std::collections::BTreeSet;

use pillion_kubernetes::annotations;
use pillion_kubernetes::field::{FieldError, FieldErrors};
use pillion_kubernetes::json;
use pillion_kubernetes::node::Node;

use crate::reserved::{Reserved, reserved};

/// Checks that every entry has annotations and a policy, and that no two entries patch the same key.
pub(super) fn check(spec: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let mut keys = BTreeSet::new();
    for patch in spec.items("patchPodMetadata") {
        if json::object(patch.value, &["annotations"]).is_some_and(|map| !map.is_empty()) {
            annotations::check(&patch, errors);
        } else {
            errors.required(&patch.at("annotations"), "list the annotations to patch");
        }
        if patch.is_empty("patchPolicy") {
            errors.required(&patch.at("patchPolicy"), "use Retain, Overwrite or MergePatchJson");
        }
        for (key, _) in json::string_map(patch.value, &["annotations"]) {
            if let Some(Reserved { problem, instead }) = reserved(key) {
                let wrong = format!("{problem}; remove the annotation{instead}");
                errors.invalid(&patch.at("annotations").key(key), key, &wrong);
            }
            if !keys.insert(key) {
                let wrong = "another entry patches this annotation too; keep one of them";
                errors.invalid(&patch.at("annotations").key(key), key, wrong);
            }
        }
    }
}
