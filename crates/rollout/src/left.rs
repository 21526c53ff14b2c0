//! The Pods that a rollout leaves as they are, and why (ROLL-69).

use thiserror::Error;

use crate::consistency::Judged;
use crate::method::Obstacle;
use crate::pod::Pod;
use crate::target::RolloutTarget;
use crate::{budget, order, scatter};

/// Why a Pod keeps its version for as long as the SidecarSet stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Left {
    /// Running Pods are never upgraded.
    #[error("updateStrategy.type is NotUpdate")]
    NotUpdate,
    /// The strategy does not select the Pod.
    #[error("updateStrategy.selector does not select it")]
    NotSelected,
    /// The Pod is among the last ones, which the partition keeps.
    #[error("updateStrategy.partition keeps it")]
    Partition,
    /// After a rollout that has failed, only the Pods that it reached get the earlier version (ROLL-62).
    #[error("the rollout that failed has not reached it")]
    Back,
    /// The Pod cannot get the version.
    #[error(transparent)]
    Obstacle(#[from] Obstacle),
}

/// Returns the Pods that keep their version, by their position, each with the reason. `pods` are all Pods of the
/// SidecarSet, sorted by namespace and name; `judged` are their states. A strategy that cannot be read leaves none: it
/// is an error of its own.
pub fn left(target: &RolloutTarget<'_>, pods: &[&Pod], judged: &[Judged]) -> Vec<(usize, Left)> {
    let strategy = &target.strategy;
    if !strategy.errors.is_empty() {
        return Vec::new();
    }
    let (mut left, mut waiting) = (Vec::new(), Vec::new());
    for (position, (pod, _)) in pods.iter().zip(judged).enumerate().filter(|(_, (_, judged))| !judged.is_updated) {
        if !strategy.is_rolling {
            left.push((position, Left::NotUpdate));
        } else if !strategy.selected.has(|key| pod.label(key)) {
            left.push((position, Left::NotSelected));
        } else if !target.selects(pod) {
            left.push((position, Left::Back));
        } else if let Err(obstacle) = target.upgrade_method(pod) {
            left.push((position, obstacle.into()));
        } else {
            waiting.push(position);
        }
    }
    let kept = budget::partition(strategy.limits.partition, pods.len().saturating_add(target.recreation.missing));
    let sorted = order::sort(pods, &strategy.priority, waiting);
    let sorted = scatter::scatter(&strategy.scatter, pods, sorted);
    // As in a round, a resize that has begun is completed first (ROLL-65).
    let is_resizing = |position: &usize| judged.get(*position).is_some_and(|judged| judged.is_resizing);
    let (mut first, others): (Vec<usize>, Vec<usize>) = sorted.into_iter().partition(is_resizing);
    first.extend(others);
    let sorted = first;
    let kept = sorted.len().saturating_sub(kept);
    left.extend(sorted.into_iter().skip(kept).map(|position| (position, Left::Partition)));
    left.sort_by_key(|(position, _)| *position);
    left
}
