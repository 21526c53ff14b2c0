//! How far the rollout of a SidecarSet is, as its status tells.

use pillion_kubernetes::field::joined;
use pillion_kubernetes::json;
use pillion_plan::condition::find;
use pillion_rollout::counters;
use pillion_rollout::counts::Counts;
use pillion_rollout::status::{Progress, READY, RECONCILING, STALLED};
use pillion_rollout::target::RolloutTarget;
use pillion_sidecarset::sidecar_set::decode::decode;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use pillion_sidecarset::upgrades::{RolloutSettings, Upgrades};
use serde::Serialize;
use serde_json::Value;

/// How far a rollout is, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum RolloutState {
    /// It has done what the strategy asks for.
    Ready,
    /// It goes on by itself.
    Reconciling,
    /// It needs help.
    Stalled,
    /// It waits for an edit of the SidecarSet.
    Waiting,
    /// No controller has looked at the SidecarSet as it is now.
    Unobserved,
}

/// How far a rollout is, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The state.
    pub state: RolloutState,
    /// The reason, one word: that of the conditions.
    pub reason: String,
    /// The reason for people.
    pub message: String,
}

impl Standing {
    /// Returns what the status of a SidecarSet tells about its rollout: the conditions, if they are those of the present
    /// generation, else the counters (OpenKruise's definition of SidecarSets has no conditions).
    pub fn from_status(object: &Value, settings: &RolloutSettings) -> Self {
        Self::by_conditions(object).unwrap_or_else(|| Self::by_counters(object, settings))
    }

    fn by_conditions(object: &Value) -> Option<Self> {
        let condition = |type_: &str| condition(object, type_);
        let is_true = |type_: &str| condition(type_).is_some_and(|found| json::text(found, &["status"]) == "True");
        let ready = condition(READY)?;
        let state = if is_true(STALLED) {
            RolloutState::Stalled
        } else if is_true(READY) {
            RolloutState::Ready
        } else if is_true(RECONCILING) {
            RolloutState::Reconciling
        } else {
            RolloutState::Waiting
        };
        let text = |key: &str| json::text(ready, &[key]).to_owned();
        Some(Self { state, reason: text("reason"), message: text("message") })
    }

    fn by_counters(object: &Value, settings: &RolloutSettings) -> Self {
        let (generation, observed) = generations(object);
        if observed.is_none_or(|observed| observed < generation) {
            let message = match observed {
                None => "no controller has written a status; is a controller for rollouts at work?".to_owned(),
                Some(_) => format!("generation {generation} has not been observed by a controller yet"),
            };
            return Self { state: RolloutState::Unobserved, reason: "NotObserved".to_owned(), message };
        }
        let resource = match decode(object.clone()) {
            Ok(decoded) => decoded.into_sidecar_set(),
            Err(errors) => return Progress::stalled("InvalidSidecarSet", joined(&errors)).into(),
        };
        let version = prepared(&resource);
        let target =
            RolloutTarget::new(&version, &resource).with_upgrades(Upgrades::from_sidecar_set(&resource, settings), []);
        let counts = counts(object);
        Progress::after_round(&target, &counters::round(&target.strategy, counts), counts).into()
    }
}

impl From<Progress> for Standing {
    fn from(progress: Progress) -> Self {
        let state = if progress.is_stalled {
            RolloutState::Stalled
        } else if progress.is_ready {
            RolloutState::Ready
        } else if progress.is_reconciling {
            RolloutState::Reconciling
        } else {
            RolloutState::Waiting
        };
        Self { state, reason: progress.reason.to_owned(), message: progress.message }
    }
}

/// Returns a condition of a SidecarSet, if it is about the present generation.
pub fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    let (generation, _) = generations(object);
    let is_present = |condition: &Value| {
        let observed = json::at(condition, &["observedGeneration"]).and_then(Value::as_i64);
        observed.is_none_or(|observed| observed >= generation)
    };
    find(object, type_).filter(|condition| is_present(condition))
}

/// Returns `metadata.generation` and `status.observedGeneration`.
pub fn generations(object: &Value) -> (i64, Option<i64>) {
    let number = |path: &[&str]| json::at(object, path).and_then(Value::as_i64);
    (number(&["metadata", "generation"]).unwrap_or_default(), number(&["status", "observedGeneration"]))
}

/// Returns the counters of a status. An absent one is 0.
pub fn counts(object: &Value) -> Counts {
    let number = |key: &str| {
        let number = json::at(object, &["status", key]).and_then(Value::as_u64).unwrap_or_default();
        usize::try_from(number).unwrap_or(usize::MAX)
    };
    Counts {
        matched: number("matchedPods"),
        updated: number("updatedPods"),
        ready: number("readyPods"),
        updated_ready: number("updatedReadyPods"),
        // No status counts the others.
        ..Counts::default()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn set(api_version: &str, spec: &Value, status: &Value) -> Value {
        let mut set = json!({
            "apiVersion": api_version, "kind": "SidecarSet", "metadata": {"name": "logs", "generation": 3},
            "spec": {"containers": [{"name": "logs", "image": "logs:1"}]}, "status": status,
        });
        json_patch::merge(&mut set["spec"], spec);
        set
    }

    fn conditions(ready: &str, reconciling: &str, stalled: &str, generation: i64) -> Value {
        let of = |(type_, status)| {
            json!({
                "type": type_, "status": status, "reason": "Some", "message": "some text", "observedGeneration": generation,
            })
        };
        [("Ready", ready), ("Reconciling", reconciling), ("Stalled", stalled)].map(of).to_vec().into()
    }

    #[rstest]
    #[case::ready(conditions("True", "False", "False", 3), RolloutState::Ready)]
    #[case::going_on(conditions("False", "True", "False", 3), RolloutState::Reconciling)]
    #[case::stalled(conditions("False", "False", "True", 3), RolloutState::Stalled)]
    #[case::waiting(conditions("False", "False", "False", 3), RolloutState::Waiting)]
    fn conditions_tell_how_far_a_rollout_is(#[case] conditions: Value, #[case] state: RolloutState) {
        // The counters say something else.
        let status = json!({"observedGeneration": 3, "matchedPods": 2, "conditions": conditions});
        let standing =
            Standing::from_status(&set("apps.kruise.io/v1beta1", &json!({}), &status), &RolloutSettings::default());
        let expected = Standing { state, reason: "Some".to_owned(), message: "some text".to_owned() };
        assert_eq!(standing, expected);
    }

    #[rstest]
    #[case::nothing_written(json!({}), (RolloutState::Unobserved, "NotObserved"))]
    #[case::an_older_generation(
        json!({"observedGeneration": 2, "conditions": conditions("True", "False", "False", 2)}),
        (RolloutState::Unobserved, "NotObserved")
    )]
    #[case::conditions_of_an_older_generation(
        json!({"observedGeneration": 3, "matchedPods": 2, "conditions": conditions("True", "False", "False", 2)}),
        (RolloutState::Reconciling, "RollingOut")
    )]
    #[case::counters_alone(
        json!({"observedGeneration": 3, "matchedPods": 2, "updatedPods": 2, "updatedReadyPods": 2}),
        (RolloutState::Ready, "Complete")
    )]
    #[case::counters_of_pods_that_are_not_ready(
        json!({"observedGeneration": 3, "matchedPods": 2, "updatedPods": 2}), (RolloutState::Reconciling, "PodsNotReady")
    )]
    fn without_conditions_counters_of_the_present_generation_decide(
        #[case] status: Value,
        #[case] (state, reason): (RolloutState, &str),
        #[values("apps.kruise.io/v1beta1", "apps.kruise.io/v1alpha1")] api_version: &str,
    ) {
        let standing = Standing::from_status(&set(api_version, &json!({}), &status), &RolloutSettings::default());
        assert_eq!((standing.state, standing.reason.as_str()), (state, reason), "{}", standing.message);
    }

    #[test]
    fn a_sidecar_set_that_cannot_be_read_is_stalled() {
        let status = json!({"observedGeneration": 3});
        let set = set("apps.kruise.io/v1beta1", &json!({"containers": "none"}), &status);
        let standing = Standing::from_status(&set, &RolloutSettings::default());
        assert_eq!((standing.state, standing.reason.as_str()), (RolloutState::Stalled, "InvalidSidecarSet"));
        assert!(standing.message.contains("spec.containers"), "{}", standing.message);
    }
}
