//! Conditions in the status of a SidecarSet.

use pillion_kubernetes::json;
use pillion_kubernetes::lookup::ObjectRef;
use pillion_kubernetes::time::Timestamp;
use serde_json::{Value, json};

use crate::{Step, Subresource};

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
    /// `lastTransitionTime`; `None` for the time of the last change of the status.
    pub since: Option<Timestamp>,
}

/// Returns the step that puts the condition of a SidecarSet into its status; `None` if the status has it already.
///
/// The step writes this condition and nothing else of the status, which other clients write at the same time. Only if
/// the status has no conditions yet, the SidecarSet must not have changed since it was observed.
pub fn step(sidecar_set: &Value, condition: Condition<'_>, now: Timestamp) -> Option<Step> {
    let edits = edits(sidecar_set, &[condition], now);
    if edits.is_empty() {
        return None;
    }
    let mut operations = vec![test(sidecar_set, "uid")];
    if !sidecar_set.get("status").is_some_and(Value::is_object) {
        operations.push(json!({"op": "add", "path": "/status", "value": {}}));
    }
    operations.extend(edits);
    Some(Step::JsonPatch { object: reference(sidecar_set), subresource: Some(Subresource::Status), operations })
}

/// Returns the condition of a type in the status of an object.
pub fn find<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    let mut conditions = json::items(object, &["status", "conditions"]).iter();
    conditions.find(|condition| json::text(condition, &["type"]) == type_)
}

/// Returns the operations of a JSON Patch that put these conditions into the status of a SidecarSet, which must exist.
/// Conditions that it has already cause none.
pub fn edits(sidecar_set: &Value, wanted: &[Condition<'_>], now: Timestamp) -> Vec<Value> {
    let conditions = json::at(sidecar_set, &["status", "conditions"]).and_then(Value::as_array);
    let known = conditions.map(Vec::as_slice).unwrap_or_default();
    let mut operations = Vec::new();
    let mut added = Vec::new();
    for condition in wanted {
        let place = known.iter().position(|known| json::text(known, &["type"]) == condition.type_);
        let old = place.and_then(|index| known.get(index));
        let new = written(sidecar_set, *condition, old, now);
        match place {
            _ if old == Some(&new) => {}
            Some(index) => {
                let path = format!("/status/conditions/{index}");
                operations.push(json!({"op": "test", "path": format!("{path}/type"), "value": condition.type_}));
                operations.push(json!({"op": "replace", "path": path, "value": new}));
            }
            None => added.push(new),
        }
    }
    if conditions.is_some() {
        operations
            .extend(added.into_iter().map(|new| json!({"op": "add", "path": "/status/conditions/-", "value": new})));
    } else if !added.is_empty() {
        operations.push(test(sidecar_set, "resourceVersion"));
        operations.push(json!({"op": "add", "path": "/status/conditions", "value": added}));
    }
    operations
}

/// Returns a condition as it is written. Unless it has a time, it keeps that of `old` while the status is the same.
fn written(sidecar_set: &Value, condition: Condition<'_>, old: Option<&Value>, now: Timestamp) -> Value {
    let Condition { type_, status, reason, message, since } = condition;
    let status = if status { "True" } else { "False" };
    let old = old.filter(|old| json::text(old, &["status"]) == status);
    let of_old = old.map(|old| json::text(old, &["lastTransitionTime"])).filter(|time| !time.is_empty());
    let since = since.map(|since| since.to_string()).or_else(|| of_old.map(str::to_owned));
    let since = since.unwrap_or_else(|| now.to_string());
    let mut new = json!({
        "type": type_, "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
    });
    if let (Some(generation), Some(new)) = (json::at(sidecar_set, &["metadata", "generation"]), new.as_object_mut()) {
        new.insert("observedGeneration".to_owned(), generation.clone());
    }
    new
}

/// Returns the operation that tests a field of the metadata.
fn test(sidecar_set: &Value, key: &str) -> Value {
    let value = json::text(sidecar_set, &["metadata", key]);
    json!({"op": "test", "path": format!("/metadata/{key}"), "value": value})
}

/// Returns the reference to a SidecarSet in the API version in which it was observed.
pub fn reference(sidecar_set: &Value) -> ObjectRef {
    let is_old = json::text(sidecar_set, &["apiVersion"]).ends_with("/v1alpha1");
    ObjectRef {
        api_version: if is_old { "apps.kruise.io/v1alpha1" } else { "apps.kruise.io/v1beta1" },
        kind: "SidecarSet",
        namespace: None,
        name: json::text(sidecar_set, &["metadata", "name"]).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const NOW: Timestamp = Timestamp(0);
    const CONDITION: Condition<'_> =
        Condition { type_: "InBundle", status: true, reason: "Current", message: "it is", since: None };

    fn written() -> Value {
        json!({
            "type": "InBundle", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z", "reason": "Current",
            "message": "it is", "observedGeneration": 3,
        })
    }

    fn set(status: &Value) -> Value {
        let metadata = json!({"name": "logs", "uid": "u", "resourceVersion": "7", "generation": 3});
        let mut set = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": metadata});
        if !status.is_null() {
            set["status"] = status.clone();
        }
        set
    }

    #[rstest]
    #[case::no_status(json!(null), &["/metadata/uid", "/status", "/metadata/resourceVersion", "/status/conditions"])]
    #[case::no_conditions(json!({"matchedPods": 1}), &["/metadata/uid", "/metadata/resourceVersion", "/status/conditions"])]
    #[case::those_of_others(json!({"conditions": [{"type": "Ready"}]}), &["/metadata/uid", "/status/conditions/-"])]
    #[case::an_older_one(
        json!({"conditions": [{"type": "Ready"}, {"type": "InBundle", "status": "False"}]}),
        &["/metadata/uid", "/status/conditions/1/type", "/status/conditions/1"]
    )]
    fn only_this_condition_is_written(#[case] status: Value, #[case] paths: &[&str]) {
        let Some(Step::JsonPatch { object, subresource, operations }) = step(&set(&status), CONDITION, NOW) else {
            panic!("nothing is written");
        };
        assert_eq!((object.name.as_str(), subresource), ("logs", Some(Subresource::Status)));
        assert_eq!(operations.iter().map(|one| json::text(one, &["path"])).collect::<Vec<_>>(), paths);
        let value = &operations.last().expect("an operation")["value"];
        assert!(value.to_string().contains(&written().to_string()), "{value}");
    }

    #[test]
    fn a_condition_that_is_there_is_not_written() {
        assert_eq!(step(&set(&json!({"conditions": [written()]})), CONDITION, NOW), None);
    }

    #[test]
    fn the_transition_keeps_its_time_while_only_the_message_changes() {
        let mut old = written();
        old["message"] = json!("it was");
        let Some(Step::JsonPatch { operations, .. }) =
            step(&set(&json!({"conditions": [old]})), CONDITION, Timestamp(60))
        else {
            panic!("nothing is written");
        };
        assert_eq!(operations.last().expect("an operation")["value"], written());
    }
}
