//! Explains which revision of a `SidecarSet` a Pod gets, and why (INJ-1 to INJ-6).

use std::fmt;

use pillion_inject::matching::Query;
use pillion_inject::matching::chosen_revision::{percentage, standing};
use pillion_inject::matching::draw::draw;
use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json;
use pillion_kubernetes::selector::Selector;
use pillion_sidecarset::pod::Pod;
use pillion_sidecarset::requested_revision::RequestedRevision;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

use super::finding::{Finding, Kind};
use super::labels::{Labelled, POD};

/// The revision of a `SidecarSet` that is in effect for a Pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// The name of the stored ControllerRevision; absent for the latest version, which is the `SidecarSet` itself.
    pub stored: Option<String>,
    /// The reason for this revision.
    pub why: Why,
}

/// The reason for a revision.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// No revision is asked for (INJ-1).
    NotAsked,
    /// The version before the latest one is asked for, and none is known (DIFF-30).
    NoEarlierVersion,
    /// The stored revision is for every Pod (INJ-5).
    Always,
    /// Updates are paused, so new Pods get the stored revision too (INJ-3).
    UpdatesPaused,
    /// The update strategy does not select the Pod (INJ-4).
    NotSelected(Finding),
    /// The policy is Partial, and no partition in percent keeps Pods from the latest version (INJ-4).
    NoPercentage,
    /// The Pod was injected with this revision before (ORDER-2).
    Standing,
    /// Drawn from the request's uid (INJ-4).
    Drawn {
        /// The partition: the share of Pods that get the stored revision.
        partition: String,
        /// The drawn number, in percent. If it is less than the partition, the Pod gets the stored revision.
        drawn: f64,
    },
}

impl Why {
    /// Returns the name for machines.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NotAsked => "NotAsked",
            Self::NoEarlierVersion => "NoEarlierVersion",
            Self::Always => "Always",
            Self::UpdatesPaused => "UpdatesPaused",
            Self::NotSelected(_) => "NotSelected",
            Self::NoPercentage => "NoPercentage",
            Self::Standing => "Standing",
            Self::Drawn { .. } => "Drawn",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked => f.write_str("spec.injectionStrategy.revision names none"),
            Self::NoEarlierVersion => f.write_str("no earlier version of this SidecarSet is known"),
            Self::Always => f.write_str("spec.injectionStrategy.revision asks for it"),
            Self::UpdatesPaused => f.write_str("spec.updateStrategy.paused is true"),
            Self::NotSelected(finding) => write!(f, "{finding}"),
            Self::NoPercentage => f.write_str("policy Partial, and spec.updateStrategy.partition is no percentage"),
            Self::Standing => f.write_str("the Pod was injected with it before"),
            Self::Drawn { partition, drawn } => {
                write!(f, "{partition} of Pods get the stored revision; this request's uid draws {drawn:.1}%")
            }
        }
    }
}

/// Returns the revision that `query` gets, with the reason. `latest` is the latest version of the set, `effective` the
/// one in effect.
pub fn choice(latest: &SidecarSet, effective: &SidecarSet, query: Query<'_>) -> Revision {
    let is_latest = latest == effective;
    let revision = json::text(effective.as_value(), &["status", "latestRevision"]);
    let why = match why(latest, effective, query, is_latest) {
        why if is_latest && is_for_an_earlier_version(&why, latest, query) => Why::NoEarlierVersion,
        why => why,
    };
    Revision { stored: (!is_latest).then(|| revision.to_owned()), why }
}

/// Whether the Pod would get the version before the latest one for this reason.
fn is_for_an_earlier_version(why: &Why, latest: &SidecarSet, query: Query<'_>) -> bool {
    RequestedRevision::from_sidecar_set(latest) == Some(RequestedRevision::Previous)
        && match why {
            Why::UpdatesPaused | Why::NotSelected(_) => true,
            Why::Standing => standing([latest, latest], query.pod).is_none(),
            _ => false,
        }
}

fn why(latest: &SidecarSet, effective: &SidecarSet, query: Query<'_>, is_latest: bool) -> Why {
    if RequestedRevision::from_sidecar_set(latest).is_none() {
        return Why::NotAsked;
    }
    let text = |path: &[&str]| latest.spec(path).and_then(Value::as_str);
    if json::flag(latest.as_value(), &["spec", "updateStrategy", "paused"]) {
        return Why::UpdatesPaused;
    }
    if text(&["injectionStrategy", "revision", "policy"]) != Some("Partial") {
        return Why::Always;
    }
    if let Some(finding) = not_selected(latest, query.pod) {
        return Why::NotSelected(finding);
    }
    let Some(partition) = text(&["updateStrategy", "partition"]) else { return Why::NoPercentage };
    // The draw is reported only if it made the decision.
    let drawn = draw(query.uid, latest.name());
    let takes_latest = percentage(partition).is_none_or(|share| drawn >= share);
    if takes_latest != is_latest || standing([effective, effective], query.pod).is_some() {
        return Why::Standing;
    }
    Why::Drawn { partition: partition.to_owned(), drawn: drawn * 100.0 }
}

fn not_selected(set: &SidecarSet, pod: Pod<'_>) -> Option<Finding> {
    let selector = Selector::parse(set.spec(&["updateStrategy", "selector"])?).ok()?;
    let labelled = Labelled { name: POD, labels: pod.labels(), kind: Kind::PodLabel };
    labelled.unsatisfied(&selector, &FieldPath::new("spec.updateStrategy.selector")).into_iter().next()
}
