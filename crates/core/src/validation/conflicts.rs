//! Conflicts with other `SidecarSet`s (V-50 to V-55, Q-1, Q-5).

use serde_json::Value;

use crate::field::{FieldError, FieldPath};
use crate::json;
use crate::schema::{self, Style};
use crate::selector::{Selector, overlap};
use crate::sidecar_set::SidecarSet;

/// Compares `set` with every other `SidecarSet` that could be injected into the same Pod: containers, init containers
/// and volumes must not share a name (equal volumes may), and neither side may overwrite an annotation of the other.
///
/// A canary and its base are never compared; two canaries of one base are.
pub fn validate<'a>(set: &SidecarSet, others: impl IntoIterator<Item = &'a SidecarSet>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let rivals = others.into_iter().filter(|other| {
        other.name() != set.name() && set.canary_of() != Some(other.name()) && other.canary_of() != Some(set.name())
    });
    for other in rivals {
        let mut found = Vec::new();
        same_names(set, other, &mut found);
        volumes(set, other, &mut found);
        annotations(set, other, &mut found);
        // Whether they can meet is the dear question, and settings ask it of every pair.
        if !found.is_empty() && may_meet(set, other) {
            errors.append(&mut found);
        }
    }
    errors
}

/// Whether some Pod in some namespace is selected by both.
fn may_meet(set: &SidecarSet, other: &SidecarSet) -> bool {
    let both = |field: &str| Some((set.spec(&[field])?, other.spec(&[field])?));
    let overlapping =
        |(one, another): (&Value, &Value)| overlap(&Selector::parse_known(one), &Selector::parse_known(another));
    // No namespace selector means every namespace; no selector means no Pod.
    both("namespaceSelector").is_none_or(overlapping) && both("selector").is_some_and(overlapping)
}

fn same_names(set: &SidecarSet, other: &SidecarSet, errors: &mut Vec<FieldError>) {
    let lists = [
        ("initContainers", set.init_containers(), other.init_containers()),
        ("containers", set.containers(), other.containers()),
    ];
    for (list, own, theirs) in lists {
        for (index, container) in own.iter().enumerate() {
            let name = json::text(container, &["name"]);
            if theirs.iter().any(|container| json::text(container, &["name"]) == name) {
                let path = FieldPath::new("spec").child(list).index(index).child("name");
                let wrong = format!("SidecarSet \"{}\" has a container of this name for the same Pods", other.name());
                errors.push(FieldError::invalid(&path, name, wrong));
            }
        }
    }
}

fn volumes(set: &SidecarSet, other: &SidecarSet, errors: &mut Vec<FieldError>) {
    for (index, volume) in set.volumes().iter().enumerate() {
        let name = json::text(volume, &["name"]);
        let theirs = other.volumes().iter().find(|volume| json::text(volume, &["name"]) == name);
        if theirs.is_some_and(|theirs| canonical(theirs) != canonical(volume)) {
            let path = FieldPath::new("spec").child("volumes").index(index);
            let wrong = format!("SidecarSet \"{}\" has another volume of this name for the same Pods", other.name());
            errors.push(FieldError::invalid(&path, name, wrong));
        }
    }
}

/// The text that says what a volume is, however it is written: order of keys, zero values, units.
fn canonical(volume: &Value) -> String {
    let mut text = String::new();
    schema::write_objects(&mut text, Some(&Value::Array(vec![volume.clone()])), &schema::VOLUME, Style::Declared);
    text
}

fn annotations(set: &SidecarSet, other: &SidecarSet, errors: &mut Vec<FieldError>) {
    for (index, own) in patches(set) {
        for (key, _) in json::string_map(own, &["annotations"]) {
            let clashes = patches(other).any(|(_, theirs)| {
                json::at(theirs, &["annotations", key]).is_some() && (overwrites(own) || overwrites(theirs))
            });
            if clashes {
                let path = FieldPath::new("spec").child("patchPodMetadata").index(index).child("annotations").key(key);
                let wrong = format!("SidecarSet \"{}\" patches this annotation of the same Pods", other.name());
                errors.push(FieldError::invalid(&path, key, wrong));
            }
        }
    }
}

/// The entries that change what a Pod has.
fn patches(set: &SidecarSet) -> impl Iterator<Item = (usize, &Value)> {
    let list = set.spec(&["patchPodMetadata"]).map_or(&[][..], |list| json::items(list, &[]));
    list.iter().enumerate().filter(|(_, patch)| json::text(patch, &["patchPolicy"]) != "Retain")
}

fn overwrites(patch: &Value) -> bool {
    json::text(patch, &["patchPolicy"]) == "Overwrite"
}
