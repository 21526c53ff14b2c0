//! The two containers of a hot-upgrade sidecar in a Pod, and which of them works (ROLL-45).

use std::collections::BTreeMap;

use pillion_kubernetes::json;
use pillion_sidecarset::names;
use serde_json::Value;

use crate::pod::Pod;
use crate::target::Sidecar;

/// The names of the containers of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The container that works.
    pub working: String,
    /// The other one, which is idle unless an upgrade is under way.
    pub idle: String,
}

impl Pair {
    /// Returns the pair of a sidecar in a Pod. Without a record, the second container counts as the working one.
    pub fn find(sidecar: &Sidecar<'_>, pod: &Pod) -> Self {
        let [first, second] = sidecar.pair();
        if working(pod).get(sidecar.name) == Some(&first) {
            Self { working: first, idle: second }
        } else {
            Self { working: second, idle: first }
        }
    }
}

/// Returns the working container of each pair, as the Pod records it. A record that cannot be read is empty.
pub(crate) fn working(pod: &Pod) -> BTreeMap<String, String> {
    let value: Value = json::parse(pod.annotation(names::WORKING_HOT_UPGRADE).as_bytes()).unwrap_or_default();
    json::string_map(&value, &[]).map(|(name, half)| (name.to_owned(), half.to_owned())).collect()
}
