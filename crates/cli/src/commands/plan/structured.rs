//! A plan in a machine-readable form.

use pillion_controller::preview::{Change, Preview, Remark};
use serde_json::{Map, Value, json};

/// Returns an object with `changes`, `problems` and `later`. A change of an existing object has `fields`: a line for
/// each field that differs.
pub(super) fn of(preview: &Preview, differences: &[Vec<String>]) -> Value {
    let differences = differences.iter().map(Vec::as_slice).chain(std::iter::repeat(&[][..]));
    json!({
        "changes": preview.changes.iter().zip(differences).map(|(it, fields)| change(it, fields)).collect::<Vec<_>>(),
        "problems": preview.problems.iter().map(remark).collect::<Vec<_>>(),
        "later": preview.later.iter().map(remark).collect::<Vec<_>>()
    })
}

fn change(change: &Change, fields: &[String]) -> Value {
    let Change { controller, verb, api_version, kind, namespace, name, why, body } = change;
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), api_version.as_str().into());
    object.insert("kind".to_owned(), kind.as_str().into());
    if let Some(namespace) = namespace {
        object.insert("namespace".to_owned(), namespace.as_str().into());
    }
    object.insert("name".to_owned(), name.as_str().into());
    let mut change = Map::new();
    change.insert("controller".to_owned(), controller.as_str().into());
    change.insert("verb".to_owned(), verb.as_str().into());
    change.insert("object".to_owned(), Value::Object(object));
    change.insert("why".to_owned(), why.as_str().into());
    if !fields.is_empty() {
        change.insert("fields".to_owned(), fields.into());
    }
    if let Some(body) = body {
        change.insert("body".to_owned(), body.clone());
    }
    Value::Object(change)
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
