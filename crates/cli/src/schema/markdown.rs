//! The reference for people.

use std::fmt::Write as _;

use super::fields::{self, Field, TYPES};
use super::settings::{GATES, SETTINGS, Setting};

/// The settings as a table, and the values that settings to come may have.
pub fn settings() -> String {
    let mut out = String::from("| key | type | default | means |\n| --- | --- | --- | --- |\n");
    for setting in SETTINGS.iter().filter(|setting| setting.is_supported()) {
        let Setting { name, kind, means, .. } = setting;
        let anchor = name.to_lowercase();
        row(&mut out, &[&format!("[`{name}`](#{anchor})"), kind, &shown(setting.default), means]);
    }
    out
}

/// The settings that are refused for now.
pub fn to_come() -> String {
    let mut out = String::from("| key | will be | accepted anyway |\n| --- | --- | --- |\n");
    for setting in SETTINGS.iter().filter(|setting| !setting.is_supported()) {
        let accepted = setting.harmless().map_or_else(|| "`null`".to_owned(), |value| format!("`null`, `{value}`"));
        row(&mut out, &[&format!("`{}`", setting.name), setting.means, &accepted]);
    }
    for (gate, _) in GATES.iter().filter(|(_, does)| does.is_empty()) {
        row(&mut out, &[&format!("`featureGates.{gate}`"), "the gate of `serviceAccounts`", "`false`"]);
    }
    out
}

/// The gates that can be on.
pub fn gates() -> String {
    let mut out = String::from("| gate | effect when `true` |\n| --- | --- |\n");
    for (gate, does) in GATES.iter().filter(|(_, does)| !does.is_empty()) {
        row(&mut out, &[&format!("`{gate}`"), does]);
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
        json => format!("`{}`", json.trim_matches('"')),
    }
}

fn row(out: &mut String, cells: &[&str]) {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}
