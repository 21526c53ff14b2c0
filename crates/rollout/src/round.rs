//! One round of a rollout: what is done with the Pods of a SidecarSet now (ROLL-12, ROLL-30).

use crate::absence::Absence;
use crate::amount::Amount;
use crate::budget::{self, Counts, Limits, Waiting};
use crate::consistency::Judged;
use crate::hot::is_reset_due;
use crate::method::{Obstacle, UpgradeMethod};
use crate::order;
use crate::pod::Pod;
use crate::resize;
use crate::scatter;
use crate::target::{RolloutTarget, Strategy};
use crate::upgrade::images_precede_resize;

/// What is done with the Pods of a SidecarSet in a round. Numbers are positions in the list of Pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Round {
    /// Nothing.
    Rest(Rest),
    /// The idle containers of these Pods get their empty image.
    Reset(Vec<usize>),
    /// Pods are upgraded.
    Upgrade {
        /// The Pods that cannot be upgraded: no policy covers what has changed.
        not_upgradable: Vec<usize>,
        /// The Pods that are upgraded, in this order.
        chosen: Vec<Chosen>,
        /// The number of Pods that can be upgraded in this round or a later one.
        open: usize,
    },
}

/// A Pod that is upgraded now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The position of the Pod.
    pub pod: usize,
    /// How it is upgraded.
    pub method: UpgradeMethod,
}

/// Why nothing is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// `updateStrategy.type` is `NotUpdate`.
    NotUpdate,
    /// `updateStrategy.paused` is true.
    Paused,
    /// The `updateStrategy` cannot be read.
    Unreadable,
    /// Each Pod is updated.
    Done,
}

/// Decides on a round. `pods` are all Pods of the SidecarSet, sorted by namespace and name; `judged` are their states.
/// For Pods of which `is_uncertain` returns true, an upgrade was sent and its outcome is not known. Such a Pod counts as
/// unavailable, and is tried first; so does a Pod whose resize has begun (ROLL-65), and one to which the kubelet has not
/// given the images of its spec yet, of whichever version (ROLL-30).
pub fn round(
    target: &RolloutTarget<'_>,
    pods: &[&Pod],
    judged: &[Judged],
    is_uncertain: impl Fn(&Pod) -> bool,
) -> Round {
    let strategy = &target.strategy;
    if let Some(rest) = rest(strategy) {
        return Round::Rest(rest);
    }
    let reset: Vec<usize> = positions(pods, |pod| is_reset_due(target, pod)).collect();
    if !reset.is_empty() {
        return Round::Reset(reset);
    }
    if judged.iter().all(|judged| judged.is_updated) {
        return Round::Rest(Rest::Done);
    }
    let mut outdated = Vec::new();
    for (position, (pod, judged)) in pods.iter().zip(judged).enumerate() {
        if !judged.is_updated && target.selects(pod) {
            outdated.push(position);
        }
    }
    let method_of = |position: &usize| pods.get(*position).and_then(|pod| target.upgrade_method(pod).ok());
    let (upgradable, not_upgradable): (Vec<usize>, Vec<usize>) =
        outdated.into_iter().partition(|pod| method_of(pod).is_some());
    let open = upgradable.len();
    let is_open = |pod: &&Pod| !resize::is_under_way(target, pod) || images_precede_resize(target, pod);
    let is_waiting = |position: &usize| pods.get(*position).is_some_and(is_open);
    let waiting: Vec<usize> = upgradable.into_iter().filter(is_waiting).collect();
    let chosen = chosen(target, pods, judged, waiting, &is_uncertain);
    // ROLL-68: one new Pod without the version keeps all other Pods from an eviction.
    let evicts =
        !target.recreation.is_early && !pods.iter().zip(judged).any(|(pod, judged)| lacks(target, pod, *judged));
    let chosen = chosen.into_iter().filter_map(|pod| Some(Chosen { pod, method: method_of(&pod)? }));
    let chosen = chosen.filter(|chosen| evicts || chosen.method != UpgradeMethod::Recreate).collect();
    Round::Upgrade { not_upgradable, chosen, open }
}

/// Whether a Pod was created after the version came into force, and does not have it (ROLL-68).
pub(crate) fn lacks(target: &RolloutTarget<'_>, pod: &Pod, judged: Judged) -> bool {
    target.upgrades.recreate && !judged.is_updated && target.upgrade_method(pod) == Err(Obstacle::NewPodLacksVersion)
}

/// Returns why the strategy lets nothing be done, whatever state the Pods are in.
pub(crate) fn rest(strategy: &Strategy<'_>) -> Option<Rest> {
    if !strategy.errors.is_empty() {
        Some(Rest::Unreadable)
    } else if !strategy.is_rolling {
        Some(Rest::NotUpdate)
    } else if strategy.is_paused {
        Some(Rest::Paused)
    } else {
        None
    }
}

fn positions<'a>(pods: &'a [&Pod], has: impl Fn(&Pod) -> bool + 'a) -> impl Iterator<Item = usize> + 'a {
    pods.iter().enumerate().filter(move |(_, pod)| has(pod)).map(|(position, _)| position)
}

/// Whether an upgrade of a Pod has begun, and may not have reached it.
fn has_begun(pod: &Pod, judged: Judged, is_uncertain: &impl Fn(&Pod) -> bool) -> bool {
    is_uncertain(pod) || judged.is_resizing || judged.is_in_flight
}

/// Returns how many Pods count against `maxUnavailable` before a round.
pub(crate) fn unavailable(
    target: &RolloutTarget<'_>,
    pods: &[&Pod],
    judged: &[Judged],
    is_uncertain: &impl Fn(&Pod) -> bool,
) -> usize {
    let unavailable = pods.iter().zip(judged).filter(|(pod, judged)| {
        let counts = judged.is_updated || lacks(target, pod, **judged);
        let is_missing = has_begun(pod, **judged, is_uncertain) || judged.absence.is_some();
        (counts && !judged.is_available()) || (!judged.is_updated && is_missing) || resize::is_restarting(target, pod)
    });
    unavailable.count().saturating_add(target.recreation.missing)
}

/// Returns the Pods that are upgraded now, in the order of the upgrades.
fn chosen(
    target: &RolloutTarget<'_>,
    pods: &[&Pod],
    judged: &[Judged],
    waiting: Vec<usize>,
    is_uncertain: &impl Fn(&Pod) -> bool,
) -> Vec<usize> {
    // What has begun is completed before another Pod is touched.
    let has_begun_at = |position: &usize| {
        let found = pods.get(*position).zip(judged.get(*position));
        found.is_some_and(|(pod, judged)| has_begun(pod, *judged, is_uncertain))
    };
    let sorted = order::sort(pods, &target.strategy.priority, waiting);
    let sorted = scatter::scatter(&target.strategy.scatter, pods, sorted);
    let (mut first, others): (Vec<usize>, Vec<usize>) = sorted.into_iter().partition(has_begun_at);
    first.extend(others);
    let missing = target.recreation.missing;
    let matched = pods.len().saturating_add(missing);
    // A Pod that waits for a PodDisruptionBudget (ROLL-66) or for its node (ROLL-35) keeps its place, and the Pods after
    // it go on.
    let kept = budget::partition(target.strategy.limits.partition, matched);
    first.truncate(first.len().saturating_sub(kept));
    let waits = |position: &usize| {
        let is_held = pods.get(*position).is_some_and(|pod| target.recreation.held.contains(&pod.metadata.uid));
        is_held
            || match judged.get(*position).and_then(|judged| judged.absence) {
                Some(Absence::Node) => true,
                Some(Absence::Other) => !has_begun_at(position),
                None => false,
            }
    };
    first.retain(|pod| !waits(pod));
    let waiting: Vec<Waiting> = first
        .into_iter()
        .map(|pod| {
            let is_ready = judged.get(pod).is_some_and(|judged| judged.is_ready) && !has_begun_at(&pod);
            Waiting { pod, is_ready }
        })
        .collect();
    // Pods that an earlier upgrade has restarted are upgraded again, and are not ready for a longer time.
    let is_starting = |waiting: &&Waiting| {
        let judged = judged.get(waiting.pod);
        judged.is_some_and(|judged| judged.is_starting && !judged.is_in_flight)
    };
    let starting = waiting.iter().filter(is_starting).count();
    let unavailable = unavailable(target, pods, judged, is_uncertain).saturating_add(starting);
    let counts = Counts { matched, unavailable };
    let limits = Limits { partition: Amount::Number(0), ..target.strategy.limits };
    budget::within_budget(&waiting, counts, limits)
}
