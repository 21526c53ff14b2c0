//! Validation of hot upgrades (DIFF-22, VAL-14). A Pod gets a pair of containers, and every rule that the API server has
//! for containers holds for both.

use std::collections::BTreeMap;

use pillion_kubernetes::field::{FieldError, FieldErrors, FieldPath};
use pillion_kubernetes::name_validation;
use pillion_kubernetes::node::Node;
use serde_json::Value;

use crate::sidecar::{halves, is_pair};

/// The length of the longest name of a container, in bytes (RFC 1123).
const NAME_MAX: usize = 63;

/// Checks the pairs that Pods would get: each needs an image for its idle container, both names must be names of
/// containers, and both containers listen on the same ports of the node. Plain init containers are never upgraded.
pub(super) fn check(spec: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    for list in super::LISTS {
        let is_init = list == "initContainers";
        for container in spec.items(list).filter(|container| is_pair(container.value, is_init)) {
            let strategy = container.part("upgradeStrategy");
            if strategy.is_empty("hotUpgradeEmptyImage") {
                let wrong = "upgradeType HotUpgrade needs an image for the idle container";
                errors.required(&strategy.at("hotUpgradeEmptyImage"), wrong);
            }
            check_length(&container, errors);
            // The API server compares the ports of init containers only within each of them.
            if !is_init {
                check_ports(&container, errors);
            }
        }
    }
    check_names(spec, errors);
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
fn check_names(spec: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    // The containers that Pods get, by name: the first container of the SidecarSet that makes one of the name.
    let mut made: BTreeMap<String, Made<'_>> = BTreeMap::new();
    for list in super::LISTS {
        for (index, sidecar) in spec.list(list).iter().enumerate() {
            let name = sidecar.get("name").and_then(Value::as_str).unwrap_or_default();
            let here = Made { list, index, name };
            let names = if is_pair(sidecar, list == "initContainers") {
                Vec::from(halves(name))
            } else {
                vec![name.to_owned()]
            };
            for name in names {
                if let Some(there) = made.get(&name) {
                    here.clashes(there, &name, spec, errors);
                } else {
                    made.insert(name, here);
                }
            }
        }
    }
}

/// The container of a SidecarSet that makes a container of a Pod.
#[derive(Clone, Copy)]
struct Made<'a> {
    list: &'static str,
    index: usize,
    /// Its name in the SidecarSet.
    name: &'a str,
}

impl Made<'_> {
    fn place<'p>(&self, spec: &'p FieldPath<'p>) -> FieldPath<'p> {
        spec.item(self.list, self.index)
    }

    /// Reports that both make the container `name`, unless both are written with that name.
    fn clashes(&self, there: &Self, name: &str, spec: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
        if self.name == there.name {
            return;
        }
        let pair = if self.name == name { there } else { self };
        let wrong = format!(
            "HotUpgrade makes the container \"{name}\" of \"{}\", and spec.{}[{}] makes another one of this name; rename one \
             of them",
            pair.name, there.list, there.index,
        );
        errors.invalid(&self.place(&spec.place).child("name"), self.name, &wrong);
    }
}
