//! Validation of manifests that did not pass through an API server.

use pillion_kubernetes::field::{FieldError, FieldErrors as _};
use pillion_kubernetes::node::Node;

use super::metadata::NO_NAME;
use crate::sidecar_set::SidecarSet;

/// The modes that the CRD allows. This is the only field for which the CRD and the webhook differ (API-5, VAL-11).
const MODES: [&str; 2] = ["sum", "max"];

/// Checks a `SidecarSet` as [`super::validate`] does, and also refuses an unknown `targetContainersMode` and a name that
/// is still to be made. At admission the API server has already checked the former with the CRD's schema, before it
/// calls webhooks, and makes the latter afterwards.
pub fn validate(set: &SidecarSet) -> Vec<FieldError> {
    let mut errors = super::validate(set);
    let object = Node::root(set.as_value());
    let metadata = object.part("metadata");
    if metadata.is_empty("name") && !metadata.is_empty("generateName") {
        errors.required(&metadata.at("name"), NO_NAME);
    }
    let spec = object.part("spec");
    for list in super::LISTS {
        for container in spec.items(list) {
            if let Some(policy) = &container.get("resourcesPolicy") {
                policy.one_of("targetContainersMode", &MODES, &mut errors);
            }
        }
    }
    errors
}
