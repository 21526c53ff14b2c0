//! SidecarSets of the bundle of which a Pod would get two containers of one name (VAL-52, DIFF-4).
//!
//! A SidecarSet that is in the bundle stays there when a rule becomes stricter. Its condition says what its Pods meet.

use std::collections::{BTreeMap, BTreeSet};

use pillion_sidecarset::made::REMEDY;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::validation::conflicts::{Claims, Kind};

use super::COMPARISONS_MAX;

/// Returns what is to be said of SidecarSets, by name: the first one that has a container of the same name for the same
/// Pods. `all` are the SidecarSets of the bundle and of the settings.
pub(super) fn remarks<'a>(all: impl Iterator<Item = &'a SidecarSet>) -> BTreeMap<&'a str, String> {
    let claims: Vec<Claims<'a>> = all.map(Claims::from_sidecar_set).collect();
    let mut users: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, claims) in claims.iter().enumerate() {
        for (_, name) in claims.names().filter(|(kind, _)| *kind == Kind::Container) {
            users.entry(name).or_default().push(index);
        }
    }
    let pairs = users.values().flat_map(|users| {
        let before = |position| users.iter().take(position);
        users.iter().enumerate().flat_map(move |(position, one)| before(position).map(move |other| (*one, *other)))
    });
    let pairs: BTreeSet<(usize, usize)> = pairs.take(COMPARISONS_MAX).collect();
    let mut remarks = BTreeMap::new();
    for (one, other) in pairs.into_iter().filter_map(|(one, other)| claims.get(one).zip(claims.get(other))) {
        let Some(container) = one.shared_container(other) else { continue };
        for (set, rival) in [(one.set, other.set), (other.set, one.set)] {
            remarks.entry(set.name()).or_insert_with(|| {
                format!(
                    "; Pods that SidecarSet \"{}\" matches, too, are refused: both have a container \"{container}\"; {REMEDY}",
                    rival.name()
                )
            });
        }
    }
    remarks
}
