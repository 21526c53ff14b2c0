//! The condition `SidecarSetUpgradable` of a Pod (ROLL-50). Its message is a JSON object from names of SidecarSets to
//! booleans.

use std::collections::BTreeMap;

use pillion_kubernetes::time::Timestamp;
use pillion_plan::{Step, Subresource};
use serde_json::{Value, json};
use thiserror::Error;

use crate::edit::{reference, test};
use crate::pod::{Pod, UPGRADABLE};

/// The message of the condition is not an object of booleans.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the message of condition {UPGRADABLE} of Pod \"{namespace}/{name}\" cannot be read; it must be a JSON object from SidecarSets to booleans; remove the condition"
)]
pub struct Unreadable {
    namespace: String,
    name: String,
}

/// Returns the SidecarSets in the condition of a Pod.
///
/// # Errors
/// [`Unreadable`].
pub fn read(pod: &Pod) -> Result<BTreeMap<String, bool>, Unreadable> {
    let message = pod.state.upgradable.as_ref().map_or("", |(_, condition)| condition.message.as_str());
    if message.is_empty() {
        return Ok(BTreeMap::new());
    }
    serde_json::from_str(message)
        .map_err(|_| Unreadable { namespace: pod.metadata.namespace.clone(), name: pod.metadata.name.clone() })
}

/// Returns the step that writes the condition; `None` if the Pod has it already. `is_upgradable` is the value of the
/// SidecarSet `name`; `None` removes it. The entries of SidecarSets for which `exists` returns false are removed
/// (DIFF-13).
///
/// # Errors
/// [`Unreadable`].
pub fn step(
    pod: &Pod,
    (name, is_upgradable): (&str, Option<bool>),
    exists: impl Fn(&str) -> bool,
    now: Timestamp,
) -> Result<Option<Step>, Unreadable> {
    let mut entries = read(pod)?;
    entries.retain(|known, _| known != name && exists(known));
    entries.extend(is_upgradable.map(|is_upgradable| (name.to_owned(), is_upgradable)));
    let is_true = entries.values().all(|is_upgradable| *is_upgradable);
    let (status, reason) =
        if is_true { ("True", "AllSidecarsetUpgradable") } else { ("False", "UpdateImmutableField") };
    let message = json!(entries).to_string();
    let before = pod.state.upgradable.as_ref();
    let is_as_before = before.is_some_and(|(_, before)| {
        (before.status.as_str(), before.reason.as_str(), before.message.as_str()) == (status, reason, message.as_str())
    });
    if is_as_before || (before.is_none() && entries.is_empty()) {
        return Ok(None);
    }
    let since =
        before.filter(|(_, before)| before.status == status).and_then(|(_, before)| before.last_transition_time);
    let condition = json!({
        "type": UPGRADABLE, "status": status, "reason": reason, "message": message, "lastProbeTime": Value::Null,
        "lastTransitionTime": since.map_or(now, |since| since.0).to_string(),
    });
    let mut operations = vec![test("/metadata/uid", &pod.metadata.uid)];
    if let Some((index, before)) = before {
        let path = format!("/status/conditions/{index}");
        operations.push(test(&format!("{path}/type"), UPGRADABLE));
        if !before.message.is_empty() {
            operations.push(test(&format!("{path}/message"), &before.message));
        }
        operations.push(json!({"op": "replace", "path": path, "value": condition}));
    } else {
        // A JSON Patch cannot test that the list has no such condition.
        operations.push(test("/metadata/resourceVersion", &pod.metadata.resource_version));
        operations.push(if pod.state.has_conditions {
            json!({"op": "add", "path": "/status/conditions/0", "value": condition})
        } else {
            json!({"op": "add", "path": "/status/conditions", "value": [condition]})
        });
    }
    Ok(Some(Step::JsonPatch { object: reference(pod), subresource: Some(Subresource::Status), operations }))
}
