//! The controllers and their rights.

use std::collections::BTreeSet;

use pillion_controllers::registry::{ALL, Name};
use pillion_runtime::rights::{Right, Situation};
use serde_json::{Value, json};

use super::super::access::Grant;
use super::super::controller::rights::{self, includes};
use super::NAME;

/// A right of a controller, and the other controllers whose rights include it.
struct Held {
    right: Right,
    /// Whether the controller needs it only to read the whitelist.
    only_for_whitelist: bool,
    included_in: BTreeSet<Name>,
}

fn held(name: Name, reads_whitelist: bool) -> Vec<Right> {
    name.rights(&Situation { reads_whitelist })
}

/// Returns the rights of a controller. Of equal rights of two controllers, the first controller has it.
fn held_by(name: Name) -> Vec<Held> {
    let always = held(name, false);
    let all = held(name, true);
    let kept = all.iter().enumerate().filter(|(at, right)| {
        let others = all.iter().enumerate().filter(|(other, _)| other != at);
        !others.into_iter().any(|(other, wider)| includes(wider, right) && (!includes(right, wider) || other < *at))
    });
    kept.map(|(_, right)| {
        let is_wider = |other: Name, wider: &Right| includes(wider, right) && (!includes(right, wider) || other < name);
        let included_in = ALL.iter().copied().filter(|other| *other != name);
        let included_in = included_in.filter(|other| held(*other, true).iter().any(|wider| is_wider(*other, wider)));
        Held { right: right.clone(), only_for_whitelist: !always.contains(right), included_in: included_in.collect() }
    })
    .collect()
}

/// Returns the data.
pub fn data() -> Value {
    let controllers = ALL.iter().map(|name| {
        let rights: Vec<Value> = held_by(*name).iter().map(described).collect();
        json!({"name": name.as_str(), "byDefault": name.is_on_by_default(), "rights": rights})
    });
    let grants = |grants: &[Grant]| -> Value {
        grants.iter().map(|grant| json!({"why": grant.why(), "rule": grant.to_value()})).collect()
    };
    json!({
        "controllers": controllers.collect::<Vec<_>>(),
        "everywhere": grants(&[rights::events()]),
        "home": grants(&rights::leases(NAME)),
    })
}

fn described(held: &Held) -> Value {
    let grant = rights::grant(&held.right);
    json!({
        "scope": format!("{:?}", held.right.scope),
        "why": held.right.why,
        "rule": grant.to_value(),
        "onlyForWhitelist": held.only_for_whitelist,
        "includedIn": held.included_in.iter().map(|name| name.as_str()).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::needs::Needs;
    use super::*;

    /// For all choices of controllers, the data lead to the rights of the code.
    #[test]
    fn every_choice_of_controllers_has_its_rights() {
        let described = |right: &Right| format!("{right:?}");
        for number in 0..1_u32 << ALL.len() {
            let running: BTreeSet<Name> =
                ALL.iter().enumerate().filter(|(at, _)| number >> at & 1 == 1).map(|(_, name)| *name).collect();
            for reads_whitelist in [false, true] {
                let needs = Needs { reads_whitelist, ..Needs::default() };
                let wanted: BTreeSet<String> = rights::rights(&needs, &running).iter().map(described).collect();
                let held = running.iter().flat_map(|name| held_by(*name));
                let kept = held.filter(|held| {
                    (reads_whitelist || !held.only_for_whitelist) && held.included_in.is_disjoint(&running)
                });
                let found: BTreeSet<String> = kept.map(|held| described(&held.right)).collect();
                assert_eq!(found, wanted, "{running:?}");
            }
        }
    }
}
