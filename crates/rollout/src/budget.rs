//! How many waiting Pods are upgraded in a round: `partition` and `maxUnavailable` (ROLL-34, ROLL-35).

use crate::amount::Amount;

/// The state of a waiting Pod that the budget depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The position of the Pod.
    pub pod: usize,
    /// Whether the Pod is available: consistent and ready.
    pub is_ready: bool,
}

/// What limits a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `partition`: so many Pods keep their version.
    pub partition: Amount,
    /// `maxUnavailable`: so many Pods may be unavailable.
    pub max_unavailable: Amount,
}

/// The Pods of a SidecarSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// All Pods.
    pub matched: usize,
    /// The updated Pods that are inconsistent or not ready.
    pub unavailable: usize,
}

/// Returns the number of Pods that may be unavailable at a time (ROLL-35).
pub fn max_unavailable(amount: Amount, matched: usize) -> usize {
    usize::try_from(amount.scaled_value(matched)).unwrap_or_default()
}

/// Returns the Pods that are upgraded now, in the order of `waiting`.
pub fn within_budget(waiting: &[Waiting], counts: Counts, limits: Limits) -> Vec<usize> {
    let kept = partition(limits.partition, counts.matched);
    let candidates = waiting.get(..waiting.len().saturating_sub(kept)).unwrap_or_default();
    let most = max_unavailable(limits.max_unavailable, counts.matched);
    let mut unavailable = counts.unavailable;
    let mut chosen = Vec::new();
    for Waiting { pod, is_ready } in candidates {
        if *is_ready {
            if unavailable >= most {
                break;
            }
            unavailable = unavailable.saturating_add(1);
        }
        chosen.push(*pod);
    }
    chosen
}

/// Returns the number of waiting Pods that keep their version (ROLL-34).
pub fn partition(partition: Amount, matched: usize) -> usize {
    let kept = usize::try_from(partition.scaled_value(matched)).unwrap_or_default().min(matched);
    // A percentage below 100 leaves a Pod to try the new version on.
    let is_below_all = matches!(partition, Amount::Percent(percent) if percent != 100);
    if matched > 1 && kept == matched && is_below_all { kept.saturating_sub(1) } else { kept }
}

#[cfg(test)]
mod tests {
    use Amount::{Number, Percent};
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    /// Returns the number of chosen Pods of a SidecarSet whose waiting Pods are all ready.
    fn chosen((matched, updated, ready): (usize, usize, usize), limits: Limits) -> usize {
        let waiting: Vec<Waiting> = (updated..matched).map(|pod| Waiting { pod, is_ready: true }).collect();
        within_budget(&waiting, Counts { matched, unavailable: updated - ready }, limits).len()
    }

    #[rstest]
    #[case((100, 30, 26), Number(0), Number(10), 6)]
    #[case((1000, 300, 260), Number(0), Percent(10), 60)]
    #[case((1000, 300, 250), Number(0), Percent(5), 0)]
    #[case((100, 30, 27), Number(0), Number(100), 70)]
    #[case((1000, 800, 760), Number(180), Number(100), 20)]
    #[case((1000, 800, 760), Number(100), Number(100), 60)]
    #[case((1000, 800, 760), Percent(18), Number(100), 20)]
    #[case((1000, 800, 760), Percent(10), Number(100), 60)]
    #[case((5, 0, 0), Percent(5), Number(5), 4)]
    #[case((5, 0, 0), Percent(99), Number(5), 1)]
    #[case((5, 0, 0), Percent(1), Number(5), 4)]
    #[case((5, 0, 0), Percent(50), Percent(30), 2)]
    #[case((1, 0, 0), Percent(1), Number(1), 0)]
    #[case((5, 0, 0), Percent(100), Number(5), 0)]
    #[case((5, 0, 0), Percent(150), Number(5), 1)]
    #[case((5, 0, 0), Number(9), Number(5), 0)]
    #[case((5, 0, 0), Number(-1), Number(-1), 0)]
    fn roll36_vectors(
        #[case] counts: (usize, usize, usize),
        #[case] partition: Amount,
        #[case] max_unavailable: Amount,
        #[case] expected: usize,
    ) {
        assert_eq!(chosen(counts, Limits { partition, max_unavailable }), expected);
    }

    #[test]
    fn roll35_a_pod_that_is_not_ready_is_taken_until_a_ready_one_does_not_fit() {
        let waiting = [false, true, false, true, false];
        let waiting: Vec<Waiting> =
            waiting.into_iter().enumerate().map(|(pod, is_ready)| Waiting { pod, is_ready }).collect();
        let with = |max| Limits { partition: Number(0), max_unavailable: Number(max) };
        let counts = Counts { matched: 5, unavailable: 0 };
        assert_eq!(within_budget(&waiting, counts, with(0)), [0]);
        assert_eq!(within_budget(&waiting, counts, with(1)), [0, 1, 2]);
        assert_eq!(within_budget(&waiting, counts, with(2)), [0, 1, 2, 3, 4]);
    }

    fn amount() -> impl Strategy<Value = Amount> {
        prop_oneof![
            any::<i64>().prop_map(Number),
            any::<i64>().prop_map(Percent),
            (-5..60_i64).prop_map(Number),
            (-5..160_i64).prop_map(Percent)
        ]
    }

    proptest! {
        #[test]
        fn roll34_roll35_neither_the_partition_nor_the_maximum_is_exceeded(
            ready in prop::collection::vec(any::<bool>(), 0..50),
            updated in 0..50_usize,
            unavailable in 0..50_usize,
            partition in amount(),
            max_unavailable in amount(),
        ) {
            let waiting: Vec<Waiting> = ready.iter().enumerate().map(|(pod, is_ready)| Waiting { pod, is_ready: *is_ready }).collect();
            let counts = Counts { matched: waiting.len() + updated, unavailable: unavailable.min(updated) };
            let chosen = within_budget(&waiting, counts, Limits { partition, max_unavailable });
            let kept = super::partition(partition, counts.matched);
            prop_assert!(chosen.len() <= waiting.len().saturating_sub(kept));
            let made_unavailable = chosen.iter().filter(|pod| ready[**pod]).count();
            let most = usize::try_from(max_unavailable.scaled_value(counts.matched)).unwrap_or(0);
            prop_assert!(made_unavailable == 0 || counts.unavailable + made_unavailable <= most);
            prop_assert_eq!(chosen.clone(), (0..chosen.len()).collect::<Vec<_>>(), "a prefix of the list");
        }
    }
}
