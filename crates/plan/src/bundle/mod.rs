//! The bundle that a controller keeps for the policy (product.md, `settings.bundleRef`): which SidecarSets of the cluster
//! are in it, in which version, and what has to be written for that.
//!
//! A SidecarSet that is not valid never takes a valid one out of the bundle, not even its own version before. Nothing is
//! frozen, either: where the SidecarSets get too long for their ConfigMaps, those stay out that came last.

mod candidate;
mod condition;
mod judge;
mod write;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::Step;
use pillion_admission::settings::Settings;
use pillion_bundle::config_map;
use pillion_bundle::source::{BundleSource, ConfigMapName};
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::sidecar_set::SidecarSet;

pub use self::candidate::wanted_revisions;
pub use self::condition::{CONDITION, condition};
pub use self::write::belongs;

/// How often the time of a bundle is renewed, in seconds, where nothing in it changes.
const TOUCH: i64 = 120;
/// A bundle may be as old as so many times the interval at which its time is renewed.
const TOUCHES: i64 = 3;
const SECOND: i64 = 1_000_000_000;

/// What was seen.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    /// Where the bundle is kept.
    pub at: &'a ConfigMapName,
    /// The SidecarSets of the cluster, as the API server has them in either version.
    pub sidecar_sets: &'a [Arc<Value>],
    /// Their ControllerRevisions in the settings' `systemNamespace`. Those that [`wanted_revisions`] names have `data`.
    pub revisions: &'a [ControllerRevision],
    /// The ConfigMaps that are there of those that [`belongs`] says yes to.
    pub config_maps: &'a [Arc<Value>],
    /// The ConfigMap with the whitelist of `patchPodMetadata`, where there is one.
    pub whitelist: Option<&'a Value>,
    /// The policy's settings.
    pub settings: &'a Settings,
    /// The time.
    pub now: Timestamp,
    /// The longest bundle for one ConfigMap, in bytes ([`config_map::TEXT_MAX`]).
    pub max: usize,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What to write, in this order. Where something was made, the plan has to be made anew before more can be written.
    pub steps: Vec<Step>,
    /// What there is to say of each SidecarSet, by name; true once `steps` are done.
    pub verdicts: Vec<Verdict>,
    /// Why nothing can be written, where that is so.
    pub obstacle: Option<Obstacle>,
    /// When the plan has to be made anew even if nothing changes: the bundle gets old.
    pub look_again: Timestamp,
    /// The length of the texts of the bundle, in bytes.
    pub length: usize,
}

/// Where a SidecarSet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// In the bundle, as it is.
    In,
    /// In the bundle, in a version before this one.
    Kept,
    /// Not in the bundle.
    Out,
}

/// Why a SidecarSet is where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// Nothing is wrong with it.
    Current,
    /// It would not have been admitted.
    Invalid,
    /// The policy's settings have a SidecarSet of this name, which is not looked for in the cluster.
    InSettings,
    /// There is no room for it.
    TooLong,
}

impl Why {
    /// One word, for conditions, events and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Current => "Current",
            Self::Invalid => "Invalid",
            Self::InSettings => "InSettings",
            Self::TooLong => "TooLong",
        }
    }
}

/// What there is to say of a SidecarSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its name.
    pub name: String,
    /// Its `metadata.uid`.
    pub uid: String,
    /// Where it is.
    pub place: Place,
    /// Why.
    pub why: Why,
    /// The hash of the version that is in the bundle, which the Pods have that are injected with it; empty where none is.
    pub hash: String,
    /// Why, for people.
    pub message: String,
}

/// Why nothing can be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// A ConfigMap of a name that is needed was made by somebody else for something else.
    #[error(
        "ConfigMap \"{namespace}/{name}\" is not Pillion's and holds no bundle; delete it, or name another in settings.bundleRef"
    )]
    Foreign {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// What is in the bundle already has no room in it any more.
    #[error("{0}")]
    TooLong(#[from] config_map::TooLong),
}

/// The SidecarSets that these ConfigMaps of a bundle hold now, by name, as the policy has them from there.
pub fn stored(at: &ConfigMapName, config_maps: &[Arc<Value>]) -> Vec<SidecarSet> {
    write::sets(at, config_maps).into_values().collect()
}

/// Makes the plan.
pub fn plan(seen: Seen<'_>) -> Plan {
    let before = write::sets(seen.at, seen.config_maps);
    let own = judge::of_settings(seen.settings);
    let mut judged = judge::judge(candidate::all(seen), &before, &own, seen);
    let look_again = |time: Timestamp| Timestamp(time.0.saturating_add(interval(&seen.settings.bundle_source)));
    let config_maps = match fitting(&mut judged, seen) {
        Ok(config_maps) => config_maps,
        Err(error) => return obstructed(error.into(), look_again(seen.now)),
    };
    match write::steps(&config_maps, seen, interval(&seen.settings.bundle_source)) {
        Ok((steps, time)) => Plan {
            steps,
            verdicts: judged.verdicts(),
            obstacle: None,
            look_again: look_again(time),
            length: write::length(&config_maps),
        },
        Err(obstacle) => obstructed(obstacle, look_again(seen.now)),
    }
}

/// A plan that says only what is in the way. Nobody can say then what will be in the bundle.
fn obstructed(obstacle: Obstacle, look_again: Timestamp) -> Plan {
    Plan { steps: Vec::new(), verdicts: Vec::new(), obstacle: Some(obstacle), look_again, length: 0 }
}

/// The ConfigMaps of what was judged, where need be without the changes that came last.
fn fitting(judged: &mut judge::Judged, seen: Seen<'_>) -> Result<Vec<Value>, config_map::TooLong> {
    let of = |sets: BTreeMap<String, SidecarSet>| {
        let sets: Vec<SidecarSet> = sets.into_values().collect();
        config_map::write(seen.at, &sets, seen.now, seen.max)
    };
    let error = match of(judged.sets_with(usize::MAX)) {
        Ok(config_maps) => return Ok(config_maps),
        Err(error) => error,
    };
    // The most changes that fit: none may not, all do not.
    let (mut fits, mut too_many) = (None, judged.changes());
    let mut next = 0;
    while next < too_many {
        match of(judged.sets_with(next)) {
            Ok(config_maps) => fits = Some((next, config_maps)),
            Err(_) => too_many = next,
        }
        next = fits.as_ref().map_or(too_many, |(count, _)| usize::midpoint(*count, too_many).max(count + 1));
    }
    let (count, config_maps) = fits.ok_or_else(|| error.clone())?;
    judged.keep(count, &error);
    Ok(config_maps)
}

/// How often the time of a bundle has to be renewed, in seconds.
fn interval(source: &BundleSource) -> i64 {
    (source.max_age.0 / SECOND / TOUCHES).clamp(1, TOUCH)
}
