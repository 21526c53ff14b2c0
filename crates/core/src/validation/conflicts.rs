//! Conflicts with other `SidecarSet`s (V-50 to V-55, Q-1, Q-5).

use std::collections::BTreeSet;

use serde_json::Value;

use crate::field::{FieldError, Report};
use crate::json;
use crate::node::Node;
use crate::schema::{self, Style};
use crate::selector::{Selector, overlap};
use crate::sidecar_set::SidecarSet;

const PATCHES: &str = "patchPodMetadata";

/// Compares `set` with another `SidecarSet` that could be injected into the same Pod: containers, init containers and
/// volumes must not share a name (equal volumes may), and neither side may overwrite an annotation of the other.
///
/// A canary and its base are never compared; two canaries of one base are.
pub fn check(set: &SidecarSet, other: &SidecarSet, errors: &mut Vec<FieldError>) {
    if are_related(set, other) {
        return;
    }
    let before = errors.len();
    let object = Node::root(set.as_value());
    let spec = object.part("spec");
    check_names(&spec, other, errors);
    check_volumes(&spec, other, errors);
    check_annotations(&spec, other, errors);
    // Whether they can meet is the dear question, and settings ask it of every pair.
    if errors.len() > before && !may_meet(set, other) {
        errors.truncate(before);
    }
}

/// Everything over which two `SidecarSet`s can be in conflict. Only sets that share one of these are compared: of a
/// thousand sets there are half a million pairs.
pub fn names(set: &SidecarSet) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (list, items) in [("c ", set.containers()), ("i ", set.init_containers()), ("v ", set.volumes())] {
        for item in items {
            names.insert([list, json::text(item, &["name"])].concat());
        }
    }
    for patch in json::items(set.as_value(), &["spec", "patchPodMetadata"]) {
        for (key, _) in json::string_map(patch, &["annotations"]) {
            names.insert(["a ", key].concat());
        }
    }
    names
}

/// Whether the two are never in one Pod: one is the other, or its canary.
pub fn are_related(set: &SidecarSet, other: &SidecarSet) -> bool {
    other.name() == set.name() || set.canary_of() == Some(other.name()) || other.canary_of() == Some(set.name())
}

/// Whether some Pod in some namespace is selected by both.
pub fn may_meet(set: &SidecarSet, other: &SidecarSet) -> bool {
    let both = |field: &str| Some((set.spec(&[field])?, other.spec(&[field])?));
    let overlapping =
        |(one, another): (&Value, &Value)| overlap(&Selector::parse_known(one), &Selector::parse_known(another));
    // No namespace selector means every namespace; no selector means no Pod.
    both("namespaceSelector").is_none_or(overlapping) && both("selector").is_some_and(overlapping)
}

fn check_names(spec: &Node<'_, '_>, other: &SidecarSet, errors: &mut Vec<FieldError>) {
    for (list, theirs) in [("initContainers", other.init_containers()), ("containers", other.containers())] {
        for container in spec.items(list) {
            if named(theirs, container.text("name")).is_some() {
                let wrong = about(other, "has a container of this name for the same Pods");
                container.invalid("name", &wrong, errors);
            }
        }
    }
}

fn check_volumes(spec: &Node<'_, '_>, other: &SidecarSet, errors: &mut Vec<FieldError>) {
    for volume in spec.items("volumes") {
        let name = volume.text("name");
        if named(other.volumes(), name).is_some_and(|theirs| canonical(theirs) != canonical(volume.value)) {
            errors.invalid(&volume.place, name, &about(other, "has another volume of this name for the same Pods"));
        }
    }
}

fn about(other: &SidecarSet, wrong: &str) -> String {
    ["SidecarSet \"", other.name(), "\" ", wrong].concat()
}

fn named<'v>(items: &'v [Value], name: &str) -> Option<&'v Value> {
    items.iter().find(|item| json::text(item, &["name"]) == name)
}

/// The text that says what a volume is, however it is written: order of keys, zero values, units.
fn canonical(volume: &Value) -> String {
    let mut text = String::new();
    schema::write_objects(&mut text, Some(&Value::Array(vec![volume.clone()])), &schema::VOLUME, Style::Declared);
    text
}

fn check_annotations(spec: &Node<'_, '_>, other: &SidecarSet, errors: &mut Vec<FieldError>) {
    let others = Node::root(other.as_value());
    let others = others.part("spec");
    for own in spec.items(PATCHES) {
        for (key, _) in json::string_map(own.value, &["annotations"]) {
            let clashes = others.list(PATCHES).iter().any(|theirs| {
                json::at(theirs, &["annotations", key]).is_some() && clash(policy(own.value), policy(theirs))
            });
            if clashes {
                let wrong = about(other, "patches this annotation of the same Pods");
                errors.invalid(&own.at("annotations").key(key), key, &wrong);
            }
        }
    }
}

fn policy(patch: &Value) -> &str {
    json::text(patch, &["patchPolicy"])
}

/// Whether two patches of one annotation are in conflict: both change what a Pod has, and one replaces it.
fn clash(own: &str, theirs: &str) -> bool {
    own != "Retain" && theirs != "Retain" && (own == "Overwrite" || theirs == "Overwrite")
}
