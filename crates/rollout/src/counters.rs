//! The round that the counters of a status tell, for statuses without conditions: OpenKruise's definition of
//! SidecarSets has none.

use crate::budget::{self, Waiting};
use crate::counts::Counts;
use crate::method::UpgradeMethod;
use crate::round::{Chosen, Rest, Round, rest};
use crate::target::Strategy;

/// Returns the round that follows from counters alone. Each Pod that is not updated counts as ready, selected and
/// upgradable in place, since the counters do not tell otherwise; so a rollout that cannot go on may count as one that
/// goes on, and never as one that has ended.
pub fn round(strategy: &Strategy<'_>, counts: Counts) -> Round {
    if let Some(rest) = rest(strategy) {
        return Round::Rest(rest);
    }
    let Counts { matched, updated, updated_ready, .. } = counts;
    if updated >= matched {
        return Round::Rest(Rest::Done);
    }
    let waiting: Vec<Waiting> = (updated..matched).map(|pod| Waiting { pod, is_ready: true }).collect();
    let counts = budget::Counts { matched, unavailable: updated.saturating_sub(updated_ready) };
    let chosen = budget::within_budget(&waiting, counts, strategy.limits);
    let chosen = chosen.into_iter().map(|pod| Chosen { pod, method: UpgradeMethod::InPlace }).collect();
    let open = waiting.len();
    Round::Upgrade { not_upgradable: Vec::new(), chosen, open }
}

#[cfg(test)]
mod tests {
    use pillion_sidecarset::sidecar_set::SidecarSet;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::status::Progress;
    use crate::target::RolloutTarget;

    #[rstest]
    #[case::nothing_there(json!({}), (0, 0, 0), "Complete")]
    #[case::all_updated(json!({}), (3, 3, 3), "Complete")]
    #[case::not_ready_yet(json!({}), (3, 3, 2), "PodsNotReady")]
    #[case::some_updated(json!({}), (3, 1, 1), "RollingOut")]
    #[case::as_many_unavailable_as_allowed(json!({}), (3, 1, 0), "RollingOut")]
    #[case::partition(json!({"partition": 2}), (3, 1, 1), "PartitionReached")]
    #[case::partition_not_reached(json!({"partition": 2}), (3, 0, 0), "RollingOut")]
    #[case::partition_with_a_pod_that_is_not_ready(json!({"partition": 2}), (3, 1, 0), "RollingOut")]
    #[case::no_pod_may_be_unavailable(json!({"maxUnavailable": 0}), (3, 1, 1), "NoPodSelected")]
    #[case::paused(json!({"paused": true}), (3, 1, 1), "Paused")]
    #[case::not_update(json!({"type": "NotUpdate"}), (3, 1, 1), "NotUpdate")]
    #[case::unreadable(json!({"partition": "some"}), (3, 1, 1), "InvalidStrategy")]
    fn roll15_counters_alone_tell_how_far_a_rollout_is(
        #[case] strategy: Value,
        #[case] (matched, updated, updated_ready): (usize, usize, usize),
        #[case] reason: &str,
    ) {
        let set = SidecarSet::from_decoded(json!({"metadata": {"name": "s"}, "spec": {"updateStrategy": strategy}}));
        let target = RolloutTarget::new(&set, &set);
        let counts = Counts { matched, updated, ready: updated_ready, updated_ready, ..Counts::default() };
        assert_eq!(Progress::after_round(&target, &round(&target.strategy, counts), counts).reason, reason);
    }
}
