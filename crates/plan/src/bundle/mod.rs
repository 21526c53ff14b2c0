//! The bundle that a controller keeps for the policy (SET-1): plans which SidecarSets of the cluster are in the bundle,
//! in which version, and what has to be written.
//!
//! An invalid SidecarSet never removes a valid one from the bundle, not even its own previous version. Valid changes
//! still get in: if the SidecarSets become too long for their ConfigMaps, only the latest changes stay out.

mod candidate;
mod clashes;
mod condition;
mod judge;
mod kubernetes;
mod strangers;
mod write;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::Step;
use pillion_admission::settings::Settings;
use pillion_bundle::Memo;
use pillion_bundle::config_map;
use pillion_bundle::source::{BundleSource, ConfigMapName};
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::sidecar_set::SidecarSet;

pub use self::candidate::wanted_revisions;
pub use self::condition::{CONDITION, condition};
pub use self::kubernetes::{KUBERNETES_TOO_OLD, too_old, too_old_condition};
pub use self::write::{belongs, current};

/// The longest interval at which an unchanged bundle's time is renewed, in seconds.
const TOUCH: i64 = 120;
/// The number of renewal intervals in the maximum age of a bundle.
const TOUCHES: i64 = 3;
const SECOND: i64 = 1_000_000_000;
/// The most pairs of SidecarSets that are compared for remarks.
const COMPARISONS_MAX: usize = 100_000;

/// The observed objects and the limits for a plan.
#[derive(Clone, Copy)]
pub struct BundleInput<'a> {
    /// The ConfigMap that holds the bundle's index.
    pub at: &'a ConfigMapName,
    /// The SidecarSets of the cluster as the API server returns them, in either API version.
    pub sidecar_sets: &'a [Arc<Value>],
    /// Their ControllerRevisions in the settings' `systemNamespace`. Those named by [`wanted_revisions`] have `data`.
    pub revisions: &'a [ControllerRevision],
    /// The existing ConfigMaps for which [`belongs`] returns true.
    pub config_maps: &'a [Arc<Value>],
    /// The ConfigMap with the whitelist of `patchPodMetadata`, if it exists.
    pub whitelist: Option<&'a Value>,
    /// The policy's settings.
    pub settings: &'a Settings,
    /// Whether the bundle also has the `sidecarSets` of the settings, because the policies' own settings lack them.
    pub with_settings: bool,
    /// The current time.
    pub now: Timestamp,
    /// The maximum length of the bundle text in one ConfigMap, in bytes ([`config_map::TEXT_MAX`]).
    pub max: usize,
    /// What was compiled and decoded before. It changes how long a plan takes, and nothing else.
    pub memo: &'a Memo,
}

/// The writes for a bundle.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The writes, in order. If a step creates an object, the plan must be made again before more can be written.
    pub steps: Vec<Step>,
    /// The verdict on each SidecarSet, sorted by name. The verdicts hold once `steps` are done.
    pub verdicts: Vec<Verdict>,
    /// Why nothing can be written, if so.
    pub obstacle: Option<Obstacle>,
    /// When the plan must be made again even if nothing changes, because the bundle's time must be renewed.
    pub look_again: Timestamp,
    /// The total length of the bundle's texts, in bytes.
    pub length: usize,
}

/// Whether a SidecarSet is in the bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BundlePlace {
    /// Its current version is in the bundle.
    In,
    /// An earlier version is in the bundle.
    Kept,
    /// Not in the bundle.
    Out,
}

/// Why a SidecarSet is in the bundle or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// Nothing is wrong with it.
    Current,
    /// It is invalid: its admission would refuse it.
    Invalid,
    /// The policy's settings have a SidecarSet of this name, or the base of this canary (TRUST-3, TRUST-4). The policy
    /// does not look for that name in the cluster.
    InSettings,
    /// The bundle has no room for it.
    TooLong,
    /// The rollout of its version has failed, so an earlier one is in force (ROLL-62).
    RolledBack,
}

impl Why {
    /// Returns the reason as one word, for conditions, events and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Current => "Current",
            Self::Invalid => "Invalid",
            Self::InSettings => "InSettings",
            Self::TooLong => "TooLong",
            Self::RolledBack => "RolledBack",
        }
    }
}

/// The verdict on a SidecarSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its name.
    pub name: String,
    /// Its `metadata.uid`.
    pub uid: String,
    /// Whether it is in the bundle.
    pub place: BundlePlace,
    /// The reason.
    pub why: Why,
    /// The hash of the version in the bundle, as recorded in Pods that are injected with it; empty if no version is in
    /// the bundle.
    pub hash: String,
    /// The reason as text for people.
    pub message: String,
}

/// Why nothing can be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// A ConfigMap with a needed name exists and is not Pillion's.
    #[error(
        "ConfigMap \"{namespace}/{name}\" is not Pillion's and holds no bundle; delete it, or name another in settings.bundleRef"
    )]
    Foreign {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The current contents of the bundle no longer fit.
    #[error("{0}")]
    TooLong(#[from] config_map::TooLong),
}

/// Returns the SidecarSets that these ConfigMaps of a bundle hold now, sorted by name, as the policy reads them.
pub fn stored(at: &ConfigMapName, config_maps: &[Arc<Value>], memo: &Memo) -> Vec<SidecarSet> {
    let sets = write::sets(at, config_maps, memo).into_values().collect();
    memo.forget_unused();
    sets
}

/// Makes the plan.
pub fn plan(seen: BundleInput<'_>) -> Plan {
    let before = write::earlier(seen.at, seen.config_maps, seen.memo);
    let own = judge::of_settings(seen.settings);
    let mut judged = judge::judge(candidate::all(seen), &before, &own, seen);
    let joining = if seen.with_settings { candidate::of_settings(seen) } else { Vec::new() };
    let look_again = |time: Timestamp| Timestamp(time.0.saturating_add(interval(&seen.settings.bundle_source)));
    let config_maps = match fitting(&mut judged, &joining, seen) {
        Ok(config_maps) => config_maps,
        Err(error) => return obstructed(error.into(), look_again(seen.now)),
    };
    match write::steps(&config_maps, seen, interval(&seen.settings.bundle_source)) {
        Ok((steps, time)) => Plan {
            steps,
            verdicts: verdicts(judged, &own, seen.settings),
            obstacle: None,
            look_again: look_again(time),
            length: write::length(&config_maps),
        },
        Err(obstacle) => obstructed(obstacle, look_again(seen.now)),
    }
}

/// Returns the verdicts. That on a SidecarSet of the bundle also names one with which it does not merge, and one with a
/// container of the same name.
fn verdicts(judged: judge::Judged, own: &[SidecarSet], settings: &Settings) -> Vec<Verdict> {
    let sets = judged.sets_with(usize::MAX);
    let strangers = strangers::remarks(sets.values().chain(own), settings);
    let clashes = clashes::remarks(sets.values().chain(own));
    let mut verdicts = judged.verdicts();
    for verdict in verdicts.iter_mut().filter(|verdict| verdict.place != BundlePlace::Out) {
        let remarks = [&strangers, &clashes].into_iter().filter_map(|remarks| remarks.get(verdict.name.as_str()));
        verdict.message.extend(remarks.map(String::as_str));
    }
    verdicts
}

/// Returns a plan with only an obstacle: the future contents of the bundle are unknown.
fn obstructed(obstacle: Obstacle, look_again: Timestamp) -> Plan {
    Plan { steps: Vec::new(), verdicts: Vec::new(), obstacle: Some(obstacle), look_again, length: 0 }
}

/// Returns the ConfigMaps of the judged sets and those that join them. If they do not fit, leaves out the latest changes
/// of the judged ones, and if the joining sets, which are those of the settings, still have no room, the youngest of the
/// judged sets (TRUST-10).
fn fitting(
    judged: &mut judge::Judged,
    joining: &[SidecarSet],
    seen: BundleInput<'_>,
) -> Result<Vec<Value>, config_map::TooLong> {
    let of = |sets: BTreeMap<String, SidecarSet>| {
        let sets: Vec<SidecarSet> = sets.into_values().chain(joining.iter().cloned()).collect();
        config_map::write_with(seen.memo, seen.at, &sets, seen.now, seen.max)
    };
    let error = match of(judged.sets_with(usize::MAX)) {
        Ok(config_maps) => return Ok(config_maps),
        Err(error) => error,
    };
    if let Some((count, config_maps)) = most(judged.changes(), |count| of(judged.sets_with(count)).ok()) {
        judged.keep(count, &error);
        return Ok(config_maps);
    }
    judged.keep(0, &error);
    let oldest =
        if joining.is_empty() { None } else { most(judged.oldest(), |count| of(judged.only_oldest(count)).ok()) };
    let (count, config_maps) = oldest.ok_or_else(|| error.clone())?;
    judged.keep_oldest(count, &error);
    Ok(config_maps)
}

/// Returns the largest number below `too_many` that fits, with what was made of it.
fn most<T>(mut too_many: usize, make: impl Fn(usize) -> Option<T>) -> Option<(usize, T)> {
    let mut fits = None;
    let mut next = 0;
    while next < too_many {
        match make(next) {
            Some(result) => fits = Some((next, result)),
            None => too_many = next,
        }
        next = fits.as_ref().map_or(too_many, |(count, _)| usize::midpoint(*count, too_many).max(count + 1));
    }
    fits
}

/// Returns the interval at which the bundle's time must be renewed, in seconds.
fn interval(source: &BundleSource) -> i64 {
    (source.max_age.0 / SECOND / TOUCHES).clamp(1, TOUCH)
}
