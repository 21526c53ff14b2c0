//! The order in which Pods are upgraded: the state of the Pods (ROLL-31), then priorities (ROLL-32).

use std::cmp::Reverse;

use pillion_kubernetes::field::{FieldError, FieldPath};
use pillion_kubernetes::json;
use pillion_kubernetes::selector::Selector;
use serde_json::Value;

use crate::pod::{Phase, Pod, Time};

/// The place of a Pod in the base order: a Pod with a lesser place is upgraded earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BaseOrder {
    is_assigned: bool,
    phase: Phase,
    is_ready: bool,
    /// Ready for a shorter time first; a Pod without a time before all others.
    ready_since: Newest,
    restarts: Reverse<i64>,
    created: Newest,
}

/// A time; later times come first, and no time before all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Newest(Option<Reverse<Time>>);

impl BaseOrder {
    /// Returns the place of a Pod.
    pub fn for_pod(pod: &Pod) -> Self {
        let restarts = pod.state.containers.iter().map(|status| status.restarts).max();
        Self {
            is_assigned: !pod.node.is_empty(),
            phase: pod.state.phase,
            is_ready: pod.state.is_ready,
            ready_since: Newest(pod.state.ready_since.map(Reverse)),
            restarts: Reverse(restarts.unwrap_or_default()),
            created: Newest(pod.metadata.creation_timestamp.map(Reverse)),
        }
    }
}

/// `updateStrategy.priorityStrategy`. Weights win over keys.
#[derive(Clone, Debug, Default)]
pub struct Priority<'a> {
    /// Selectors with their weights. A Pod has the sum of the weights of those that match.
    weights: Vec<(Selector<'a>, i64)>,
    /// The keys of labels, the most important first.
    keys: Vec<&'a str>,
}

impl<'a> Priority<'a> {
    /// Reads a `priorityStrategy`. Also returns the errors of terms that cannot be read; admission refuses such
    /// SidecarSets.
    pub fn parse(strategy: &'a Value) -> (Self, Vec<FieldError>) {
        let mut errors = Vec::new();
        let mut weights = Vec::new();
        let root = FieldPath::default();
        for (index, term) in json::items(strategy, &["weightPriority"]).iter().enumerate() {
            let term_path = root.item("weightPriority", index);
            let path = term_path.child("matchSelector");
            match term.get("matchSelector").map(Selector::parse) {
                Some(Ok(selector)) => {
                    weights.push((selector, json::at(term, &["weight"]).and_then(Value::as_i64).unwrap_or_default()));
                }
                Some(Err(more)) => errors.extend(more.into_iter().map(|error| error.below(path))),
                None => errors.push(FieldError::required(path, "select the Pods that have this weight")),
            }
        }
        let mut keys = Vec::new();
        for (index, term) in json::items(strategy, &["orderPriority"]).iter().enumerate() {
            let key = json::text(term, &["orderedKey"]);
            if key.is_empty() {
                let term_path = root.item("orderPriority", index);
                errors.push(FieldError::required(term_path.child("orderedKey"), "name the label that orders the Pods"));
            }
            keys.push(key);
        }
        (Self { weights, keys }, errors)
    }

    /// Returns the rank of a Pod: a Pod with a lesser rank is upgraded earlier.
    pub fn rank(&self, pod: &Pod) -> Rank {
        if !self.weights.is_empty() {
            let weights = self.weights.iter().filter(|(selector, _)| selector.matches(|key| pod.label(key)));
            return Rank::Weight(Reverse(weights.fold(0, |sum: i64, (_, weight)| sum.saturating_add(*weight))));
        }
        let found = self.keys.iter().enumerate().find_map(|(place, key)| Some((place, pod.label(key)?)));
        found.map_or(Rank::Last, |(place, value)| Rank::Key(place, Reverse(trailing_number(value))))
    }
}

/// The rank of a Pod among the others of its SidecarSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// The sum of the weights, the highest first.
    Weight(Reverse<i64>),
    /// The place of the first key that the Pod has, and the number at the end of its value, the highest first.
    Key(usize, Reverse<i64>),
    /// The Pod has none of the keys (DIFF-2).
    Last,
}

/// Returns the number at the end of a text; 0 if there is none, or if it is beyond 64 bits.
fn trailing_number(text: &str) -> i64 {
    let start = text.rfind(|character: char| !character.is_ascii_digit()).map_or(0, |last| last.saturating_add(1));
    // The character before the digits may be longer than a byte; then the text does not end with digits.
    text.get(start..).and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

/// Sorts Pods into the order of upgrades, without scatter. Equal Pods keep their order.
pub fn sort(pods: &[&Pod], priority: &Priority<'_>, mut waiting: Vec<usize>) -> Vec<usize> {
    waiting.sort_by_cached_key(|position| pods.get(*position).map(|pod| (priority.rank(pod), BaseOrder::for_pod(pod))));
    waiting
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn pod(fields: &Value) -> Pod {
        let mut pod = json!({
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"nodeName": "n"},
            "status": {"phase": "Running", "conditions": [ready("2026-01-02T00:00:00Z")], "containerStatuses": [{"restartCount": 1}]}
        });
        for (path, value) in fields.as_object().unwrap() {
            let (parent, key) = path.rsplit_once('/').unwrap();
            pod.pointer_mut(parent).unwrap()[key] = value.clone();
        }
        Pod::decode(&pod).unwrap()
    }

    fn ready(since: &str) -> Value {
        json!({"type": "Ready", "status": "True", "lastTransitionTime": since})
    }

    #[rstest]
    #[case::unassigned(json!({"/spec/nodeName": ""}))]
    #[case::pending(json!({"/status/phase": "Pending"}))]
    #[case::of_an_unknown_phase(json!({"/status/phase": "Unknown"}))]
    #[case::not_ready(json!({"/status/conditions": []}))]
    #[case::ready_for_a_shorter_time(json!({"/status/conditions": [ready("2026-01-03T00:00:00Z")]}))]
    #[case::more_restarts(json!({"/status/containerStatuses": [{"restartCount": 2}, {"restartCount": 0}]}))]
    #[case::newer(json!({"/metadata/creationTimestamp": "2026-01-01T00:00:01Z"}))]
    fn roll31_it_comes_before_a_pod_that_has_run_for_long(#[case] earlier: Value) {
        let (one, other) = (pod(&json!({})), pod(&earlier));
        assert_eq!(sort(&[&one, &other], &Priority::default(), vec![0, 1]), [1, 0]);
    }

    #[test]
    fn roll31_each_criterion_wins_over_those_after_it() {
        let pods = [
            json!({"/metadata/creationTimestamp": "2026-02-01T00:00:00Z"}),
            json!({"/status/containerStatuses": [{"restartCount": 5}]}),
            json!({"/status/conditions": [ready("2026-01-03T00:00:00Z")]}),
            json!({"/status/conditions": []}),
            json!({"/status/phase": "Unknown"}),
            json!({"/status/phase": "Pending"}),
            json!({"/spec/nodeName": ""}),
        ];
        let pods = pods.each_ref().map(pod);
        let pods: Vec<&Pod> = pods.iter().collect();
        assert_eq!(sort(&pods, &Priority::default(), (0..7).collect()), [6, 5, 4, 3, 2, 1, 0]);
    }

    #[rstest]
    #[case::the_highest_sum_first(
        json!({"weightPriority": [
            {"weight": 10, "matchSelector": {"matchLabels": {"a": "1"}}}, {"weight": 20, "matchSelector": {"matchLabels": {"b": "1"}}}
        ]}),
        [2, 1, 0, 3]
    )]
    #[case::a_selector_that_cannot_be_read_counts_for_nobody(
        json!({"weightPriority": [
            {"weight": 50, "matchSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            {"weight": 10, "matchSelector": {"matchLabels": {"a": "1"}}}
        ]}),
        [0, 2, 1, 3]
    )]
    #[case::a_negative_weight(json!({"weightPriority": [{"weight": -1, "matchSelector": {"matchLabels": {"a": "1"}}}]}), [1, 3, 0, 2])]
    #[case::the_first_key_first(json!({"orderPriority": [{"orderedKey": "b"}, {"orderedKey": "a"}]}), [1, 2, 0, 3])]
    #[case::weights_win(
        json!({"orderPriority": [{"orderedKey": "b"}], "weightPriority": [{"weight": 1, "matchSelector": {"matchLabels": {"a": "1"}}}]}),
        [0, 2, 1, 3]
    )]
    fn roll32_diff2_priorities(#[case] strategy: Value, #[case] expected: [usize; 4]) {
        let labels = [json!({"a": "1"}), json!({"b": "1"}), json!({"a": "1", "b": "1"}), json!({})];
        let pods = labels.map(|labels| pod(&json!({"/metadata/labels": labels})));
        let pods: Vec<&Pod> = pods.iter().collect();
        assert_eq!(sort(&pods, &Priority::parse(&strategy).0, (0..4).collect()), expected);
    }

    #[rstest]
    #[case::the_highest_number_first(["web-2", "web-10", "web-1"], [1, 0, 2])]
    #[case::no_number_counts_as_zero(["web", "web-1", "web-0"], [1, 0, 2])]
    #[case::beyond_64_bits(["99999999999999999999", "1", ""], [1, 0, 2])]
    #[case::other_characters(["é7", "7é", "8"], [2, 0, 1])]
    fn roll32_numbers_at_the_end_of_values(#[case] values: [&str; 3], #[case] expected: [usize; 3]) {
        let pods = values.map(|value| pod(&json!({"/metadata/labels": {"order": value}})));
        let pods: Vec<&Pod> = pods.iter().collect();
        let strategy = json!({"orderPriority": [{"orderedKey": "order"}]});
        assert_eq!(sort(&pods, &Priority::parse(&strategy).0, (0..3).collect()), expected);
    }

    proptest! {
        #[test]
        fn roll31_the_order_is_a_permutation_and_sorting_again_changes_nothing(
            pods in prop::collection::vec((any::<bool>(), 0..3_usize, any::<bool>(), 0..3_i64), 0..30),
        ) {
            let pods: Vec<Pod> = pods.iter().map(|(is_assigned, phase, is_ready, restarts)| pod(&json!({
                "/spec/nodeName": if *is_assigned { "n" } else { "" }, "/status/phase": (["Pending", "Running", "Unknown"][*phase]),
                "/status/conditions": if *is_ready { vec![ready("2026-01-02T00:00:00Z")] } else { Vec::new() },
                "/status/containerStatuses": [{"restartCount": restarts}]
            }))).collect();
            let pods: Vec<&Pod> = pods.iter().collect();
            let once = sort(&pods, &Priority::default(), (0..pods.len()).collect());
            prop_assert_eq!(sort(&pods, &Priority::default(), once.clone()), once.clone());
            let mut all = once;
            all.sort_unstable();
            prop_assert_eq!(all, (0..pods.len()).collect::<Vec<_>>());
        }
    }
}
