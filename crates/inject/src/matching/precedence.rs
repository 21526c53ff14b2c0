//! Which of the `SidecarSet`s that match a Pod stand aside for others (MATCH-8, TRUST-3, TRUST-4).

use std::collections::BTreeSet;
use std::fmt;

use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::sidecar_set::compiled::CompiledSet;

/// A `SidecarSet` of the cluster that matches a Pod and gives way to one of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The name of the set.
    pub sidecar_set: String,
    /// The reason.
    pub why: GivesWay,
}

/// Why a `SidecarSet` of the cluster gives way to one of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GivesWay {
    /// The set of the settings has the same name (TRUST-3).
    Name,
    /// The set of the settings is its base, of which it is a canary (TRUST-4).
    Base(String),
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.sidecar_set;
        match &self.why {
            GivesWay::Name => write!(
                f,
                "SidecarSet \"{name}\" of the cluster is left out: the policy's settings have a SidecarSet of this name; \
                 rename or delete it"
            ),
            GivesWay::Base(base) => write!(
                f,
                "SidecarSet \"{name}\" of the cluster is left out: its base \"{base}\" is a SidecarSet of the policy's \
                 settings, which only a canary of the settings replaces"
            ),
        }
    }
}

/// Whether `canary` takes the place of `base` where both match (MATCH-8). A canary of the cluster never replaces a set of
/// the settings (TRUST-4).
pub fn replaces(canary: &CompiledSet<'_>, base: &CompiledSet<'_>) -> bool {
    canary.canary_of == Some(base.name) && (canary.is_of_settings() || !base.is_of_settings())
}

/// Returns why a set gives way, if it does. `of_settings` are the names of the sets of the settings that match the Pod.
fn gives_way(set: &CompiledSet<'_>, of_settings: &BTreeSet<&str>) -> Option<GivesWay> {
    if set.is_of_settings() {
        return None;
    }
    if of_settings.contains(set.name) {
        return Some(GivesWay::Name);
    }
    set.canary_of.filter(|base| of_settings.contains(base)).map(|base| GivesWay::Base(base.to_owned()))
}

fn names_of_settings<'s>(matched: &[&CompiledSet<'s>]) -> BTreeSet<&'s str> {
    matched.iter().filter(|set| set.is_of_settings()).map(|set| set.name).collect()
}

/// Returns the names of those of the matching sets that are in effect: they neither give way nor have a canary.
pub fn in_effect<'s>(matched: &[&CompiledSet<'s>]) -> BTreeSet<&'s str> {
    let of_settings = names_of_settings(matched);
    let standing = || matched.iter().filter(|set| gives_way(set, &of_settings).is_none());
    let bases: BTreeSet<&str> = standing().filter_map(|set| set.canary_of).collect();
    standing().map(|set| set.name).filter(|name| !bases.contains(name)).collect()
}

/// Returns the matching sets without those of the cluster that give way to one of the settings. Two sets of one name and
/// one origin are a reason to refuse the Pod.
pub(super) fn standing<'a, 's>(
    matched: Vec<&'a CompiledSet<'s>>,
    (left_out, reasons): (&mut Vec<LeftOut>, &mut Vec<Reason>),
) -> Vec<&'a CompiledSet<'s>> {
    let of_settings = names_of_settings(&matched);
    let (mut names, mut left) = (BTreeSet::new(), Vec::with_capacity(matched.len()));
    for set in matched {
        if let Some(why) = gives_way(set, &of_settings) {
            left_out.push(LeftOut { sidecar_set: set.name.to_owned(), why });
            continue;
        }
        if !names.insert(set.name) {
            reasons.push(
                Reason::forbidden(
                    "metadata.name",
                    "two SidecarSets of this name match the Pod".to_owned(),
                    "remove it from the policy's settings, or rename one of them",
                )
                .about(set.name),
            );
        }
        left.push(set);
    }
    left
}
