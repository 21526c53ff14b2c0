//! The status of a SidecarSet: counters of its Pods (ROLL-15), and the conditions that tools such as `kubectl wait` and
//! kstatus read.

use std::time::Duration;

use pillion_kubernetes::field::joined;
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::condition::{self, Condition};
use pillion_plan::{Step, Subresource};
use serde_json::{Value, json};

use crate::budget;
use crate::counts::Counts;
use crate::deadline::PROGRESSING;
use crate::round::{Rest, Round};
use crate::target::RolloutTarget;

/// Whether the rollout has done what its strategy asks for.
pub const READY: &str = "Ready";
/// Whether the rollout goes on.
pub const RECONCILING: &str = "Reconciling";
/// Whether the rollout needs somebody's help.
pub const STALLED: &str = "Stalled";

/// The reasons while Pods are being upgraded.
pub(crate) const ROLLING_OUT: &str = "RollingOut";
const RESETTING: &str = "ResettingContainers";

/// The latest revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latest<'a> {
    /// Its name.
    pub name: &'a str,
    /// `collisionCount`.
    pub collisions: i32,
}

/// The progress of a rollout: status and reason of each condition, and one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Whether the rollout has done what its strategy asks for.
    pub is_ready: bool,
    /// Whether the rollout goes on.
    pub is_reconciling: bool,
    /// Whether the rollout needs somebody's help.
    pub is_stalled: bool,
    /// The reason, one word.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

impl Progress {
    fn ready(reason: &'static str, message: String) -> Self {
        Self { is_ready: true, is_reconciling: false, is_stalled: false, reason, message }
    }

    fn waiting(reason: &'static str, message: String) -> Self {
        Self { is_ready: false, is_reconciling: false, is_stalled: false, reason, message }
    }

    /// Returns the progress of a rollout that goes on.
    pub(crate) fn reconciling(reason: &'static str, message: String) -> Self {
        Self { is_ready: false, is_reconciling: true, is_stalled: false, reason, message }
    }

    /// Returns the progress of a rollout that needs somebody's help.
    pub fn stalled(reason: &'static str, message: String) -> Self {
        Self { is_ready: false, is_reconciling: false, is_stalled: true, reason, message }
    }

    /// Returns the progress after a round.
    pub fn after_round(target: &RolloutTarget<'_>, round: &Round, counts: Counts) -> Self {
        let Counts { matched, updated, updated_ready, resizing, absent, .. } = counts;
        let resizes = if resizing > 0 { format!("; resizes under way: {resizing}") } else { String::new() };
        let numbers = format!("{updated} of {matched} Pods are updated, {updated_ready} of them are ready{resizes}");
        match round {
            Round::Rest(Rest::Unreadable) => Self::stalled("InvalidStrategy", joined(&target.strategy.errors)),
            Round::Rest(Rest::NotUpdate) => {
                Self::ready("NotUpdate", format!("updateStrategy.type is NotUpdate; {numbers}"))
            }
            _ if updated == matched && updated_ready == matched && !matches!(round, Round::Reset(_)) => {
                Self::ready("Complete", numbers)
            }
            Round::Rest(Rest::Paused) => Self::waiting("Paused", format!("updateStrategy.paused is true; {numbers}")),
            Round::Rest(Rest::Done) => Self::reconciling("PodsNotReady", numbers),
            Round::Reset(pods) => {
                Self::reconciling(RESETTING, format!("{} Pods get their empty image; {numbers}", pods.len()))
            }
            Round::Upgrade { not_upgradable, chosen, open }
                if chosen.is_empty() && updated == updated_ready && resizing == 0 =>
            {
                let kept = budget::partition(target.strategy.limits.partition, matched);
                if !not_upgradable.is_empty() {
                    let count = not_upgradable.len();
                    Self::stalled(
                        "NotUpgradablePods",
                        format!("{count} Pods cannot be upgraded, and must be created again; {numbers}"),
                    )
                } else if *open == 0 {
                    Self::ready("SelectorReached", format!("updateStrategy.selector selects no other Pod; {numbers}"))
                } else if *open <= kept {
                    Self::ready("PartitionReached", format!("updateStrategy.partition keeps {kept} Pods; {numbers}"))
                } else if absent > 0 {
                    let text = format!(
                        "{absent} Pods are not ready for another reason than their containers, for example a node that \
                         is not ready, and are not upgraded until they are; {numbers}"
                    );
                    Self::reconciling("PodsAbsent", text)
                } else {
                    Self::waiting("NoPodSelected", format!("no Pod can be upgraded now; {numbers}"))
                }
            }
            Round::Upgrade { .. } => Self::reconciling(ROLLING_OUT, numbers),
        }
    }

    /// Whether Pods are being upgraded.
    pub fn is_rolling(&self) -> bool {
        [ROLLING_OUT, RESETTING].contains(&self.reason)
    }

    /// Returns the three conditions.
    pub fn conditions(&self) -> [Condition<'_>; 3] {
        let of = |type_, status| Condition { type_, status, reason: self.reason, message: &self.message, since: None };
        [of(READY, self.is_ready), of(RECONCILING, self.is_reconciling), of(STALLED, self.is_stalled)]
    }
}

/// What is written into the status of a SidecarSet.
#[derive(Clone, Debug)]
pub struct StatusReport<'a> {
    /// The counters; `None` leaves those of the status.
    pub counts: Option<(Counts, Latest<'a>)>,
    /// The conditions; empty if the API server does not keep conditions.
    pub conditions: Vec<Condition<'a>>,
}

/// The counters that OpenKruise's CustomResourceDefinition requires in a status.
const REQUIRED: [&str; 3] = ["matchedPods", "updatedPods", "readyPods"];

/// Returns the step that writes the report into the status of a SidecarSet; `None` if the status says it already. The
/// step leaves what others write.
pub fn step(sidecar_set: &Value, report: &StatusReport<'_>, now: Timestamp) -> Option<Step> {
    let status = sidecar_set.get("status").filter(|status| status.is_object());
    let generation = json::at(sidecar_set, &["metadata", "generation"]).and_then(Value::as_i64).unwrap_or_default();
    let counters = report.counts.iter().flat_map(|(counts, latest)| {
        let Counts { matched, updated, ready, updated_ready, resizing: _, absent: _ } = *counts;
        [
            ("observedGeneration", json!(generation)),
            ("matchedPods", json!(matched)),
            ("updatedPods", json!(updated)),
            ("readyPods", json!(ready)),
            ("updatedReadyPods", json!(updated_ready)),
            ("latestRevision", json!(latest.name)),
            ("collisionCount", json!(latest.collisions)),
        ]
    });
    let mut changed: Vec<(&str, Value)> = counters.filter(|(key, value)| !says(status, key, value)).collect();
    let mut conditions = condition::edits(sidecar_set, &report.conditions, now);
    conditions.extend(left_over(sidecar_set, &report.conditions));
    if changed.is_empty() && conditions.is_empty() {
        return None;
    }
    for key in REQUIRED {
        let is_known = status.is_some_and(|status| status.get(key).is_some());
        if !is_known && changed.iter().all(|(changed, _)| *changed != key) {
            changed.push((key, json!(0)));
        }
    }
    let uid = json::text(sidecar_set, &["metadata", "uid"]);
    let mut operations = vec![json!({"op": "test", "path": "/metadata/uid", "value": uid})];
    if status.is_none() {
        // The operations for the conditions expect a status.
        operations.push(json!({"op": "add", "path": "/status", "value": {}}));
    }
    operations.extend(
        changed.into_iter().map(|(key, value)| json!({"op": "add", "path": format!("/status/{key}"), "value": value})),
    );
    operations.extend(conditions);
    let object = condition::reference(sidecar_set);
    Some(Step::JsonPatch { object, subresource: Some(Subresource::Status), operations })
}

/// A status that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenStatus {
    at: Timestamp,
    generation: Option<i64>,
    reason: &'static str,
}

/// How long to wait until numbers alone are written into a status again, in seconds. While Pods restart, they change many
/// times a second.
const BETWEEN_NUMBERS: i64 = 2;

/// What is done about the status of a SidecarSet.
#[derive(Clone, Debug, PartialEq)]
pub enum StatusDecision {
    /// Nothing: it says already what it should.
    UpToDate,
    /// It differs in nothing but numbers from a status that was written a moment ago. It is written after this time.
    Later(Duration),
    /// It is written.
    Write(Step, WrittenStatus),
}

/// Decides about the status of a SidecarSet. `reason` is that of the progress, `last` the status that was written last.
pub fn decide(
    sidecar_set: &Value,
    report: &StatusReport<'_>,
    reason: &'static str,
    last: Option<&WrittenStatus>,
    now: Timestamp,
) -> StatusDecision {
    let Some(step) = step(sidecar_set, report, now) else { return StatusDecision::UpToDate };
    let generation = json::at(sidecar_set, &["metadata", "generation"]).and_then(Value::as_i64);
    let next = WrittenStatus { at: now, generation, reason };
    let is_alike = |last: &&WrittenStatus| (last.generation, last.reason) == (generation, reason);
    let left = last.filter(is_alike).map(|last| BETWEEN_NUMBERS.saturating_sub(now.0.saturating_sub(last.at.0)));
    match left.filter(|left| (1..=BETWEEN_NUMBERS).contains(left)) {
        Some(left) => StatusDecision::Later(Duration::from_secs(left.unsigned_abs())),
        None => StatusDecision::Write(step, next),
    }
}

/// Whether the API server has dropped the conditions of a report: the definition of SidecarSets has none, as that of
/// OpenKruise. `stored` is the object after the write.
pub fn drops_conditions(report: &StatusReport<'_>, stored: &Value) -> bool {
    !report.conditions.is_empty() && condition::find(stored, READY).is_none()
}

/// Returns the operations that remove the condition [`PROGRESSING`] if it is there and no longer asked for. They come last:
/// they change the positions of other conditions.
fn left_over(sidecar_set: &Value, wanted: &[Condition<'_>]) -> Vec<Value> {
    let is_it = |type_: &str| type_ == PROGRESSING;
    if wanted.is_empty() || wanted.iter().any(|condition| is_it(condition.type_)) {
        return Vec::new();
    }
    let mut known = json::items(sidecar_set, &["status", "conditions"]).iter();
    let Some(index) = known.position(|known| is_it(json::text(known, &["type"]))) else { return Vec::new() };
    let path = format!("/status/conditions/{index}");
    vec![
        json!({"op": "test", "path": format!("{path}/type"), "value": PROGRESSING}),
        json!({"op": "remove", "path": path}),
    ]
}

/// Whether the status has a value. An absent number is 0, except for the collision count.
fn says(status: Option<&Value>, key: &str, value: &Value) -> bool {
    let zero = json!(0);
    let known = status.and_then(|status| status.get(key)).filter(|known| !known.is_null());
    known.or_else(|| (key != "collisionCount").then_some(&zero)) == Some(value)
}
