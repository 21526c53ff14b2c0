//! Properties of a container of a `SidecarSet`, and its names in Pods.

use pillion_kubernetes::json;
use serde_json::Value;

use crate::pod::Pod;

/// The list to which a container belongs, in a `SidecarSet` and in a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum List {
    /// `spec.initContainers`.
    Init,
    /// `spec.containers`.
    Containers,
}

impl List {
    /// Both lists, in the order in which containers start.
    pub const ALL: [Self; 2] = [Self::Init, Self::Containers];

    /// Returns the containers of this list in a Pod.
    pub fn containers(self, pod: Pod<'_>) -> &[Value] {
        match self {
            Self::Init => pod.init_containers(),
            Self::Containers => pod.containers(),
        }
    }

    /// Returns the key in `spec`, which is the same in a Pod and in a `SidecarSet`.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Init => "initContainers",
            Self::Containers => "containers",
        }
    }

    /// Returns what a container of this list is called in messages.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Init => "an init container",
            Self::Containers => "a container",
        }
    }
}

/// Whether a container is a native sidecar: an init container whose `restartPolicy` is `Always` (API-15).
pub fn is_native(init_container: &Value) -> bool {
    json::text(init_container, &["restartPolicy"]) == "Always"
}

/// Whether a container of this list runs as long as the Pod: an init container does if it is a native sidecar (API-15).
pub fn is_long_running(container: &Value, list: List) -> bool {
    list == List::Containers || is_native(container)
}

/// Whether an upgrade replaces the container by a hot-upgrade pair (INJ-21).
pub fn is_hot_upgrade(container: &Value) -> bool {
    json::text(container, &["upgradeStrategy", "upgradeType"]) == "HotUpgrade"
}

/// Whether a sidecar becomes a hot-upgrade pair in a Pod: only containers and native init containers do (INJ-21).
pub fn is_pair(sidecar: &Value, list: List) -> bool {
    is_hot_upgrade(sidecar) && is_long_running(sidecar, list)
}

/// Returns the names of the containers of a hot-upgrade pair, by the name in the `SidecarSet` (INJ-21).
pub fn halves(name: &str) -> [String; 2] {
    [format!("{name}-1"), format!("{name}-2")]
}

/// Returns the names of a sidecar's containers in a Pod: its own name, or those of its hot-upgrade pair.
pub fn names_in_pod(sidecar: &Value, list: List) -> Vec<String> {
    let name = json::text(sidecar, &["name"]);
    if is_pair(sidecar, list) { Vec::from(halves(name)) } else { vec![name.to_owned()] }
}
