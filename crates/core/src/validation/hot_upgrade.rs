//! `upgradeStrategy` of containers.

use crate::field::{FieldError, FieldPath};
use crate::json;
use crate::sidecar_set::{SidecarSet, is_hot_upgrade, is_native};

/// A container that is replaced by a pair needs an image for the half that idles; without one, no Pod could start.
/// Plain init containers are never replaced.
pub fn validate(set: &SidecarSet) -> Vec<FieldError> {
    let spec = FieldPath::new("spec");
    let plain = set.containers().iter().enumerate().map(|(index, it)| ("containers", index, it));
    let init = set.init_containers().iter().enumerate().map(|(index, it)| ("initContainers", index, it));
    init.filter(|(_, _, container)| is_native(container))
        .chain(plain)
        .filter(|(_, _, container)| is_hot_upgrade(container))
        .filter(|(_, _, container)| json::text(container, &["upgradeStrategy", "hotUpgradeEmptyImage"]).is_empty())
        .map(|(list, index, _)| {
            let path = spec.child(list).index(index).child("upgradeStrategy").child("hotUpgradeEmptyImage");
            FieldError::required(&path, "upgradeType HotUpgrade needs an image for the idle container")
        })
        .collect()
}
