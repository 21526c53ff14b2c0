//! The progress of a rollout that may evict Pods (ROLL-66 to ROLL-68).

use crate::consistency::Judged;
use crate::pod::Pod;
use crate::recreation::SETTLING;
use crate::round::{Chosen, Round, lacks};
use crate::status::{Progress, ROLLING_OUT};
use crate::target::RolloutTarget;

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

impl Held {
    /// Returns the text for people.
    pub fn text(&self) -> String {
        format!("Pod \"{}\" cannot be evicted: {}", self.pod, self.message)
    }
}

/// Returns the progress of a rollout that may evict Pods. `progress` is that of the Pods of the SidecarSet; `pods` and
/// `judged` are those of the round, in which the Pods from position `members` on lack the sidecar.
pub fn progress(
    progress: Progress,
    (target, round): (&RolloutTarget<'_>, &Round),
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
        return Progress::reconciling(reason, text);
    }
    if target.recreation.is_early && chosen.is_empty() && progress.reason != ROLLING_OUT {
        let text = format!("Pods are recreated {SETTLING} s after a version came into force; {numbers}");
        return Progress::reconciling(ROLLING_OUT, text);
    }
    let lacking = pods.len().saturating_sub(members);
    if progress.reason == "Complete" && lacking > 0 && !chosen.is_empty() {
        return Progress::reconciling(
            ROLLING_OUT,
            format!("{lacking} Pods lack the sidecar and are recreated; {numbers}"),
        );
    }
    awaiting(with_obstacle(progress, target, round, pods), target)
}

/// Names the first Pod that cannot be upgraded, and the reason.
fn with_obstacle(progress: Progress, target: &RolloutTarget<'_>, round: &Round, pods: &[&Pod]) -> Progress {
    let Round::Upgrade { not_upgradable, .. } = round else { return progress };
    let stuck = not_upgradable.iter().filter_map(|position| pods.get(*position));
    let mut stuck = stuck.filter(|_| progress.reason == "NotUpgradablePods");
    match stuck.find_map(|pod| Some((named(pod), target.upgrade_method(pod).err()?))) {
        Some((pod, obstacle)) => {
            Progress { message: format!("{}; Pod \"{pod}\": {obstacle}", progress.message), ..progress }
        }
        None => progress,
    }
}

/// Returns the progress while replacements of evicted Pods do not exist yet.
fn awaiting(progress: Progress, target: &RolloutTarget<'_>) -> Progress {
    let missing = target.recreation.missing;
    if missing == 0 || progress.is_stalled || progress.reason == ROLLING_OUT {
        return progress;
    }
    Progress::reconciling(ROLLING_OUT, format!("{missing} evicted Pods are not replaced yet; {}", progress.message))
}

/// Returns the namespace and the name of a Pod.
pub fn named(pod: &Pod) -> String {
    format!("{}/{}", pod.metadata.namespace, pod.metadata.name)
}
