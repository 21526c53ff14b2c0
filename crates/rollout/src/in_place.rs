//! The record of a Pod about upgrades in place: `kruise.io/sidecarset-inplace-update-state` (ROLL-20, ROLL-42).

use std::collections::BTreeMap;

use pillion_json::go as go_json;
use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::nullable;
use pillion_kubernetes::time::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::pod::Pod;

/// The annotation. Its value is an object keyed by the names of SidecarSets.
pub const STATE: &str = "kruise.io/sidecarset-inplace-update-state";
/// In the state of a SidecarSet: the id of each changed container's image before the change.
const LAST: &str = "lastContainerStatuses";

/// Returns the record; `None` if it cannot be read.
fn read(text: &str) -> Option<Object> {
    match json::parse(text.as_bytes()).ok()? {
        Value::Object(states) => Some(states),
        Value::Null => Some(Object::new()),
        _ => None,
    }
}

/// The record about one SidecarSet, with the fields that OpenKruise always reads. If one has another type, the whole
/// record cannot be read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InPlaceState {
    #[serde(deserialize_with = "nullable::or_default")]
    revision: String,
    update_timestamp: Option<String>,
    #[serde(deserialize_with = "nullable::or_default")]
    last_container_statuses: BTreeMap<String, Option<Last>>,
}

/// The status of a container before its image changed.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Last {
    #[serde(rename = "imageID", deserialize_with = "nullable::or_default")]
    image_id: String,
}

/// Returns the records by SidecarSet; `None` if they cannot be read.
fn states(text: &str) -> Option<BTreeMap<String, Option<InPlaceState>>> {
    let states: BTreeMap<String, Option<InPlaceState>> = serde_json::from_value(Value::Object(read(text)?)).ok()?;
    let mut times = states.values().flatten().filter_map(|state| state.update_timestamp.as_deref());
    times.all(|time| Timestamp::parse(time).is_some()).then_some(states)
}

/// Whether the kubelet has completed the upgrades of a SidecarSet's containers: no container has the image id that was
/// recorded before its upgrade and a status with another image than the spec.
pub(crate) fn is_complete(pod: &Pod, sidecar_set: &str, counts: impl Fn(&str) -> bool) -> bool {
    let Some(text) = pod.metadata.annotations.get(STATE) else { return true };
    let Some(states) = states(text) else { return false };
    let last = states.get(sidecar_set).and_then(|state| Some(&state.as_ref()?.last_container_statuses));
    let is_pending = |name: &str, image: &str, image_id: &str| {
        let before = last.and_then(|last| last.get(name));
        let before = before.map(|status| status.as_ref().map(|status| status.image_id.as_str()).unwrap_or_default());
        let expected = pod.container(name).map(|(_, container)| container.image.as_str());
        before == Some(image_id) && expected != Some(image)
    };
    let statuses = pod.state.containers.iter().chain(&pod.state.natives);
    let mut statuses = statuses.filter(|status| counts(&status.name));
    !statuses.any(|status| is_pending(&status.name, &status.image, &status.image_id))
}

/// Returns the record after these containers of a SidecarSet got new images. Fields that are not known stay. A record
/// that cannot be read is replaced.
pub(crate) fn after(pod: &Pod, sidecar_set: &str, hash: &str, changed: &[&str], now: Timestamp) -> String {
    let mut states = read(pod.annotation(STATE)).unwrap_or_default();
    let is_new = !states.get(sidecar_set).is_some_and(Value::is_object);
    if let Some(state) = json::object_mut(&mut states, sidecar_set) {
        // DIFF-21: revision and time are those of the latest change.
        if is_new || !changed.is_empty() {
            state.insert("revision".to_owned(), hash.into());
            state.insert("updateTimestamp".to_owned(), now.to_string().into());
        }
        if let Some(last) = json::object_mut(state, LAST) {
            for name in changed {
                let id = pod.status(name).map(|status| status.image_id.as_str()).unwrap_or_default();
                let image = if id.is_empty() { json!({}) } else { json!({"imageID": id}) };
                last.insert((*name).to_owned(), image);
            }
        }
    }
    go_json::to_string_sorted(&Value::Object(states))
}
