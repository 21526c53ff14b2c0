//! The settings reference in Markdown.

use std::fmt::Write as _;

use pillion_identity::declared;
use pillion_yaml::{self as yaml, Tree};
use serde_json::{Value, json};

use super::fields::{self, Field, TYPES};
use super::members;

/// The setting whose default is too long for a table cell.
const DENIED: &str = "denyPermissions";

/// Returns the whole settings reference: the table, then a section for each setting.
pub fn reference() -> String {
    let mut out = format!("# Settings\n\n{}", settings());
    for (name, schema) in members("") {
        let table = match name {
            "featureGates" => gates(),
            "serviceAccounts" => format!("{}\n### Denied permissions\n\n{}", service_accounts(), deny_permissions()),
            _ => String::new(),
        };
        // Writing to a String cannot fail.
        let _ = write!(out, "\n## {name}\n\n{} ({})\n", description(schema), kind(schema));
        for part in [table, example(name).unwrap_or_default()].iter().filter(|part| !part.is_empty()) {
            let _ = write!(out, "\n{part}");
        }
    }
    out
}

/// Returns the table of the settings.
pub fn settings() -> String {
    let mut out = String::from("| key | type | default | means |\n| --- | --- | --- | --- |\n");
    for (name, schema) in members("") {
        let link = format!("[`{name}`](#{})", name.to_lowercase());
        row(&mut out, &[&link, &kind(schema), &default(schema), description(schema)]);
    }
    out
}

/// Returns the table of the feature gates.
pub fn gates() -> String {
    let mut out = String::from("| gate | effect when `true` |\n| --- | --- |\n");
    for (gate, schema) in members("featureGates") {
        row(&mut out, &[&format!("`{gate}`"), description(schema)]);
    }
    out
}

/// Returns the table of the keys of `serviceAccounts`.
pub fn service_accounts() -> String {
    let mut out = String::from("| key | type | default | means |\n| --- | --- | --- | --- |\n");
    for (name, schema) in members("serviceAccounts") {
        let keys = schema.get("properties").and_then(Value::as_object);
        let of_schema = match name {
            DENIED => "[these](#denied-permissions)".to_owned(),
            _ if keys.is_some() => "below".to_owned(),
            _ => default(schema),
        };
        row(&mut out, &[&format!("`{name}`"), &kind(schema), &of_schema, description(schema)]);
        for (key, schema) in keys.into_iter().flatten() {
            row(&mut out, &[&format!("`{name}.{key}`"), &kind(schema), &default(schema), description(schema)]);
        }
    }
    out
}

/// Returns the permissions that no SidecarSet may grant by default, the default of `denyPermissions`.
pub fn deny_permissions() -> String {
    let rules =
        members("serviceAccounts").find(|(name, _)| *name == DENIED).and_then(|(_, schema)| schema.get("default"));
    block(&json!({"serviceAccounts": {DENIED: rules}}))
}

/// Returns an example of a setting, if it has one.
pub fn example(name: &str) -> Option<String> {
    let (_, schema) = members("").find(|(setting, _)| *setting == name)?;
    Some(block(&json!({name: schema.get("examples")?.get(0)?})))
}

fn block(settings: &Value) -> String {
    format!("```yaml\n{}```\n", yaml::print(&Tree::conventional(settings)))
}

/// Returns the description of a schema.
fn description(schema: &'static Value) -> &'static str {
    schema.get("description").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the values of an enumeration, or none for other types.
pub fn choices(schema: &Value) -> Vec<&str> {
    let choices = schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    choices.filter_map(|choice| choice.get("const")?.as_str()).collect()
}

/// Returns a type in words.
fn kind(schema: &Value) -> String {
    let choices = choices(schema);
    if !choices.is_empty() {
        return choices.iter().map(|choice| format!("`{choice}`")).collect::<Vec<_>>().join(", ");
    }
    match (name(schema), schema.get("items")) {
        ("array", Some(items)) if !self::choices(items).is_empty() => format!("list of {}", kind(items)),
        ("array", Some(items)) => {
            format!("list of {}s", items.get("title").and_then(Value::as_str).unwrap_or(name(items)))
        }
        (name, _) => name.to_owned(),
    }
}

/// Returns the name of a type, ignoring `null`.
fn name(schema: &Value) -> &str {
    let kind = schema.get("type").unwrap_or(&Value::Null);
    let first = kind.as_array().and_then(|kinds| kinds.first()).unwrap_or(kind);
    first.as_str().unwrap_or_default()
}

/// Returns the default of a setting.
fn default(schema: &Value) -> String {
    match schema.get("default") {
        None => "none".to_owned(),
        Some(Value::String(text)) => format!("`{text}`"),
        Some(value) => format!("`{value}`"),
    }
}

/// Returns the table of the annotations that can replace fields of a `SidecarSet`.
pub fn annotations() -> String {
    let mut out = String::from("| field of `spec` | annotation |\n| --- | --- |\n");
    for field in declared::FIELDS {
        row(&mut out, &[&format!("`{}`", field.name), &format!("`{}`", field.annotation)]);
    }
    out
}

/// Returns the tables of the fields of a `SidecarSet`, one table per type.
pub fn sidecar_set() -> String {
    let mut out = String::new();
    for (name, text) in TYPES {
        let separator = if out.is_empty() { "" } else { "\n" };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{separator}### {name}\n\n{text}\n\n| field | default | means |\n| --- | --- | --- |");
        for field in fields::described(name) {
            row(
                &mut out,
                &[&format!("`{}`", field.name()), &field.default.map(shown).unwrap_or_default(), &meaning(field)],
            );
        }
    }
    out
}

fn meaning(field: &Field) -> String {
    let values: Vec<String> = field.known().iter().map(|value| format!("`{value}`")).collect();
    let are_told = field.known().iter().all(|value| field.text.contains(&format!("`{value}`")));
    if are_told { field.text.to_owned() } else { format!("{} One of {}.", field.text, values.join(", ")) }
}

/// Returns a default in Markdown. The default is JSON, or empty if there is none.
fn shown(default: &str) -> String {
    match default {
        "" => "none".to_owned(),
        json => format!("`{}`", plain(json)),
    }
}

/// Returns JSON as YAML writes it: texts lose their quotes.
fn plain(json: &str) -> &str {
    json.trim_matches('"')
}

fn row(out: &mut String, cells: &[&str]) {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}
