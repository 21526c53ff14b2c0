//! What is said of a SidecarSet in its status.

use serde_json::{Value, json};

use super::{Place, Verdict};
use crate::json;
use crate::time::Timestamp;

/// The type of the condition: whether Pods are injected with this version of the SidecarSet, once it is in the bundle.
pub const CONDITION: &str = "InBundle";

/// A merge patch for the status of a SidecarSet that makes it say so; nothing where it does.
///
/// Conditions of other types stay, as they were seen: the patch needs the `resourceVersion` of what was seen.
pub fn condition(sidecar_set: &Value, verdict: &Verdict, now: Timestamp) -> Option<Value> {
    let conditions = json::items(sidecar_set, &["status", "conditions"]);
    let is_it = |condition: &&Value| json::text(condition, &["type"]) == CONDITION;
    let old = conditions.iter().find(is_it).cloned().unwrap_or_default();
    let status = if verdict.place == Place::In { "True" } else { "False" };
    let since = match json::text(&old, &["lastTransitionTime"]) {
        time if !time.is_empty() && json::text(&old, &["status"]) == status => time.to_owned(),
        _ => now.to_string(),
    };
    let mut condition = json!({
        "type": CONDITION, "status": status, "lastTransitionTime": since,
        "reason": verdict.why.as_str(), "message": verdict.message,
    });
    if let (Some(generation), Some(condition)) =
        (json::at(sidecar_set, &["metadata", "generation"]), condition.as_object_mut())
    {
        condition.insert("observedGeneration".to_owned(), generation.clone());
    }
    if condition == old {
        return None;
    }
    let mut all: Vec<Value> = conditions.iter().filter(|condition| !is_it(condition)).cloned().collect();
    all.push(condition);
    Some(json!({"status": {"conditions": all}}))
}
