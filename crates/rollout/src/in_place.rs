//! The records of a Pod about upgrades in place (ROLL-42): what they say after images have changed.

use pillion_json::go as go_json;
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use serde_json::{Value, json};

use crate::edit::Edit;
use crate::pod::Pod;
use crate::pod::in_place::{BEFORE, Before, STATE, read};
use crate::target::RolloutTarget;

/// In the state of a SidecarSet: the id of each changed container's image before the change.
const LAST: &str = "lastContainerStatuses";

impl Edit {
    /// Records that these containers of a Pod get new images.
    pub(crate) fn record_in_place(
        &mut self,
        target: &RolloutTarget<'_>,
        pod: &Pod,
        changed: &[String],
        now: Timestamp,
    ) {
        self.annotations.insert(STATE.to_owned(), state(target, pod, changed, now));
        if changed.is_empty() {
            return;
        }
        let before = changed.iter().map(|name| (name.clone(), before(target, pod, name))).collect();
        let before = pod.in_place().with_before(target.name(), before);
        self.annotations.insert(BEFORE.to_owned(), go_json::to_string_sorted(&json!(before)));
    }
}

/// Returns OpenKruise's record. Fields that are not known stay. A record that cannot be read is replaced.
fn state(target: &RolloutTarget<'_>, pod: &Pod, changed: &[String], now: Timestamp) -> String {
    let sidecar_set = target.name();
    let mut states = read(pod.annotation(STATE)).unwrap_or_default();
    let is_new = !states.get(sidecar_set).is_some_and(Value::is_object);
    if let Some(state) = json::object_mut(&mut states, sidecar_set) {
        // DIFF-21: revision and time are those of the latest change.
        if is_new || !changed.is_empty() {
            state.insert("revision".to_owned(), target.hash().into());
            state.insert("updateTimestamp".to_owned(), now.to_string().into());
        }
        if let Some(last) = json::object_mut(state, LAST) {
            for name in changed {
                let id = pod.status(name).map(|status| &*status.image_id).unwrap_or_default();
                let image = if id.is_empty() { json!({}) } else { json!({"imageID": id}) };
                last.insert(name.clone(), image);
            }
        }
    }
    go_json::to_string_sorted(&Value::Object(states))
}

/// Returns what the status of a container says before its image changes.
fn before(target: &RolloutTarget<'_>, pod: &Pod, name: &str) -> Before {
    let mut superseded = Vec::new();
    let is_in_flight = !target.runs(pod, name);
    if is_in_flight {
        let known = pod.in_place().before(target.name(), name).map(|before| before.superseded.clone());
        superseded.extend(known.unwrap_or_default());
    }
    // The kubelet starts what it saw last, which may be this one: after a restart of its node, for example.
    if is_in_flight || pod.status(name).is_some_and(|status| status.state.is_starting) {
        superseded.extend(pod.container(name).map(|(_, container)| container.image.clone()));
        superseded.dedup();
    }
    let Some(status) = pod.status(name) else { return Before { superseded, ..Before::default() } };
    Before {
        container_id: status.container_id.clone(),
        restarts: status.restarts,
        trouble: status.state.trouble,
        superseded,
    }
}
