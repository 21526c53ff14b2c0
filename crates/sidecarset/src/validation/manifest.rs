//! Manifests that no API server has seen.

use pillion_kubernetes::field::FieldError;
use pillion_kubernetes::node::Node;

use crate::sidecar_set::SidecarSet;

/// What the CRD allows, in the only place where it and the webhook differ (A-5, V-11).
const MODES: [&str; 2] = ["sum", "max"];

/// [`super::validate`], and what the CRD's schema would have refused before any webhook: an unknown
/// `targetContainersMode`. At admission the API server has checked that.
pub fn validate(set: &SidecarSet) -> Vec<FieldError> {
    let mut errors = super::validate(set);
    let object = Node::root(set.as_value());
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
