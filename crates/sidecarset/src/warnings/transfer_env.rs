//! Entries of `transferEnv` that copy nothing into any Pod (INJ-16, WARN-5).

use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json;
use serde_json::Value;

use super::{LISTS, Rule, Warning};

pub(super) fn check(object: &Value, found: &mut Vec<Warning>) {
    let spec = FieldPath::new("spec");
    for list in LISTS {
        for (index, container) in json::items(object, &["spec", list]).iter().enumerate() {
            let container_path = spec.item(list, index);
            for (index, entry) in json::items(container, &["transferEnv"]).iter().enumerate() {
                let mut warn = |message, remedy| {
                    let path = container_path.item("transferEnv", index).to_string();
                    found.push(Warning::new(Rule::EmptyTransferEnv, path, message, remedy));
                };
                if !names_a_variable(entry) {
                    warn("this entry names no variable, so nothing is copied", "set envName or envNames");
                }
                if !names_a_source(entry) {
                    warn(
                        "this entry names no source container, so nothing is copied",
                        "set sourceContainerName or sourceContainerNameFrom",
                    );
                }
            }
        }
    }
}

fn names_a_variable(entry: &Value) -> bool {
    !json::text(entry, &["envName"]).is_empty()
        || json::items(entry, &["envNames"]).iter().any(|name| name.as_str().is_some_and(|name| !name.is_empty()))
}

fn names_a_source(entry: &Value) -> bool {
    !json::text(entry, &["sourceContainerName"]).is_empty()
        || json::at(entry, &["sourceContainerNameFrom"]).is_some_and(|source| !source.is_null())
}
