//! Properties of a container of a `SidecarSet`.

use pillion_kubernetes::json;
use serde_json::Value;

/// Whether a container is a native sidecar: an init container whose `restartPolicy` is `Always` (API-15).
pub fn is_native(init_container: &Value) -> bool {
    json::text(init_container, &["restartPolicy"]) == "Always"
}

/// Whether an upgrade replaces the container by a hot-upgrade pair (INJ-21).
pub fn is_hot_upgrade(container: &Value) -> bool {
    json::text(container, &["upgradeStrategy", "upgradeType"]) == "HotUpgrade"
}

/// Whether a sidecar becomes a hot-upgrade pair in a Pod: only containers and native init containers do (INJ-21).
/// `is_init` tells whether it is in `initContainers`.
pub fn is_pair(sidecar: &Value, is_init: bool) -> bool {
    is_hot_upgrade(sidecar) && (!is_init || is_native(sidecar))
}

/// Returns the names of the containers of a hot-upgrade pair, by the name in the `SidecarSet` (INJ-21).
pub fn halves(name: &str) -> [String; 2] {
    [[name, "-1"].concat(), [name, "-2"].concat()]
}
