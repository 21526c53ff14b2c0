//! What a Pod records about upgrades of its images (ROLL-20, ROLL-42).
//!
//! OpenKruise's annotation has the id of each changed container's image before the change, and nothing else that tells
//! whether the kubelet has restarted the container. What is missing stands in an annotation of Pillion.

use std::collections::BTreeMap;

use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::nullable;
use pillion_kubernetes::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::container_status::{ContainerStatus, Trouble};
use super::texts::Texts;

/// OpenKruise's annotation. Its value is an object keyed by the names of SidecarSets.
pub(crate) const STATE: &str = "kruise.io/sidecarset-inplace-update-state";
/// Pillion's annotation: an object keyed by the names of SidecarSets, with a [`Before`] for each changed container.
pub(crate) const BEFORE: &str = "pillion.dev/sidecarset-inplace-update-state";

/// Both annotations of a Pod.
#[derive(Clone, Debug)]
pub(crate) struct InPlace {
    /// OpenKruise's; `None` if it cannot be read.
    states: Option<BTreeMap<String, Option<InPlaceState>>>,
    /// Pillion's. One that cannot be read is empty.
    before: BTreeMap<String, BTreeMap<String, Before>>,
}

/// OpenKruise's record about one SidecarSet, with the fields that OpenKruise always reads. If one has another type, the
/// whole annotation cannot be read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InPlaceState {
    #[serde(rename = "revision", deserialize_with = "nullable::or_default")]
    _revision: String,
    update_timestamp: Option<String>,
    #[serde(deserialize_with = "nullable::or_default")]
    last_container_statuses: BTreeMap<String, Option<Last>>,
}

/// The status of a container before its image changed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Last {
    #[serde(rename = "imageID", deserialize_with = "nullable::or_default")]
    image_id: String,
}

/// What the status of a container said when its image was changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Before {
    /// The id of the container; empty if there was none yet.
    #[serde(rename = "containerID", skip_serializing_if = "String::is_empty")]
    pub(crate) container_id: String,
    /// Its restarts.
    #[serde(rename = "restartCount")]
    pub(crate) restarts: i64,
    /// Why it did not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trouble: Option<Trouble>,
    /// The images that the container was to get before, and that the kubelet had not started, or was going to start again.
    /// It may start one of them before it sees the last change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) superseded: Vec<String>,
}

impl Before {
    /// Whether the kubelet has started another container since.
    pub(crate) fn is_replaced_by(&self, status: &ContainerStatus) -> bool {
        (!status.container_id.is_empty() && status.container_id != self.container_id) || status.restarts > self.restarts
    }
}

/// The last change of a container's image by an upgrade.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImageChange<'a> {
    /// The id of the image before; `None` if the annotation cannot be read.
    pub(crate) image_id: Option<&'a str>,
    /// What else the status said before; `None` if OpenKruise, or an earlier Pillion, made the change.
    pub(crate) before: Option<&'a Before>,
    /// When an image of the SidecarSet was changed last.
    pub(crate) at: Option<Timestamp>,
}

/// Returns the object of OpenKruise's annotation; `None` if it cannot be read.
pub(crate) fn read(text: &str) -> Option<Object> {
    match json::parse(text.as_bytes()).ok()? {
        Value::Object(states) => Some(states),
        Value::Null => Some(Object::new()),
        _ => None,
    }
}

/// Returns the records by SidecarSet; `None` if they cannot be read.
fn states(text: &str) -> Option<BTreeMap<String, Option<InPlaceState>>> {
    let states: BTreeMap<String, Option<InPlaceState>> = serde_json::from_value(Value::Object(read(text)?)).ok()?;
    let mut times = states.values().flatten().filter_map(|state| state.update_timestamp.as_deref());
    times.all(|time| Timestamp::parse(time).is_some()).then_some(states)
}

impl InPlace {
    pub(super) fn parse(annotations: &Texts) -> Self {
        let states = annotations.get(STATE).map_or_else(|| Some(BTreeMap::new()), states);
        let before = annotations.get(BEFORE).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        Self { states, before }
    }

    /// Returns the last change of a container by upgrades of a SidecarSet; `None` if there was none.
    pub(crate) fn change(&self, sidecar_set: &str, container: &str) -> Option<ImageChange<'_>> {
        let before = self.before(sidecar_set, container);
        let Some(states) = &self.states else { return Some(ImageChange { image_id: None, before, at: None }) };
        let state = states.get(sidecar_set)?.as_ref()?;
        let last = state.last_container_statuses.get(container)?;
        let image_id = Some(last.as_ref().map(|last| last.image_id.as_str()).unwrap_or_default());
        Some(ImageChange { image_id, before, at: state.update_timestamp.as_deref().and_then(Timestamp::parse) })
    }

    /// Returns what Pillion recorded about a container before its last change.
    pub(crate) fn before(&self, sidecar_set: &str, container: &str) -> Option<&Before> {
        self.before.get(sidecar_set)?.get(container)
    }

    /// Returns Pillion's record with what holds of these containers of a SidecarSet.
    pub(crate) fn with_before(
        &self,
        sidecar_set: &str,
        changed: BTreeMap<String, Before>,
    ) -> BTreeMap<String, BTreeMap<String, Before>> {
        let mut all = self.before.clone();
        all.entry(sidecar_set.to_owned()).or_default().extend(changed);
        all
    }
}
