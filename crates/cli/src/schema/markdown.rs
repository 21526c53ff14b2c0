//! The reference for people.

use std::fmt::Write as _;

use pillion_core::service_account::declared;
use serde_json::{Value, json};

use super::fields::{self, Field, TYPES};
use super::service_accounts::{FIELDS, Kind};
use super::settings::{GATES, SETTINGS, Setting};
use crate::yaml::{self, Tree};

/// Everything about the settings: the table, and below it what each of them holds.
pub fn reference() -> String {
    let mut out = format!("# Settings\n\n{}", settings());
    for Setting { name, kind, means, example: shown, .. } in &SETTINGS {
        let table = match *name {
            "featureGates" => gates(),
            "serviceAccounts" => format!("{}\n### What nobody may grant\n\n{}", service_accounts(), deny_permissions()),
            _ => String::new(),
        };
        let example = if shown.is_empty() { String::new() } else { example(name) };
        // Writing to a String cannot fail.
        let _ = write!(out, "\n## {name}\n\n{means} ({kind})\n");
        for part in [table, example].iter().filter(|part| !part.is_empty()) {
            let _ = write!(out, "\n{part}");
        }
    }
    out
}

/// The settings as a table.
pub fn settings() -> String {
    let mut out = String::from("| key | type | default | means |\n| --- | --- | --- | --- |\n");
    for setting in &SETTINGS {
        let Setting { name, kind, means, .. } = setting;
        let anchor = name.to_lowercase();
        row(&mut out, &[&format!("[`{name}`](#{anchor})"), kind, &shown(setting.default), means]);
    }
    out
}

/// The gates.
pub fn gates() -> String {
    let mut out = String::from("| gate | effect when `true` |\n| --- | --- |\n");
    for (gate, does) in GATES {
        row(&mut out, &[&format!("`{gate}`"), does]);
    }
    out
}

/// The keys of `serviceAccounts`.
pub fn service_accounts() -> String {
    let mut out = String::from("| key | type | default | means |\n| --- | --- | --- | --- |\n");
    for field in &FIELDS {
        let default = match field.kind {
            Kind::Rules => "[these](#what-nobody-may-grant)".to_owned(),
            _ => shown(field.default),
        };
        row(&mut out, &[&format!("`{}`", field.name), &field.kind.in_words(), &default, field.means]);
    }
    out
}

/// What no SidecarSet may grant, unless `denyPermissions` says otherwise.
pub fn deny_permissions() -> String {
    let field = FIELDS.iter().find(|field| matches!(field.kind, Kind::Rules));
    let rules: Value = field.and_then(|field| field.default.parse().ok()).unwrap_or_default();
    let settings = json!({"serviceAccounts": {"denyPermissions": rules}});
    format!("```yaml\n{}```\n", yaml::document(&Tree::conventional(&settings)))
}

/// The annotations that stand for fields of a `SidecarSet`.
pub fn annotations() -> String {
    let mut out = String::from("| field of `spec` | annotation |\n| --- | --- |\n");
    for field in declared::FIELDS {
        row(&mut out, &[&format!("`{}`", field.name), &format!("`{}`", field.annotation)]);
    }
    out
}

/// An example of a setting.
pub fn example(name: &str) -> String {
    let example = SETTINGS.iter().find(|setting| setting.name == name).map_or("", |setting| setting.example);
    format!("```yaml\n{example}\n```\n")
}

/// The fields of a `SidecarSet`, type by type.
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

/// A default, which is JSON; empty where there is none.
fn shown(default: &str) -> String {
    match default {
        "" => "none".to_owned(),
        json => format!("`{}`", plain(json)),
    }
}

/// JSON as YAML would have it where that is a text.
fn plain(json: &str) -> &str {
    json.trim_matches('"')
}

fn row(out: &mut String, cells: &[&str]) {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}
