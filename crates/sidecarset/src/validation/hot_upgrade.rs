//! Validation of `upgradeStrategy` of containers (DIFF-22).

use pillion_kubernetes::field::{FieldError, FieldErrors as _};
use pillion_kubernetes::node::Node;

use crate::sidecar::{is_hot_upgrade, is_native};

/// Checks that a hot-upgrade container has an image for the idle container of its pair: without it, no Pod could start.
/// Plain init containers are never upgraded.
pub(super) fn check(spec: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    for list in super::LISTS {
        for container in spec.items(list) {
            let strategy = container.part("upgradeStrategy");
            if (list == "containers" || is_native(container.value))
                && is_hot_upgrade(container.value)
                && strategy.is_empty("hotUpgradeEmptyImage")
            {
                let wrong = "upgradeType HotUpgrade needs an image for the idle container";
                errors.required(&strategy.at("hotUpgradeEmptyImage"), wrong);
            }
        }
    }
}
