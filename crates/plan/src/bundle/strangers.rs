//! SidecarSets of the bundle that merge, match the same Pods, and do not trust each other (TRUST-2).
//!
//! A SidecarSet that is in the bundle stays there when a rule becomes stricter. Its condition says what its Pods meet.

use std::collections::BTreeMap;

use pillion_admission::settings::Settings;
use pillion_identity::declared::Declared;
use pillion_identity::partners::{self, Side};
use pillion_identity::rules::Otherwise;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::validation::conflicts::{Claims, are_related};

use super::COMPARISONS_MAX;

/// Returns what is to be said of SidecarSets, by name: the first one with which each of them would have to share an
/// account, and does not. `all` are the SidecarSets of the bundle and of the settings.
pub(super) fn remarks<'a>(all: impl Iterator<Item = &'a SidecarSet>, settings: &Settings) -> BTreeMap<&'a str, String> {
    let mut remarks = BTreeMap::new();
    let rules = &settings.service_accounts;
    if !settings.gates.service_account_injection || rules.merge_cluster_sets {
        return remarks;
    }
    let merging: Vec<(Claims<'_>, Declared)> = all.filter_map(merging).collect();
    let pairs =
        merging.iter().enumerate().flat_map(|(index, one)| merging.iter().take(index).map(move |other| (one, other)));
    let what_happens = match rules.on_conflict {
        Otherwise::Deny => "are refused",
        Otherwise::Skip => "get no ServiceAccount of theirs",
    };
    for ((one, declared), (other, theirs)) in pairs.take(COMPARISONS_MAX) {
        let (set, their_set) = (one.set, other.set);
        let side = Side { name: set.name(), declared, origin: set.origin() };
        let their_side = Side { name: their_set.name(), declared: theirs, origin: their_set.origin() };
        if declared.service_account == theirs.service_account
            || side.trusts(&their_side)
            || are_related(set, their_set)
            || !one.may_meet(other)
        {
            continue;
        }
        for (name, stranger) in [(set.name(), their_set.name()), (their_set.name(), set.name())] {
            remarks.entry(name).or_insert_with(|| {
                format!(
                    "; Pods that SidecarSet \"{stranger}\" matches, too, {what_happens}: the two do not trust each other with a \
                     merged ServiceAccount; {}",
                    partners::remedy(&side, &their_side)
                )
            });
        }
    }
    remarks
}

/// Returns a set that shares a merged account where others of another account match.
fn merging(set: &SidecarSet) -> Option<(Claims<'_>, Declared)> {
    let declared = Declared::from_sidecar_set(set).ok()?;
    declared.merges().then(|| (Claims::from_sidecar_set(set), declared))
}
