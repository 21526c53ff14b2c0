//! Volumes that no Pod gets (INJ-26).

use std::collections::BTreeSet;

use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json;
use serde_json::Value;

use super::{LISTS, Rule, Warning};
use crate::pod;

pub(super) fn check(object: &Value, found: &mut Vec<Warning>) {
    let containers = LISTS.iter().flat_map(|list| json::items(object, &["spec", list]));
    let used: BTreeSet<&str> = containers.flat_map(pod::used_volumes).collect();
    for (index, volume) in json::items(object, &["spec", "volumes"]).iter().enumerate() {
        let name = json::text(volume, &["name"]);
        if !name.is_empty() && !used.contains(name) {
            let path = FieldPath::new("spec").item("volumes", index).child("name").to_string();
            let message = "no container of this SidecarSet uses the volume; it is not injected";
            found.push(Warning::new(Rule::UnusedVolume, path, message, "mount it, or remove it"));
        }
    }
}
