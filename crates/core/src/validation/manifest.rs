//! Manifests that no API server has seen.

use crate::field::{FieldError, FieldPath};
use crate::json;
use crate::sidecar_set::SidecarSet;

/// What the CRD allows, in the only place where it and the webhook differ (A-5, V-11).
const MODES: [&str; 2] = ["sum", "max"];

/// [`super::validate`], and what the CRD's schema would have refused before any webhook: an unknown
/// `targetContainersMode`. At admission the API server has checked that.
pub fn validate(set: &SidecarSet) -> Vec<FieldError> {
    let mut errors = super::validate(set);
    for (list, containers) in [("initContainers", set.init_containers()), ("containers", set.containers())] {
        for (index, container) in containers.iter().enumerate() {
            let Some(policy) = json::at(container, &["resourcesPolicy"]) else {
                continue;
            };
            let mode = json::text(policy, &["targetContainersMode"]);
            if !MODES.contains(&mode) {
                let path = FieldPath::new("spec").child(list).index(index).child("resourcesPolicy");
                errors.push(FieldError::not_supported(&path.child("targetContainersMode"), mode, &MODES));
            }
        }
    }
    errors
}
