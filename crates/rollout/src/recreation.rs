//! Whether a Pod may be evicted (ROLL-66 to ROLL-68): what that depends on beyond the Pod and the version.

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::time::Timestamp;

use crate::method::Obstacle;
use crate::owner::recreates;
use crate::pod::Pod;

/// The annotation of a static Pod.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// How long new Pods may lack a version that is in force, in seconds: admission reads SidecarSets from caches. Nothing is
/// evicted for a version before.
pub const SETTLING: i64 = 10;

/// What is known about evictions of the Pods of a SidecarSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recreation {
    /// The namespaces in which no Pod is evicted.
    pub protected: BTreeSet<String>,
    /// A Pod that was created at this time or later has the version; `None` if it is not known since when it is in force.
    pub expected_after: Option<Timestamp>,
    /// Whether the version is in force for so short a time that new Pods may lack it. Then no Pod is evicted.
    pub is_early: bool,
    /// The workloads, by UID, whose new Pods do not get the version, each with the reason.
    pub not_injected: BTreeMap<String, String>,
    /// The Pods, by UID, that are not evicted for now: a PodDisruptionBudget forbids it.
    pub held: BTreeSet<String>,
    /// The number of evicted Pods whose replacements do not exist yet. They count as matched and as unavailable.
    pub missing: usize,
}

impl Recreation {
    /// Adds since when the version is in force.
    #[must_use]
    pub fn in_force(self, since: Option<Timestamp>, now: Timestamp) -> Self {
        let expected_after = since.map(|since| Timestamp(since.0.saturating_add(SETTLING)));
        let is_early = expected_after.is_none_or(|settled| now < settled);
        Self { expected_after, is_early, ..self }
    }

    /// Returns how many seconds to wait until Pods may be evicted; `None` if they may be.
    pub fn settles_in(&self, now: Timestamp) -> Option<u64> {
        let left = self.expected_after?.0.saturating_sub(now.0);
        u64::try_from(left).ok().filter(|left| self.is_early && *left > 0)
    }

    /// Checks whether a Pod without the version may be evicted for it.
    ///
    /// # Errors
    /// Why it may not.
    pub fn check(&self, pod: &Pod) -> Result<(), Obstacle> {
        if pod.metadata.annotations.contains_key(MIRROR) {
            return Err(Obstacle::StaticPod);
        }
        let owner = pod.metadata.owner.as_deref().ok_or(Obstacle::NoController)?;
        if !recreates(&owner.api_version, &owner.kind) {
            return Err(Obstacle::OtherController { kind: owner.kind.clone() });
        }
        if self.protected.contains(&pod.metadata.namespace) {
            return Err(Obstacle::ProtectedNamespace);
        }
        let created = pod.metadata.creation_timestamp.map(|created| created.0);
        if self.expected_after.is_some_and(|settled| created.is_some_and(|created| created >= settled)) {
            return Err(Obstacle::NewPodLacksVersion);
        }
        match self.not_injected.get(&owner.uid) {
            Some(why) => Err(Obstacle::NotInjected { why: why.clone() }),
            None => Ok(()),
        }
    }
}
