//! What a round of a rollout is decided on.

use std::collections::BTreeMap;

use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::bundle::CONDITION;
use pillion_plan::condition;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use serde_json::Value;

use crate::deadline::Clock;
use crate::history::Revision;
use crate::pod::Pod;
use crate::pod::resize::Asked;
use crate::recreate::Held;
use crate::rollback::Rollback;
use crate::target::RolloutTarget;

/// A SidecarSet, its revisions and its Pods.
pub struct Observed<'a> {
    /// The custom resource in v1beta1.
    pub resource: &'a SidecarSet,
    /// The custom resource as it is in the cluster.
    pub object: &'a Value,
    /// What is rolled out.
    pub target: &'a RolloutTarget<'a>,
    /// The Pods of the SidecarSet, sorted by namespace and name; after them, those that lack its sidecar and are evicted
    /// for it (ROLL-67).
    pub pods: &'a [&'a Pod],
    /// The number of Pods of the SidecarSet.
    pub members: usize,
    /// The number of Pods that were injected with the SidecarSet and have other containers of it than the version.
    pub reshaped: usize,
    /// Whether new Pods get the version of the custom resource.
    pub bundle: BundleState,
    /// The Pods to which an upgrade was sent whose outcome is not known, by UID.
    pub uncertain: &'a BTreeMap<String, String>,
    /// For which version and which amounts the sidecars of each Pod were last compared with the app, by UID (ROLL-70).
    pub asked: &'a BTreeMap<String, Asked>,
    /// The Pods that wait for a PodDisruptionBudget.
    pub held: &'a [Held],
    /// The revision that is rolled out.
    pub revision: &'a Revision,
    /// The revisions of the SidecarSet, ascending.
    pub revisions: &'a [&'a Revision],
    /// The way back, if a rollout has failed.
    pub rollback: Option<&'a Rollback<'a>>,
    /// The clock of the deadline after the round before. After a restart, the status has it.
    pub clock: Option<&'a Clock>,
    /// The time.
    pub now: Timestamp,
}

/// Whether new Pods get the version of the custom resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BundleState {
    /// They do, or an earlier version is in force on purpose (ROLL-62).
    #[default]
    Current,
    /// The bundle does not contain the version yet.
    Behind,
    /// The bundle keeps the version before; condition `InBundle` of the SidecarSet says why.
    Refused,
}

impl BundleState {
    /// Returns the state if the bundle contains this version. `object` is the custom resource as it is in the cluster,
    /// `resource` the same in v1beta1.
    pub fn of_version(object: &Value, resource: &SidecarSet, version: &SidecarSet) -> Self {
        if prepared(resource).hash() == version.hash() {
            return Self::Current;
        }
        let is_refused = condition::find(object, CONDITION).is_some_and(|condition| {
            json::text(condition, &["status"]) == "False"
                && condition.get("observedGeneration") == json::at(object, &["metadata", "generation"])
        });
        if is_refused { Self::Refused } else { Self::Behind }
    }
}
