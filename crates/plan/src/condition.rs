//! Conditions in the status of a SidecarSet.

use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use serde_json::{Value, json};

/// What is said of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition<'a> {
    /// What it is about; one word.
    pub type_: &'a str,
    /// Whether it is so.
    pub status: bool,
    /// Why, in one word.
    pub reason: &'a str,
    /// Why, for people.
    pub message: &'a str,
}

/// A merge patch for the status of an object that makes it say so; nothing where it does.
///
/// Conditions of other types stay, as they were seen: the patch needs the `resourceVersion` of what was seen.
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
