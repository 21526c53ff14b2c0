//! The order in which Pods are upgraded: the state of the Pods (ROLL-31), then priorities (ROLL-32).

use std::cmp::Reverse;

use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::selector::Selector;
use pillion_kubernetes::time::Timestamp;
use serde_json::Value;

/// The place of a Pod in the base order: a Pod with a lesser place is upgraded earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    is_assigned: bool,
    phase: Phase,
    is_ready: bool,
    /// Ready for a shorter time first; a Pod without a time before all others.
    ready_since: Newest,
    restarts: Reverse<i64>,
    created: Newest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Pending,
    /// Also each phase that Kubernetes does not define.
    Unknown,
    Running,
}

/// A time; later times come first, and no time before all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Newest(Option<Reverse<Timestamp>>);

impl Newest {
    fn of(text: &str) -> Self {
        Self(Timestamp::parse(text).map(Reverse))
    }
}

impl Place {
    /// Returns the place of a Pod.
    pub fn of(pod: &Value) -> Self {
        let ready = json::items(pod, &["status", "conditions"]).iter().find(|condition| {
            json::text(condition, &["type"]) == "Ready" && json::text(condition, &["status"]) == "True"
        });
        let statuses = json::items(pod, &["status", "containerStatuses"]).iter();
        let restarts = statuses.filter_map(|status| json::at(status, &["restartCount"])?.as_i64()).max();
        Self {
            is_assigned: !json::text(pod, &["spec", "nodeName"]).is_empty(),
            phase: match json::text(pod, &["status", "phase"]) {
                "Pending" => Phase::Pending,
                "Running" => Phase::Running,
                _ => Phase::Unknown,
            },
            is_ready: ready.is_some(),
            ready_since: Newest::of(ready.map_or("", |ready| json::text(ready, &["lastTransitionTime"]))),
            restarts: Reverse(restarts.unwrap_or_default()),
            created: Newest::of(json::text(pod, &["metadata", "creationTimestamp"])),
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
    /// Reads a `priorityStrategy`. A selector that cannot be read matches nothing; admission refuses such SidecarSets.
    pub fn of(strategy: &'a Value) -> Self {
        let weights = json::items(strategy, &["weightPriority"]).iter().filter_map(|term| {
            let selector = Selector::parse_or_nothing(term.get("matchSelector")?)?;
            Some((selector, json::at(term, &["weight"]).and_then(Value::as_i64).unwrap_or_default()))
        });
        let keys = json::items(strategy, &["orderPriority"]).iter().map(|term| json::text(term, &["orderedKey"]));
        Self { weights: weights.collect(), keys: keys.collect() }
    }

    /// Returns the rank of a Pod with these labels: a Pod with a lesser rank is upgraded earlier.
    pub fn rank(&self, labels: Option<&Object>) -> Rank {
        if !self.weights.is_empty() {
            let weights = self.weights.iter().filter(|(selector, _)| selector.matches_labels(labels));
            return Rank::Weight(Reverse(weights.fold(0, |sum: i64, (_, weight)| sum.saturating_add(*weight))));
        }
        let value = |key: &str| labels?.get(key)?.as_str();
        let found = self.keys.iter().enumerate().find_map(|(place, key)| Some((place, value(key)?)));
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
pub fn sort(pods: &[&Value], priority: &Priority<'_>, mut waiting: Vec<usize>) -> Vec<usize> {
    waiting.sort_by_cached_key(|position| {
        pods.get(*position).map(|pod| {
            let labels = json::object(pod, &["metadata", "labels"]);
            (priority.rank(labels), Place::of(pod))
        })
    });
    waiting
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn pod(fields: &Value) -> Value {
        let mut pod = json!({
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"nodeName": "n"},
            "status": {"phase": "Running", "conditions": [ready("2026-01-02T00:00:00Z")], "containerStatuses": [{"restartCount": 1}]}
        });
        for (path, value) in fields.as_object().unwrap() {
            let (parent, key) = path.rsplit_once('/').unwrap();
            pod.pointer_mut(parent).unwrap()[key] = value.clone();
        }
        pod
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
            json!({"/status/phase": "Failed"}),
            json!({"/status/phase": "Pending"}),
            json!({"/spec/nodeName": ""}),
        ];
        let pods = pods.each_ref().map(pod);
        let pods: Vec<&Value> = pods.iter().collect();
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
    fn roll32_priorities(#[case] strategy: Value, #[case] expected: [usize; 4]) {
        let labels = [json!({"a": "1"}), json!({"b": "1"}), json!({"a": "1", "b": "1"}), json!({})];
        let pods = labels.map(|labels| pod(&json!({"/metadata/labels": labels})));
        let pods: Vec<&Value> = pods.iter().collect();
        assert_eq!(sort(&pods, &Priority::of(&strategy), (0..4).collect()), expected);
    }

    #[rstest]
    #[case::the_highest_number_first(["web-2", "web-10", "web-1"], [1, 0, 2])]
    #[case::no_number_counts_as_zero(["web", "web-1", "web-0"], [1, 0, 2])]
    #[case::beyond_64_bits(["99999999999999999999", "1", ""], [1, 0, 2])]
    #[case::other_characters(["é7", "7é", "8"], [2, 0, 1])]
    fn roll32_numbers_at_the_end_of_values(#[case] values: [&str; 3], #[case] expected: [usize; 3]) {
        let pods = values.map(|value| pod(&json!({"/metadata/labels": {"order": value}})));
        let pods: Vec<&Value> = pods.iter().collect();
        let strategy = json!({"orderPriority": [{"orderedKey": "order"}]});
        assert_eq!(sort(&pods, &Priority::of(&strategy), (0..3).collect()), expected);
    }

    proptest! {
        #[test]
        fn roll31_the_order_is_a_permutation_and_sorting_again_changes_nothing(
            pods in prop::collection::vec((any::<bool>(), 0..3_usize, any::<bool>(), 0..3_i64), 0..30),
        ) {
            let pods: Vec<Value> = pods.iter().map(|(is_assigned, phase, is_ready, restarts)| pod(&json!({
                "/spec/nodeName": if *is_assigned { "n" } else { "" }, "/status/phase": (["Pending", "Running", "Failed"][*phase]),
                "/status/conditions": if *is_ready { vec![ready("2026-01-02T00:00:00Z")] } else { Vec::new() },
                "/status/containerStatuses": [{"restartCount": restarts}]
            }))).collect();
            let pods: Vec<&Value> = pods.iter().collect();
            let once = sort(&pods, &Priority::default(), (0..pods.len()).collect());
            prop_assert_eq!(sort(&pods, &Priority::default(), once.clone()), once.clone());
            let mut all = once;
            all.sort_unstable();
            prop_assert_eq!(all, (0..pods.len()).collect::<Vec<_>>());
        }
    }
}
