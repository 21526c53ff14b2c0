//! The sidecars of a `SidecarSet`, and the containers that Pods get of them.

use pillion_kubernetes::json;
use serde_json::Value;

use crate::sidecar::{List, names_in_pod};
use crate::sidecar_set::SidecarSet;

/// What to do if Pods would get two containers of one name from two `SidecarSet`s.
pub const REMEDY: &str = "rename one of them or change a selector";

/// A container that Pods get of a `SidecarSet`.
#[derive(Clone, Debug)]
pub struct Made<'a> {
    /// Its name in Pods.
    pub name: String,
    /// The list of the sidecar.
    pub list: List,
    /// The index of the sidecar in the list.
    pub index: usize,
    /// The sidecar.
    pub sidecar: &'a Value,
}

impl<'a> Made<'a> {
    /// Returns the name in the `SidecarSet`.
    pub fn written(&self) -> &'a str {
        json::text(self.sidecar, &["name"])
    }

    /// Whether it is one container of a hot-upgrade pair.
    pub fn is_half(&self) -> bool {
        self.name != self.written()
    }
}

/// Returns the containers that Pods get of a `SidecarSet`, the init containers first. Validation and injection compare
/// these names, so that a `SidecarSet` that was accepted is not refused in Pods.
pub fn containers(set: &SidecarSet) -> impl Iterator<Item = Made<'_>> {
    sidecars(set).flat_map(|(list, index, sidecar)| {
        names_in_pod(sidecar, list).into_iter().map(move |name| Made { name, list, index, sidecar })
    })
}

/// Returns where the author of a `SidecarSet` wrote a sidecar: its list and its index there. They differ from those of the
/// sidecar if containers have become native sidecars (NAT-2).
pub fn written(set: &SidecarSet, (list, index): (List, usize)) -> (List, usize) {
    let converted = set.native_from().filter(|_| list == List::Init).and_then(|first| index.checked_sub(first));
    converted.map_or((list, index), |index| (List::Containers, index))
}

/// Returns the sidecars of a `SidecarSet` with their list and index.
pub fn sidecars(set: &SidecarSet) -> impl Iterator<Item = (List, usize, &Value)> {
    let lists = [(List::Init, set.init_containers()), (List::Containers, set.containers())];
    lists.into_iter().flat_map(|(list, items)| items.iter().enumerate().map(move |(index, item)| (list, index, item)))
}
