//! The JSON Schema of the chart's values. Draft 7: older versions of Helm know no other.

use anyhow::Context as _;
use pillion_controllers::registry;
use serde_json::{Map, Value, json};

use super::super::answers::Part;
use crate::schema;

/// The schema of the values except `settings`.
const OWN: &str = include_str!("values.schema.yaml");
/// The start of references to definitions: in the schema of the settings, and in draft 7.
const DEFINITIONS: (&str, &str) = ("#/$defs/", "#/definitions/");

/// Returns the schema as text.
///
/// # Errors
/// If the schema of the values is no YAML, which is a bug.
pub fn text() -> anyhow::Result<String> {
    let mut own: Value = pillion_yaml::from_str(OWN).context("the schema of the chart's own values")?;
    let mut settings = schema::of_settings();
    let mut definitions = Map::new();
    if let Some(settings) = settings.as_object_mut() {
        settings.remove("$schema");
        settings.remove("title");
        if let Some(Value::Object(moved)) = settings.remove("$defs") {
            definitions.extend(moved);
        }
    }
    put(&mut settings, "/properties", "bundleRef", json!({"$ref": "#/definitions/chart.bundleRef"}));
    definitions.insert("chart.part".to_owned(), json!({"enum": Part::ALL.map(Part::name)}));
    definitions.insert("chart.controller".to_owned(), json!({"enum": controllers()}));
    put(&mut own, "/properties", "settings", settings);
    for (name, definition) in definitions {
        put(&mut own, "/definitions", &name, definition);
    }
    refer(&mut own);
    Ok(format!("{}\n", serde_json::to_string_pretty(&own)?))
}

fn put(schema: &mut Value, place: &str, key: &str, value: Value) {
    if let Some(place) = schema.pointer_mut(place).and_then(Value::as_object_mut) {
        place.insert(key.to_owned(), value);
    }
}

/// Returns what an item of `controller.controllers` can be.
fn controllers() -> Vec<String> {
    let names = registry::ALL.iter().map(|name| name.as_str());
    std::iter::once("*".to_owned()).chain(names.flat_map(|name| [name.to_owned(), format!("-{name}")])).collect()
}

/// Changes references to the place of definitions in draft 7.
fn refer(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(refer),
        Value::Object(members) => {
            for (key, value) in members {
                match value {
                    Value::String(text) if key == "$ref" => {
                        *text = text.replace(DEFINITIONS.0, DEFINITIONS.1);
                    }
                    value => refer(value),
                }
            }
        }
        _ => {}
    }
}
