//! The SidecarSets of `sidecarSets` that a new Pod needs, before the settings are decoded.

use std::collections::BTreeSet;

use pillion_kubernetes::json::{Budget, Object, Partial};
use pillion_sidecarset::sidecar_set::compiled::CompiledSet;
use pillion_sidecarset::sidecar_set::decode::decode;
use pillion_sidecarset::sidecar_set::{SidecarSet, weight};

use super::manifests;

/// Returns the SidecarSets that may match a new Pod in this namespace with these labels, chosen as from a bundle. Of the
/// other manifests, only the heads ([`HEAD`](pillion_sidecarset::sidecar_set::compiled::HEAD)) are checked.
///
/// Returns `None` if anything about a head, a name or a chosen manifest is wrong. Whoever decodes all manifests finds
/// the errors.
pub fn matching(
    manifests: &Partial<'_>,
    budget: &Budget,
    namespace: &str,
    labels: Option<&Object>,
) -> Option<Vec<SidecarSet>> {
    let Partial::Items(manifests) = manifests else { return None };
    let mut names = BTreeSet::new();
    let mut chosen = Vec::new();
    for manifest in manifests {
        let head = decode(manifest.parsed()?).ok()?.into_sidecar_set();
        if CompiledSet::new(&head).may_match(namespace, labels) {
            chosen.push(manifests::sidecar_set(manifest.clone().complete(budget).ok()?).ok()?);
        }
        if !names.insert(head.name().to_owned()) {
            return None;
        }
    }
    (!weight::is_too_dense(&chosen) && !weight::has_too_long_expressions(&chosen)).then_some(chosen)
}
