//! A plan in a machine-readable form.

use pillion_controllers::preview::{Change, Event, Preview, Remark, Rollout, Wave};
use pillion_kubernetes::lookup::ObjectRef;
use serde_json::{Map, Value, json};

/// Returns an object with `changes`, `events`, `problems`, `later` and, if there are any, `rollouts`; `waves`, a list of
/// the same for each further round; and `never`, what stays as it is after the last round. A change has `verb`, `object`,
/// `why` and `after`, the whole object as it will be; that of an existing object also has `fields`, a line for each field
/// that differs.
pub(super) fn preview(preview: &Preview) -> Value {
    let mut all = wave(&preview.first);
    if !preview.waves.is_empty() {
        all.insert("waves".to_owned(), preview.waves.iter().map(|it| Value::Object(wave(it))).collect());
    }
    if !preview.never.is_empty() {
        all.insert("never".to_owned(), preview.never.iter().map(remark).collect());
    }
    Value::Object(all)
}

fn wave(wave: &Wave) -> Map<String, Value> {
    let mut all = Map::new();
    all.insert("changes".to_owned(), wave.changes.iter().map(change).collect());
    all.insert("events".to_owned(), wave.events.iter().map(event).collect());
    all.insert("problems".to_owned(), wave.problems.iter().map(remark).collect());
    all.insert("later".to_owned(), wave.later.iter().map(remark).collect());
    if !wave.rollouts.is_empty() {
        all.insert("rollouts".to_owned(), wave.rollouts.iter().map(rollout).collect());
    }
    all
}

fn rollout(rollout: &Rollout) -> Value {
    let Rollout { sidecar_set, pods, updated, now, kept, message } = rollout;
    json!({
        "sidecarSet": sidecar_set, "pods": pods, "updated": updated, "now": now, "kept": kept, "message": message,
    })
}

fn change(change: &Change) -> Value {
    let Change { controller, verb, object, why, after, .. } = change;
    let ObjectRef { api_version, kind, namespace, name } = object;
    let mut reference = Map::new();
    reference.insert("apiVersion".to_owned(), (*api_version).into());
    reference.insert("kind".to_owned(), (*kind).into());
    if let Some(namespace) = namespace {
        reference.insert("namespace".to_owned(), namespace.as_str().into());
    }
    reference.insert("name".to_owned(), name.as_str().into());
    let mut all = Map::new();
    all.insert("controller".to_owned(), controller.as_str().into());
    all.insert("verb".to_owned(), verb.as_str().into());
    all.insert("object".to_owned(), Value::Object(reference));
    all.insert("why".to_owned(), why.as_str().into());
    let fields = change.differences();
    if !fields.is_empty() {
        all.insert("fields".to_owned(), fields.into());
    }
    if let Some(after) = after {
        all.insert("after".to_owned(), Value::clone(after));
    }
    Value::Object(all)
}

fn event(event: &Event) -> Value {
    let Event { type_, reason, message, object } = event;
    json!({"type": type_, "reason": reason, "message": message, "object": object})
}

fn remark(remark: &Remark) -> Value {
    let Remark { controller, namespace, text } = remark;
    let mut object = Map::new();
    object.insert("controller".to_owned(), controller.as_str().into());
    if let Some(namespace) = namespace {
        object.insert("namespace".to_owned(), namespace.as_str().into());
    }
    object.insert("text".to_owned(), text.as_str().into());
    Value::Object(object)
}
