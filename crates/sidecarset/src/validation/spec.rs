//! Validation of `spec` as a whole: selectors, lists that must not be empty, enumerations of containers (VAL-4, VAL-5,
//! VAL-8, VAL-9).

use pillion_kubernetes::field::{FieldError, FieldErrors};
use pillion_kubernetes::node::Node;
use pillion_kubernetes::selector;

use crate::sidecar::is_native;
use crate::sidecar_set::SidecarSet;
use crate::upgrades;

/// The valid positions of injected containers.
const INJECT_POLICIES: [&str; 2] = ["BeforeAppContainer", "AfterAppContainer"];
/// The valid policies for sharing volumes.
const SHARE_POLICIES: [&str; 2] = ["enabled", "disabled"];

/// Checks the rules of `spec` that no other module covers.
pub(super) fn check(set: &SidecarSet, spec: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let has_native = set.init_containers().iter().any(is_native);
    if has_native && super::is_rolling_update(set) && !upgrades::is_native_upgrade(set) {
        let wrong = "native sidecars in initContainers cannot be updated in place; set updateStrategy.type to NotUpdate, or \
                     annotation pillion.dev/native-upgrade to \"true\"";
        errors.required(&spec.at("updateStrategy"), wrong);
    }

    for key in ["selector", "namespaceSelector"] {
        match &spec.get(key) {
            Some(selector) => selector::check_not_empty(selector, errors),
            None if key == "selector" => errors.required(&spec.at(key), "say which Pods to inject into"),
            None => {}
        }
    }

    if super::LISTS.iter().all(|list| spec.list(list).is_empty()) {
        errors.required(&spec.place, "define at least one of initContainers and containers");
    }
    for container in spec.items("containers") {
        container.one_of("podInjectPolicy", &INJECT_POLICIES, errors);
        container.part("shareVolumePolicy").one_of("type", &SHARE_POLICIES, errors);
    }
}
