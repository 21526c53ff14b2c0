//! Validation of hot upgrades (DIFF-22, VAL-14). A Pod gets a pair of containers, and every rule that the API server has
//! for containers holds for both.

use std::collections::BTreeMap;

use pillion_kubernetes::field::{FieldError, FieldErrors, FieldPath};
use pillion_kubernetes::name_validation;
use pillion_kubernetes::node::Node;

use crate::made::{self, Made};
use crate::sidecar::{List, halves, is_pair};
use crate::sidecar_set::SidecarSet;

/// The length of the longest name of a container, in bytes (RFC 1123).
const NAME_MAX: usize = 63;

/// Checks the pairs that Pods would get: each needs an image for its idle container, both names must be names of
/// containers, and both containers listen on the same ports of the node. Plain init containers are never upgraded.
pub(super) fn check(set: &SidecarSet, spec: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    for list in List::ALL {
        for container in spec.items(list.key()).filter(|container| is_pair(container.value, list)) {
            let strategy = container.part("upgradeStrategy");
            if strategy.is_empty("hotUpgradeEmptyImage") {
                let wrong = "upgradeType HotUpgrade needs an image for the idle container";
                errors.required(&strategy.at("hotUpgradeEmptyImage"), wrong);
            }
            check_length(&container, errors);
            // The API server compares the ports of init containers only within each of them.
            if list == List::Containers {
                check_ports(&container, errors);
            }
        }
    }
    check_names(set, spec, errors);
}

/// Checks that both containers of the pair can have their names. VAL-12 judges the name that they begin with.
fn check_length(container: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let name = container.text("name");
    let [one, other] = halves(name);
    if one.len() <= NAME_MAX || name_validation::dns_label(name).is_some() {
        return;
    }
    let wrong = format!(
        "HotUpgrade makes the containers \"{one}\" and \"{other}\", whose names have {} characters; a container's name has at \
         most {NAME_MAX}, so use at most {} characters, or upgradeType ColdUpgrade",
        one.len(),
        NAME_MAX + name.len() - one.len(),
    );
    container.invalid("name", &wrong, errors);
}

/// Checks that the pair claims no port of the node: its containers run at the same time.
fn check_ports(container: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let [one, other] = halves(container.text("name"));
    for port in container.items("ports").filter(|port| port.number("hostPort") != 0) {
        let wrong = format!(
            "HotUpgrade makes the containers \"{one}\" and \"{other}\", which cannot both have this port of the node; remove \
             hostPort, or use upgradeType ColdUpgrade"
        );
        errors.forbidden(&port.at("hostPort"), &wrong);
    }
}

/// Checks that no container of a pair has the name of another container of the SidecarSet. VAL-12 compares the names
/// that are written there.
fn check_names(set: &SidecarSet, spec: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    // The containers that Pods get, by name: the first container of the SidecarSet that makes one of the name.
    let mut known: BTreeMap<String, Made<'_>> = BTreeMap::new();
    for container in made::containers(set) {
        if let Some(there) = known.get(&container.name) {
            clash(&container, there, &spec.place, errors);
        } else {
            known.insert(container.name.clone(), container);
        }
    }
}

/// Reports that two containers of the SidecarSet make one of the same name, unless both are written with that name.
fn clash(here: &Made<'_>, there: &Made<'_>, spec: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if here.written() == there.written() {
        return;
    }
    let pair = if here.is_half() { here } else { there };
    let wrong = format!(
        "HotUpgrade makes the container \"{}\" of \"{}\", and spec.{}[{}] makes another one of this name; rename one of them",
        here.name,
        pair.written(),
        there.list.key(),
        there.index,
    );
    errors.invalid(&spec.item(here.list.key(), here.index).child("name"), here.written(), &wrong);
}
