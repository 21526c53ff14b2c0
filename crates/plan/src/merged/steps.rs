//! Steps that create, repair and collect merged objects.

use pillion_identity::names;
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use serde_json::{Value, json};

use super::objects::{finalizers, mark, object_ref, patch};
use crate::Step;

/// The fields that identify an object or can never change.
const SEED: [&str; 4] = ["apiVersion", "kind", "metadata", "roleRef"];

/// Returns the steps that create an object. The first step creates it with its immutable fields only. The second sets
/// the rest with server-side apply, so that a later apply can remove those fields again.
pub(super) fn make(wanted: &Value) -> Vec<Step> {
    let mut seed = wanted.clone();
    if let Some(seed) = seed.as_object_mut() {
        seed.retain(|key, _| SEED.contains(&key.as_str()));
        if let Some(metadata) = json::object_mut(seed, "metadata") {
            json::take(metadata, "finalizers");
        }
    }
    vec![Step::Create(seed), Step::Apply(wanted.clone())]
}

/// Returns the steps that bring an object to its wanted state; empty if it is correct.
pub(super) fn repair(object: &Value, wanted: &Value) -> Vec<Step> {
    let mut steps = Vec::new();
    let (own, others) = finalizers(object);
    let (needed, _) = finalizers(wanted);
    if own.iter().any(|finalizer| !needed.contains(finalizer)) {
        let all: Vec<&str> = needed.iter().copied().chain(others).collect();
        steps.push(patch(object, &json!({"metadata": {"finalizers": all}})));
    }
    // Lists are compared exactly, including their order, because the policy compares them so.
    let is_same = |path: &[&str]| {
        json::at(object, path).unwrap_or(&Value::Null) == json::at(wanted, path).unwrap_or(&Value::Null)
    };
    let empty_or_same = |key: &str| {
        is_same(&[key]) || (json::items(object, &[key]).is_empty() && json::items(wanted, &[key]).is_empty())
    };
    let has_labels = json::string_map(wanted, &["metadata", "labels"])
        .all(|(key, value)| json::text(object, &["metadata", "labels", key]) == value);
    let has_finalizers = needed.iter().all(|finalizer| own.contains(finalizer));
    if !has_labels || !has_finalizers || !empty_or_same("rules") || !empty_or_same("subjects") {
        let mut applied = wanted.clone();
        if let Some(metadata) = applied.as_object_mut().and_then(|object| json::object_mut(object, "metadata")) {
            metadata.insert("uid".to_owned(), json::text(object, &["metadata", "uid"]).into());
        }
        steps.push(Step::Apply(applied));
    }
    steps.extend(unmarked(object));
    steps
}

/// Returns the step that removes the mark from an object; `None` if it has no mark. The step applies even if the object
/// has changed since it was observed.
pub(super) fn unmarked(object: &Value) -> Option<Step> {
    if mark(object).is_empty() {
        return None;
    }
    Some(Step::Patch {
        object: object_ref(object),
        uid: json::text(object, &["metadata", "uid"]).to_owned(),
        resource_version: None,
        patch: json!({"metadata": {"annotations": {names::GC_PENDING: null}}}),
    })
}

/// Returns the step that marks an object and removes the finalizers of SidecarSets from it; `None` if both are done.
pub(super) fn collected(object: &Value, now: Timestamp) -> Option<Step> {
    let (own, others) = finalizers(object);
    let is_marked = Timestamp::parse(mark(object)).is_some();
    if is_marked && own.is_empty() {
        return None;
    }
    let mut metadata = json!({"finalizers": others});
    if let Some(metadata) = metadata.as_object_mut().filter(|_| !is_marked) {
        metadata.insert("annotations".to_owned(), json!({names::GC_PENDING: now.to_string()}));
    }
    Some(patch(object, &json!({"metadata": metadata})))
}

/// Returns the step that deletes an object, if it has not changed since it was observed; `None` if it is being deleted
/// already.
pub(super) fn deleted(object: &Value) -> Option<Step> {
    let text = |key| json::text(object, &["metadata", key]).to_owned();
    let delete = || Step::Delete {
        object: object_ref(object),
        uid: text("uid"),
        resource_version: Some(text("resourceVersion")),
    };
    (!json::is_terminating(object)).then(delete)
}
