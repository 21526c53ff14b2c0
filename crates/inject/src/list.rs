//! The lists of a Pod that sidecars go into, and their names there.

use pillion_sidecarset::pod;
use pillion_sidecarset::sidecar;
use serde_json::Value;

/// Which of the Pod's lists a container belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum List {
    /// `spec.initContainers`.
    Init,
    /// `spec.containers`.
    Containers,
}

impl List {
    /// The key in `spec`, of a Pod as of a `SidecarSet`.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Init => "initContainers",
            Self::Containers => "containers",
        }
    }
}

/// Whether a sidecar becomes a hot-upgrade pair: only containers and native init containers do (M-21).
pub fn is_pair(sidecar: &Value, list: List) -> bool {
    sidecar::is_hot_upgrade(sidecar) && (list == List::Containers || sidecar::is_native(sidecar))
}

/// The names of the containers that a sidecar becomes in a Pod: its own, or those of its halves.
pub fn names_in_pod(sidecar: &Value, list: List) -> Vec<String> {
    let name = pod::name(sidecar);
    if is_pair(sidecar, list) { vec![[name, "-1"].concat(), [name, "-2"].concat()] } else { vec![name.to_owned()] }
}
