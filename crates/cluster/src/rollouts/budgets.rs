//! PodDisruptionBudgets that hold Pods: what the Eviction API would answer, as far as the budgets tell.

use pillion_kubernetes::json;
use pillion_kubernetes::selector::Selector;
use pillion_rollout::pod::{Phase, Pod};
use serde_json::Value;

/// Why a Pod would not be evicted now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Hold {
    /// The budget allows no disruption.
    #[error("PodDisruptionBudget \"{0}\" allows no disruption now")]
    NoneAllowed(String),
    /// The budget was changed, and its controller has not counted again.
    #[error("PodDisruptionBudget \"{0}\" has not been observed by its controller yet")]
    NotObserved(String),
    /// Several budgets cover the Pod: the Eviction API refuses with 500, whatever they allow.
    #[error("several PodDisruptionBudgets cover the Pod, and the API server evicts no such Pod: {}", .0.join(", "))]
    Several(Vec<String>),
}

impl Hold {
    /// Returns the names of the budgets.
    pub fn budgets(&self) -> Vec<&str> {
        match self {
            Self::NoneAllowed(name) | Self::NotObserved(name) => vec![name],
            Self::Several(names) => names.iter().map(String::as_str).collect(),
        }
    }
}

/// Returns what holds a Pod among the budgets of all namespaces, or `None`.
pub fn hold(pod: &Pod, budgets: &[Value]) -> Option<Hold> {
    // The API server evicts these without asking the budgets.
    if pod.state.phase == Phase::Pending || !pod.is_active() {
        return None;
    }
    let covers = |budget: &&Value| {
        json::text(budget, &["metadata", "namespace"]) == pod.metadata.namespace
            && json::at(budget, &["spec", "selector"])
                .and_then(Selector::parse_or_nothing)
                .is_some_and(|selector| selector.matches(|key| pod.label(key)))
    };
    let mut covering: Vec<&Value> = budgets.iter().filter(covers).collect();
    covering.sort_by_key(|budget| json::text(budget, &["metadata", "name"]));
    let name = |budget: &Value| json::text(budget, &["metadata", "name"]).to_owned();
    let budget = match covering.as_slice() {
        [] => return None,
        [budget] => *budget,
        several => return Some(Hold::Several(several.iter().map(|budget| name(budget)).collect())),
    };
    let number = |path: &[&str]| json::at(budget, path).and_then(Value::as_i64).unwrap_or_default();
    if !pod.state.is_ready {
        let is_healthy = number(&["status", "currentHealthy"]) >= number(&["status", "desiredHealthy"]);
        let is_needed = number(&["status", "desiredHealthy"]) > 0;
        let is_free = json::text(budget, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow";
        if is_free || (is_healthy && is_needed) {
            return None;
        }
    }
    if number(&["status", "observedGeneration"]) < number(&["metadata", "generation"]) {
        return Some(Hold::NotObserved(name(budget)));
    }
    (number(&["status", "disruptionsAllowed"]) <= 0).then(|| Hold::NoneAllowed(name(budget)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn pod(phase: &str, ready: &str) -> Pod {
        Pod::decode(&json!({
            "metadata": {"name": "web-0", "namespace": "shop", "labels": {"app": "web"}},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
        }))
        .unwrap()
    }

    fn budget(name: &str, spec: &Value, status: &Value) -> Value {
        let mut budget = json!({
            "metadata": {"name": name, "namespace": "shop", "generation": 1},
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
            "status": {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 2},
        });
        json_patch::merge(&mut budget["spec"], spec);
        json_patch::merge(&mut budget["status"], status);
        budget
    }

    fn none_allowed(by: &str) -> Hold {
        Hold::NoneAllowed(by.to_owned())
    }

    #[rstest]
    #[case::nothing_allowed(json!({}), json!({}), Some(none_allowed("a")))]
    #[case::one_allowed(json!({}), json!({"disruptionsAllowed": 1}), None)]
    #[case::all_pods(json!({"selector": {"matchLabels": null}}), json!({}), Some(none_allowed("a")))]
    #[case::no_pods(json!({"selector": null}), json!({}), None)]
    #[case::other_pods(json!({"selector": {"matchLabels": {"app": "api"}}}), json!({}), None)]
    #[case::not_counted_yet(json!({}), json!({"observedGeneration": 0}), Some(Hold::NotObserved("a".to_owned())))]
    fn roll66_a_budget_holds_a_ready_pod(#[case] spec: Value, #[case] status: Value, #[case] expected: Option<Hold>) {
        assert_eq!(hold(&pod("Running", "True"), &[budget("a", &spec, &status)]), expected);
    }

    #[test]
    fn roll66_several_budgets_hold_whatever_they_allow() {
        let allowing = json!({"disruptionsAllowed": 5});
        let budgets = [budget("b", &json!({}), &allowing), budget("a", &json!({}), &allowing)];
        let hold = hold(&pod("Running", "True"), &budgets).unwrap();
        assert_eq!(hold.budgets(), ["a", "b"]);
        assert!(hold.to_string().ends_with("evicts no such Pod: a, b"), "{hold}");
    }

    #[rstest]
    #[case::budget_is_short(json!({}), json!({}), Some(none_allowed("a")))]
    #[case::budget_has_enough(json!({}), json!({"currentHealthy": 2}), None)]
    #[case::always_allowed(json!({"unhealthyPodEvictionPolicy": "AlwaysAllow"}), json!({}), None)]
    fn roll66_a_pod_that_is_not_ready_needs_less(
        #[case] spec: Value,
        #[case] status: Value,
        #[case] expected: Option<Hold>,
    ) {
        assert_eq!(hold(&pod("Running", "False"), &[budget("a", &spec, &status)]), expected);
    }

    #[rstest]
    #[case("Pending")]
    #[case("Succeeded")]
    fn roll66_pods_that_do_not_run_are_not_held(#[case] phase: &str) {
        assert_eq!(hold(&pod(phase, "False"), &[budget("a", &json!({}), &json!({}))]), None);
    }
}
