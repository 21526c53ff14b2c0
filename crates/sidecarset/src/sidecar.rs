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
