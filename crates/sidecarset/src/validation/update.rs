//! Rules for updates (VAL-30).

use pillion_kubernetes::field::FieldError;
use pillion_kubernetes::json;
use pillion_kubernetes::node::Node;

use super::canary;
use crate::sidecar_set::SidecarSet;

/// Compares a `SidecarSet` with its version before the update. Containers may be removed, but neither added nor
/// renamed, and their upgrade type must not change. Init containers may change freely. A canary keeps its base (VAL-3).
pub fn check(set: &SidecarSet, old: &SidecarSet, errors: &mut Vec<FieldError>) {
    canary::check_update(set, old, errors);
    let object = Node::root(set.as_value());
    for container in object.part("spec").items("containers") {
        let name = container.text("name");
        // If a name appears several times, the last one counts.
        let Some(before) = old.containers().iter().rfind(|before| json::text(before, &["name"]) == name) else {
            let wrong = "an update cannot add or rename containers; create another SidecarSet for it";
            container.invalid("name", wrong, errors);
            continue;
        };
        let was = json::text(before, &["upgradeStrategy", "upgradeType"]);
        let strategy = container.part("upgradeStrategy");
        if !was.is_empty() && was != strategy.text("upgradeType") {
            strategy.invalid("upgradeType", &format!("is immutable; it was {was}"), errors);
        }
    }
}
