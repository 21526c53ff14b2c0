//! Values that nothing knows and that no rule refuses (VAL-9, VAL-10, WARN-4).

use pillion_kubernetes::field::{FieldPath, shortened};
use pillion_kubernetes::json;
use pillion_kubernetes::words::nearest;
use serde_json::Value;

use super::{LISTS, Rule, Warning};

/// A field of a container with a fixed set of values.
struct Enumeration {
    /// The keys from the container to the field.
    keys: &'static [&'static str],
    known: [&'static str; 2],
    /// Whether validation refuses other values in `containers`.
    is_validated: bool,
}

const OF_CONTAINERS: [Enumeration; 4] = [
    Enumeration { keys: &["podInjectPolicy"], known: ["BeforeAppContainer", "AfterAppContainer"], is_validated: true },
    Enumeration { keys: &["shareVolumePolicy", "type"], known: ["enabled", "disabled"], is_validated: true },
    Enumeration { keys: &["shareVolumeDevicePolicy", "type"], known: ["enabled", "disabled"], is_validated: false },
    Enumeration {
        keys: &["upgradeStrategy", "upgradeType"],
        known: ["ColdUpgrade", "HotUpgrade"],
        is_validated: false,
    },
];
const PATCH_POLICIES: [&str; 3] = ["Retain", "Overwrite", "MergePatchJson"];

pub(super) fn check(object: &Value, found: &mut Vec<Warning>) {
    let spec = FieldPath::new("spec");
    for list in LISTS {
        for (index, container) in json::items(object, &["spec", list]).iter().enumerate() {
            for Enumeration { keys, known, is_validated } in &OF_CONTAINERS {
                if *is_validated && list == "containers" {
                    continue;
                }
                let path = || spec.item(list, index).child(&keys.join(".")).to_string();
                found.extend(word(json::text(container, keys), known, path, "the default is used"));
            }
        }
    }
    for (index, patch) in json::items(object, &["spec", "patchPodMetadata"]).iter().enumerate() {
        let path = || spec.item("patchPodMetadata", index).child("patchPolicy").to_string();
        let policy = json::text(patch, &["patchPolicy"]);
        found.extend(word(policy, &PATCH_POLICIES, path, "these annotations are not patched"));
    }
}

fn word(value: &str, known: &[&str], path: impl FnOnce() -> String, effect: &str) -> Option<Warning> {
    if value.is_empty() || known.contains(&value) {
        return None;
    }
    let remedy = match nearest(value, known.iter().copied()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("use {}", known.join(" or ")),
    };
    let message = format!("{:?} means nothing here; {effect}", shortened(value));
    Some(Warning::new(Rule::UnknownValue, path(), message, remedy))
}
