//! What evictions depend on beyond a Pod and a version (ROLL-66 to ROLL-68).

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::time::Timestamp;

use crate::consistency::Judged;
use crate::owner::recreates;
use crate::pod::Pod;
use crate::round::{Chosen, Round, lacks};
use crate::status::Progress;
use crate::target::Target;
use crate::way::Obstacle;

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

/// A Pod that waits for a PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its `metadata.uid`.
    pub uid: String,
    /// Its namespace and name.
    pub pod: String,
    /// What the API server says.
    pub message: String,
    /// Whether several budgets select the Pod, which no waiting solves.
    pub has_several_budgets: bool,
}

/// Returns the progress of a rollout that may evict Pods. `progress` is that of the Pods of the SidecarSet; `pods` and
/// `judged` are those of the round, in which the Pods from position `members` on lack the sidecar.
pub fn progress(
    progress: Progress,
    (target, round): (&Target<'_>, &Round),
    (pods, judged, members): (&[&Pod], &[Judged], usize),
    held: &[Held],
) -> Progress {
    if !target.upgrades.recreate || matches!(round, Round::Reset(_)) {
        return with_obstacle(progress, target, round, pods);
    }
    let is_at_rest = matches!(progress.reason, "Paused" | "NotUpdate" | "InvalidStrategy");
    if is_at_rest {
        return progress;
    }
    let numbers = progress.message.as_str();
    let mut new = pods.iter().zip(judged).filter(|(pod, judged)| lacks(target, pod, **judged)).map(|(pod, _)| pod);
    if let Some(first) = new.next() {
        let more = new.count();
        let more = if more == 0 { String::new() } else { format!(", nor do {more} others") };
        let name = named(first);
        return Progress::stalled(
            "NewPodsLackVersion",
            format!(
                "Pod \"{name}\" was created after this version came into force, and does not have it{more}; no Pod is \
                 evicted until the Pod is gone or has it; check that admission injects new Pods, and that \
                 injectionStrategy neither is paused nor names another revision; {numbers}"
            ),
        );
    }
    if let Some(several) = held.iter().find(|held| held.has_several_budgets) {
        return Progress::stalled(
            "SeveralBudgets",
            format!(
                "Pod \"{}\" cannot be evicted: {}; let one PodDisruptionBudget select it; {numbers}",
                several.pod, several.message
            ),
        );
    }
    let Round::Upgrade { chosen, .. } = round else {
        return awaiting(progress, target);
    };
    if let Some(first) = held.first() {
        let (pod, message, count) = (&first.pod, &first.message, held.len());
        let text = format!("{count} Pods wait for a PodDisruptionBudget; the first is \"{pod}\": {message}; {numbers}");
        let uid = |chosen: &Chosen| pods.get(chosen.pod).map(|pod| pod.metadata.uid.as_str());
        let are_tried_again = chosen.iter().all(|chosen| held.iter().any(|held| uid(chosen) == Some(&held.uid)));
        let reason = if are_tried_again { "HeldByBudget" } else { progress.reason };
        return Progress { is_ready: false, is_reconciling: true, is_stalled: false, reason, message: text };
    }
    if target.recreation.is_early && chosen.is_empty() && progress.reason != "RollingOut" {
        let text = format!("Pods are recreated {SETTLING} s after a version came into force; {numbers}");
        return rolling(text);
    }
    let lacking = pods.len().saturating_sub(members);
    if progress.reason == "Complete" && lacking > 0 && !chosen.is_empty() {
        return rolling(format!("{lacking} Pods lack the sidecar and are recreated; {numbers}"));
    }
    awaiting(with_obstacle(progress, target, round, pods), target)
}

/// Names the first Pod that cannot be upgraded, and the reason, if the SidecarSet asks for more than upgrades of images.
fn with_obstacle(progress: Progress, target: &Target<'_>, round: &Round, pods: &[&Pod]) -> Progress {
    let Round::Upgrade { not_upgradable, .. } = round else { return progress };
    let asks = target.upgrades.resize || target.upgrades.recreate;
    let stuck = not_upgradable.iter().filter_map(|position| pods.get(*position));
    let mut told = stuck.filter(|_| asks && progress.reason == "NotUpgradablePods");
    match told.find_map(|pod| Some((named(pod), target.way(pod).err()?))) {
        Some((pod, obstacle)) => {
            Progress { message: format!("{}; Pod \"{pod}\": {obstacle}", progress.message), ..progress }
        }
        None => progress,
    }
}

/// Returns the progress while replacements of evicted Pods do not exist yet.
fn awaiting(progress: Progress, target: &Target<'_>) -> Progress {
    let missing = target.recreation.missing;
    if missing == 0 || progress.is_stalled || progress.reason == "RollingOut" {
        return progress;
    }
    rolling(format!("{missing} evicted Pods are not replaced yet; {}", progress.message))
}

fn rolling(message: String) -> Progress {
    Progress { is_ready: false, is_reconciling: true, is_stalled: false, reason: "RollingOut", message }
}

/// Returns the namespace and the name of a Pod.
pub fn named(pod: &Pod) -> String {
    format!("{}/{}", pod.metadata.namespace, pod.metadata.name)
}
