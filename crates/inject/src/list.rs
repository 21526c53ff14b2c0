//! The lists of containers in a Pod, and the names of sidecars in them.

use pillion_sidecarset::pod;
use pillion_sidecarset::sidecar;
use serde_json::Value;

/// The Pod's list to which a container belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum List {
    /// `spec.initContainers`.
    Init,
    /// `spec.containers`.
    Containers,
}

impl List {
    /// Returns the key in `spec`, which is the same in a Pod and in a `SidecarSet`.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Init => "initContainers",
            Self::Containers => "containers",
        }
    }
}

/// Whether a sidecar becomes a hot-upgrade pair: only containers and native init containers do (INJ-21).
pub fn is_pair(sidecar: &Value, list: List) -> bool {
    sidecar::is_pair(sidecar, list == List::Init)
}

/// Returns the names of a sidecar's containers in a Pod: its own name, or those of its hot-upgrade pair.
pub fn names_in_pod(sidecar: &Value, list: List) -> Vec<String> {
    let name = pod::name(sidecar);
    if is_pair(sidecar, list) { Vec::from(sidecar::halves(name)) } else { vec![name.to_owned()] }
}
