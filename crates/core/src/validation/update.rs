//! What an update may not change (V-30).

use crate::field::{FieldError, FieldPath};
use crate::json;
use crate::ordered::Map;
use crate::sidecar_set::SidecarSet;

use super::canary;

/// Compares with the object before the update: containers may be removed, but neither added nor renamed, and the
/// way in which one is upgraded stays. Init containers are free. A canary keeps its base (V-3).
pub fn validate(set: &SidecarSet, old: &SidecarSet) -> Vec<FieldError> {
    let upgrade_type = |container| json::text(container, &["upgradeStrategy", "upgradeType"]);
    let list = FieldPath::new("spec").child("containers");
    let before: Map<&str, &str> =
        old.containers().iter().map(|container| (json::text(container, &["name"]), upgrade_type(container))).collect();
    let mut errors = canary::validate_update(set, old);
    for (index, container) in set.containers().iter().enumerate() {
        let name = json::text(container, &["name"]);
        let at = list.index(index);
        match before.get(name) {
            None => {
                let wrong = "an update cannot add or rename containers; create another SidecarSet for it";
                errors.push(FieldError::invalid(&at.child("name"), name, wrong));
            }
            Some(&was) if !was.is_empty() && was != upgrade_type(container) => {
                let wrong = format!("is immutable; it was {was}");
                let path = at.child("upgradeStrategy").child("upgradeType");
                errors.push(FieldError::invalid(&path, upgrade_type(container), wrong));
            }
            Some(_) => {}
        }
    }
    errors
}
