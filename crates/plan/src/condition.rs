//! Conditions in the status of a SidecarSet.

use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use serde_json::{Value, json};

/// The condition of a SidecarSet whose permissions the controller does not hold, and the reason of its Events (ESC-6).
pub const PERMISSION_CEILING_EXCEEDED: &str = "PermissionCeilingExceeded";

/// A condition in the status of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition<'a> {
    /// The condition's type, one word.
    pub type_: &'a str,
    /// Whether the condition holds.
    pub status: bool,
    /// The reason, one word.
    pub reason: &'a str,
    /// The reason as text for people.
    pub message: &'a str,
}

/// Returns a merge patch that puts the condition into the status of an object; `None` if the status has it already.
///
/// The patch writes the conditions of other types as they were observed, so it needs the observed `resourceVersion`.
pub fn patch(object: &Value, condition: Condition<'_>, now: Timestamp) -> Option<Value> {
    let Condition { type_, status, reason, message } = condition;
    let conditions = json::items(object, &["status", "conditions"]);
    let is_it = |condition: &&Value| json::text(condition, &["type"]) == type_;
    let old = conditions.iter().find(is_it).cloned().unwrap_or_default();
    let status = if status { "True" } else { "False" };
    let since = match json::text(&old, &["lastTransitionTime"]) {
        time if !time.is_empty() && json::text(&old, &["status"]) == status => time.to_owned(),
        _ => now.to_string(),
    };
    let mut new = json!({
        "type": type_, "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
    });
    if let (Some(generation), Some(new)) = (json::at(object, &["metadata", "generation"]), new.as_object_mut()) {
        new.insert("observedGeneration".to_owned(), generation.clone());
    }
    if new == old {
        return None;
    }
    let mut all: Vec<Value> = conditions.iter().filter(|condition| !is_it(condition)).cloned().collect();
    all.push(new);
    Some(json!({"status": {"conditions": all}}))
}
