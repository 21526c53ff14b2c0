//! Which revision of a `SidecarSet` a Pod gets, and why (section 5.1).

use std::fmt;

use pillion_inject::select::Query;
use pillion_inject::select::draw::draw;
use pillion_inject::select::revision::{percentage, standing};
use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json;
use pillion_kubernetes::selector::Selector;
use pillion_sidecarset::pod::Pod;
use pillion_sidecarset::revision::Selection;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

use super::finding::{Finding, Kind};
use super::labels::{Labelled, POD};

/// The revision of a `SidecarSet` that is in effect for a Pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// The name of the stored ControllerRevision; absent for the latest, the `SidecarSet` as it stands.
    pub stored: Option<String>,
    /// Why this one.
    pub why: Why,
}

/// Why a Pod gets a revision.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// No revision is asked for (M-1).
    NotAsked,
    /// The stored revision is for every Pod (M-5).
    Always,
    /// Updates are paused, so new Pods get the stored revision too (M-3).
    UpdatesPaused,
    /// The update strategy does not select the Pod (M-4).
    NotSelected(Finding),
    /// Partial, and no partition in percent keeps Pods from the latest (M-4).
    NoPercentage,
    /// The Pod was injected with this one before (product.md, "Order and determinism").
    Standing,
    /// Drawn from the request's uid (M-4).
    Drawn {
        /// The partition: how many Pods get the stored revision.
        partition: String,
        /// What was drawn, in percent; less than the partition means the stored revision.
        drawn: f64,
    },
}

impl Why {
    /// The name, for machines.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NotAsked => "NotAsked",
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

/// Says why `query` gets `effective` of the set whose latest version is `latest`.
pub fn choice(latest: &SidecarSet, effective: &SidecarSet, query: Query<'_>) -> Revision {
    let is_latest = latest == effective;
    let revision = json::text(effective.as_value(), &["status", "latestRevision"]);
    Revision { stored: (!is_latest).then(|| revision.to_owned()), why: why(latest, effective, query, is_latest) }
}

fn why(latest: &SidecarSet, effective: &SidecarSet, query: Query<'_>, is_latest: bool) -> Why {
    if Selection::of(latest).is_none() {
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
    // The draw is told only where it decided.
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
