//! Volumes that two SidecarSets share in one Pod (IDC-11).
//!
//! Pillion adds a volume to a Pod once for all SidecarSets that define it, and every container that mounts the name gets
//! it. A container that writes into a volume of a set with an account decides what runs under that account: it can
//! replace its configuration and programs. So such a volume is shared only between sets that trust each other.

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::field::{FieldError, FieldErrors, FieldPath};
use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::pod;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::validation::conflicts::{Reach, are_related, is_same_volume};
use serde_json::Value;

use super::content;
use super::declared::{Declared, PARTNERS, path};
use super::partners::{Origin, Side};

/// The sources of volumes that the kubelet fills and that no container can write into (core/v1).
const READ_ONLY: [&str; 5] = ["configMap", "secret", "downwardAPI", "projected", "image"];

/// The most pairs of SidecarSets that are reported for one Pod.
const PAIRS_MAX: usize = 100;

/// A volume that the containers of a SidecarSet use.
#[derive(Clone, Debug)]
struct Use<'a> {
    /// The definition in the set, with its index; `None` if the set leaves it to the Pod or to another set.
    definition: Option<(usize, &'a Value)>,
    /// The path of the first container that uses it.
    container: String,
}

impl Use<'_> {
    /// Returns the path of the definition, or else of the container.
    fn path(&self) -> String {
        match self.definition {
            Some((index, _)) => FieldPath::new("spec").item("volumes", index).to_string(),
            None => self.container.clone(),
        }
    }
}

/// The volumes that the containers of a SidecarSet use, by name. A volume that no container uses is not injected
/// (INJ-26).
#[derive(Clone, Debug, Default)]
pub struct Used<'a>(BTreeMap<&'a str, Use<'a>>);

impl<'a> Used<'a> {
    /// Reads one version of a SidecarSet. Of several definitions with one name, the last counts (INJ-26).
    pub fn from_sidecar_set(set: &'a SidecarSet) -> Self {
        let defined: BTreeMap<_, _> =
            set.volumes().iter().enumerate().map(|(index, volume)| (pod::name(volume), (index, volume))).collect();
        let mut used = BTreeMap::new();
        for (at, container) in content::containers(set) {
            for name in pod::used_volumes(container) {
                used.entry(name)
                    .or_insert_with(|| Use { definition: defined.get(name).copied(), container: at.clone() });
            }
        }
        Self(used)
    }

    /// Returns the names of all volumes that are used.
    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        self.0.keys().copied()
    }

    /// Returns the names of the volumes that are used and defined.
    pub fn defined(&self) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(|(_, of)| of.definition.is_some()).map(|(name, _)| *name)
    }
}

/// A SidecarSet that may be in one Pod with others, and the volumes that it uses in one of its versions.
#[derive(Clone, Copy, Debug)]
pub struct Party<'a> {
    /// Its name, identity and origin.
    pub side: Side<'a>,
    /// Its volumes.
    pub used: &'a Used<'a>,
    /// Whether it has an identity.
    pub is_owner: bool,
}

impl Party<'_> {
    /// Whether both use the volume of this name although one of them has an identity. Does not ask whether they trust
    /// each other.
    ///
    /// They may share a volume that neither of them defines: it is the Pod's. And they may share one that no container
    /// can write into, if its definition is that of the set with the identity.
    fn clash_over(&self, other: &Party<'_>, name: &str) -> bool {
        let Some((own, theirs)) = self.used.0.get(name).zip(other.used.0.get(name)) else { return false };
        let is_read_only = |volume: &Value| {
            let kinds =
                volume.as_object().into_iter().flatten().filter(|(key, value)| *key != "name" && !value.is_null());
            let mut kinds = kinds.map(|(kind, _)| kind.as_str()).peekable();
            kinds.peek().is_some() && kinds.all(|kind| READ_ONLY.contains(&kind))
        };
        let is_harmless = match (own.definition, theirs.definition) {
            (None, None) => true,
            (Some((_, own)), Some((_, theirs))) => is_read_only(own) && is_same_volume(own, theirs),
            (Some((_, own)), None) => is_read_only(own) && !other.is_owner,
            (None, Some((_, theirs))) => is_read_only(theirs) && !self.is_owner,
        };
        (self.is_owner || other.is_owner) && !is_harmless
    }

    /// Returns the names of the volumes that both use although one of them has an identity and they do not trust each
    /// other.
    pub fn clashes<'n>(&self, other: &Party<'n>) -> Vec<&'n str> {
        if !(self.is_owner || other.is_owner) || self.side.name == other.side.name {
            return Vec::new();
        }
        let clashes: Vec<&str> = other.used.names().filter(|name| self.clash_over(other, name)).collect();
        // Most sets share no volume, so look at the partners last.
        if clashes.is_empty() || self.side.trusts(&other.side) { Vec::new() } else { clashes }
    }

    /// Describes a clash over a volume from the view of this set.
    pub fn problem_and_remedy(&self, other: &Party<'_>, volume: &str) -> (String, String) {
        let owner = if other.is_owner { other.side.name } else { self.side.name };
        let problem = format!(
            "SidecarSet \"{}\" uses the volume \"{volume}\" in the same Pods, and what is in a volume of \"{owner}\" decides \
             what runs under its ServiceAccount",
            other.side.name,
        );
        let remedy = format!(
            "rename the volume, or let \"{}\" and \"{}\" name each other in {}",
            self.side.name,
            other.side.name,
            path(PARTNERS)
        );
        (problem, remedy)
    }

    fn path_of(&self, volume: &str) -> String {
        self.used.0.get(volume).map(Use::path).unwrap_or_default()
    }
}

/// Returns a reason for each two of the SidecarSets of a Pod that share a volume although one of them has an identity and
/// they do not trust each other. Stops at [`PAIRS_MAX`] reasons (E18).
pub fn in_pod(parties: &[Party<'_>]) -> Vec<Reason> {
    let mut users: BTreeMap<&str, Vec<&Party<'_>>> = BTreeMap::new();
    for party in parties {
        for name in party.used.names() {
            users.entry(name).or_default().push(party);
        }
    }
    let mut reasons = Vec::new();
    let mut judged = BTreeSet::new();
    for (volume, users) in users.iter().filter(|(_, users)| users.iter().any(|user| user.is_owner)) {
        for (index, one) in users.iter().enumerate() {
            for other in users.iter().skip(index + 1) {
                // What is wrong is told to the set without an identity.
                let (own, theirs) = if one.is_owner { (other, one) } else { (one, other) };
                if own.side.is_of_settings_with(&theirs.side)
                    || !own.clash_over(theirs, volume)
                    || !judged.insert((own.side.name, theirs.side.name))
                    || own.side.trusts(&theirs.side)
                {
                    continue;
                }
                let (problem, remedy) = own.problem_and_remedy(theirs, volume);
                reasons.push(Reason::forbidden(own.path_of(volume), problem, &remedy).about(own.side.name));
                if reasons.len() >= PAIRS_MAX {
                    return reasons;
                }
            }
        }
    }
    reasons
}

/// The versions of a SidecarSet that Pods may get, as far as they are known: the present one, and the stored one that it
/// requests (INJ-1).
pub struct Versions<'a> {
    set: &'a SidecarSet,
    stored: Option<SidecarSet>,
}

impl<'a> Versions<'a> {
    /// Returns the versions of a set. `stored` is the one that it requests, if it is known.
    pub fn new(set: &'a SidecarSet, stored: Option<SidecarSet>) -> Self {
        Self { set, stored }
    }

    /// Returns the versions of a set that comes from a bundle, which has the stored version, too.
    pub fn bundled(set: &'a SidecarSet) -> Self {
        let stored = set.revision().and_then(|revision| content::version(set, &revision));
        Self { set, stored }
    }

    /// Returns the volumes of each version.
    pub fn used(&self) -> Vec<Used<'_>> {
        [Some(self.set), self.stored.as_ref()].into_iter().flatten().map(Used::from_sidecar_set).collect()
    }
}

/// A SidecarSet that is compared with others before there is a Pod.
pub struct Compared<'a> {
    set: &'a SidecarSet,
    declared: &'a Declared,
    origin: Origin,
    used: &'a [Used<'a>],
    /// The Pods that it selects. The selectors are parsed once, however many sets it is compared with (E18).
    reach: Reach<'a>,
}

impl<'a> Compared<'a> {
    /// Returns a set with these identity fields and this origin. `used` are the volumes of each version.
    pub fn new(set: &'a SidecarSet, declared: &'a Declared, origin: Origin, used: &'a [Used<'a>]) -> Self {
        Self { set, declared, origin, used, reach: Reach::from_sidecar_set(set.as_value()) }
    }

    /// Whether this set and one with these volumes use a volume of the same name.
    pub fn shares_a_name(&self, theirs: &[Used<'_>]) -> bool {
        let mut names = theirs.iter().flat_map(Used::names);
        names.any(|name| self.used.iter().any(|own| own.0.contains_key(name)))
    }

    fn parties(&self) -> impl Iterator<Item = Party<'_>> {
        let Self { set, declared, origin, used, .. } = *self;
        let side = Side { name: set.name(), declared, origin };
        used.iter().map(move |used| Party { side, used, is_owner: declared.service_account.is_some() })
    }

    /// Returns an error for each volume of this set over which it clashes with another one, if both can be in one Pod.
    pub fn check(&self, other: &Compared<'_>, errors: &mut Vec<FieldError>) {
        if errors.is_full() || are_related(self.set, other.set) {
            return;
        }
        let mut found = BTreeMap::new();
        for own in self.parties() {
            for theirs in other.parties() {
                for volume in own.clashes(&theirs) {
                    found
                        .entry((own.path_of(volume), volume))
                        .or_insert_with(|| own.problem_and_remedy(&theirs, volume));
                }
            }
        }
        // Comparing the selectors is expensive, so it comes last.
        if found.is_empty() || !self.reach.may_meet(&other.reach) {
            return;
        }
        for ((at, volume), (problem, remedy)) in found {
            if !errors.is_full() {
                errors.push(FieldError::invalid(at, volume, format!("{problem}; {remedy}")));
            }
        }
    }
}

#[cfg(test)]
mod tests;
