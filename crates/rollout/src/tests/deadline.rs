//! The progress deadline: what counts as progress, and when time counts.

use std::time::Duration;

use pillion_kubernetes::duration::Duration as Span;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::failure::Cause;
use pillion_sidecarset::sidecar_set::SidecarSet;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::{NOW, after, cold, pod, read, sidecar_set, status};
use crate::consistency::Judged;
use crate::counts::Counts;
use crate::deadline::{Activity, Clock, PROGRESSING, Pace};
use crate::pod::Pod;
use crate::round::round;
use crate::status::{Latest, Progress, StatusReport, step};
use crate::target::{RolloutTarget, Surroundings};

const DEADLINE: Span = Span(60_000_000_000);

fn at(seconds: i64) -> Timestamp {
    Timestamp(NOW.0 + seconds)
}

fn counts(matched: usize, updated: usize, updated_ready: usize) -> Counts {
    Counts { matched, updated, ready: updated_ready, updated_ready, ..Counts::default() }
}

fn clock(updated: usize, updated_ready: usize, pace: Pace) -> Clock {
    Clock { revision: "logs-1".to_owned(), matched: 5, updated, updated_ready, since: NOW, pace }
}

#[rstest]
#[case::an_updated_pod(counts(5, 3, 1), 30)]
#[case::a_ready_pod(counts(5, 2, 2), 30)]
#[case::nothing(counts(5, 2, 1), 0)]
#[case::a_pod_that_is_not_ready_any_more(counts(5, 2, 0), 0)]
#[case::more_pods_with_the_old_version(counts(9, 2, 1), 0)]
fn roll61_growing_numbers_are_progress(#[case] counts: Counts, #[case] since: i64) {
    let next = Clock::next(Some(clock(2, 1, Pace::Counting)), "logs-1", counts, Activity::Working, at(30));
    assert_eq!((next.since, next.pace), (at(since), Pace::Counting));
}

#[test]
fn roll61_a_pod_that_becomes_ready_again_and_again_is_no_progress() {
    let mut clock = clock(2, 2, Pace::Counting);
    for (seconds, ready) in [(10, 1), (20, 2), (30, 1), (40, 2)] {
        clock = Clock::next(Some(clock), "logs-1", counts(5, 2, ready), Activity::Working, at(seconds));
    }
    assert_eq!(clock.since, NOW);
}

#[test]
fn roll61_the_numbers_of_fewer_pods_grow_from_where_they_are() {
    let half = Clock::next(Some(clock(4, 4, Pace::Counting)), "logs-1", counts(3, 1, 1), Activity::Working, at(10));
    assert_eq!((half.since, half.updated), (NOW, 1), "losing Pods is no progress");
    let more = Clock::next(Some(half), "logs-1", counts(3, 2, 1), Activity::Working, at(20));
    assert_eq!(more.since, at(20));
}

#[rstest]
#[case::it_begins(None, Activity::Working, Pace::Counting, true)]
#[case::it_goes_on(Some(Pace::Counting), Activity::Working, Pace::Counting, false)]
#[case::the_last_pods_become_ready(Some(Pace::Counting), Activity::Settling, Pace::Counting, false)]
#[case::it_is_done(Some(Pace::Counting), Activity::Satisfied, Pace::Satisfied, false)]
#[case::a_pod_fails_long_after_it_was_done(Some(Pace::Satisfied), Activity::Settling, Pace::Satisfied, false)]
#[case::it_may_have_been_done_long_ago(None, Activity::Settling, Pace::Satisfied, true)]
#[case::a_pod_with_an_older_version_comes(Some(Pace::Satisfied), Activity::Working, Pace::Counting, true)]
#[case::it_is_paused(Some(Pace::Counting), Activity::Stopped, Pace::Resting, false)]
#[case::it_is_resumed(Some(Pace::Resting), Activity::Working, Pace::Counting, true)]
#[case::it_is_resumed_while_a_pod_starts(Some(Pace::Resting), Activity::Settling, Pace::Counting, true)]
#[case::it_is_paused_when_it_is_done(Some(Pace::Satisfied), Activity::Stopped, Pace::Satisfied, false)]
#[case::it_is_tried_again(Some(Pace::Failed), Activity::Working, Pace::Counting, true)]
#[case::it_is_tried_again_with_the_last_pods(Some(Pace::Failed), Activity::Settling, Pace::Counting, true)]
fn roll61_time_counts_while_the_rollout_has_work(
    #[case] before: Option<Pace>,
    #[case] activity: Activity,
    #[case] expected: Pace,
    #[case] starts: bool,
) {
    let before = before.map(|pace| clock(2, 1, pace));
    let next = Clock::next(before, "logs-1", counts(5, 2, 1), activity, at(30));
    assert_eq!((next.pace, next.since), (expected, if starts { at(30) } else { NOW }));
    assert_eq!(next.left(DEADLINE, at(30)).is_some(), expected == Pace::Counting);
}

#[test]
fn roll61_another_revision_has_a_clock_of_its_own() {
    let next = Clock::next(Some(clock(5, 5, Pace::Counting)), "logs-2", counts(5, 0, 0), Activity::Working, at(30));
    assert_eq!((next.revision.as_str(), next.updated, next.since), ("logs-2", 0, at(30)));
}

#[rstest]
#[case::much(Span(60_000_000_000), 0, 60)]
#[case::the_last_second(Span(60_000_000_000), 59, 1)]
#[case::over(Span(60_000_000_000), 60, 0)]
#[case::long_over(Span(60_000_000_000), 600, 0)]
#[case::a_fraction_counts_as_a_second(Span(1), 0, 1)]
#[case::the_clock_was_set_back(Span(60_000_000_000), -5, 65)]
fn roll61_the_key_is_woken_when_the_deadline_is_over(#[case] deadline: Span, #[case] now: i64, #[case] left: u64) {
    assert_eq!(clock(0, 0, Pace::Counting).left(deadline, at(now)), Some(Duration::from_secs(left)));
}

fn updated(set: &SidecarSet, is_ready: bool) -> Pod {
    let record = json!({"logs": {"hash": set.hash()}}).to_string();
    let ready = json!({"type": "Ready", "status": if is_ready { "True" } else { "False" }});
    read(&pod(
        set,
        &[("/metadata/annotations/kruise.io~1sidecarset-hash", json!(record)), ("/status/conditions/0", ready)],
    ))
}

fn outdated(set: &SidecarSet) -> Pod {
    read(&pod(set, &[]))
}

/// A Pod of which more than images has changed.
fn stuck(set: &SidecarSet) -> Pod {
    let record = json!(r#"{"logs":{"hash":"other"}}"#);
    read(&pod(set, &[("/metadata/annotations/kruise.io~1sidecarset-hash-without-image", record)]))
}

/// A Pod whose last upgrade has not begun yet.
fn under_way(set: &SidecarSet) -> Pod {
    let state = json!(r#"{"logs":{"lastContainerStatuses":{"agent":{"imageID":"docker://sha256:agent:v0"}}}}"#);
    let changes = [
        ("/metadata/annotations/kruise.io~1sidecarset-inplace-update-state", state),
        ("/status/containerStatuses/0", status("agent", "agent:v0")),
    ];
    read(&pod(set, &changes))
}

fn on_unready_node(mut pod: Pod) -> Pod {
    pod.node = "gone".to_owned();
    pod
}

/// `u` is an updated Pod, `n` one that is not ready, `o` an outdated one, `s` one that cannot be upgraded, `w` one whose
/// last upgrade is under way, `a` an outdated one whose node is not ready, `x` an updated one of such a node.
#[rstest]
#[case::pods_are_chosen(json!({}), "uo", Activity::Working)]
#[case::the_budget_is_used_up(json!({}), "no", Activity::Working)]
#[case::an_upgrade_is_under_way(json!({}), "uw", Activity::Working)]
#[case::the_last_pod_starts(json!({}), "un", Activity::Settling)]
#[case::all_are_ready(json!({}), "uu", Activity::Satisfied)]
#[case::there_are_no_pods(json!({}), "", Activity::Satisfied)]
#[case::paused(json!({"paused": true}), "no", Activity::Stopped)]
#[case::not_update(json!({"type": "NotUpdate"}), "no", Activity::Stopped)]
#[case::unreadable(json!({"partition": "some"}), "no", Activity::Stopped)]
#[case::the_partition_is_reached(json!({"partition": 1}), "uo", Activity::Satisfied)]
#[case::the_partition_is_reached_and_a_pod_starts(json!({"partition": 1}), "no", Activity::Settling)]
#[case::the_partition_is_not_reached(json!({"partition": 1}), "noo", Activity::Working)]
#[case::nobody_is_selected(json!({"selector": {"matchLabels": {"canary": "true"}}}), "oo", Activity::Satisfied)]
#[case::none_may_be_unavailable(json!({"maxUnavailable": 0}), "oo", Activity::Satisfied)]
#[case::none_can_be_upgraded(json!({}), "us", Activity::Satisfied)]
#[case::the_others_are_away(json!({}), "uaa", Activity::Stopped)]
#[case::the_others_are_away_and_a_pod_starts(json!({}), "naa", Activity::Working)]
#[case::some_are_away(json!({"maxUnavailable": 3}), "oaa", Activity::Working)]
#[case::the_partition_keeps_those_that_are_away(json!({"partition": 2}), "uaa", Activity::Satisfied)]
#[case::an_updated_one_is_away(json!({}), "ux", Activity::Satisfied)]
fn roll61_a_rollout_that_rests_by_its_strategy_has_no_work(
    #[case] strategy: Value,
    #[case] pods: &str,
    #[case] expected: Activity,
) {
    let set = sidecar_set(&json!({}), &strategy);
    let pods: Vec<Pod> = pods
        .chars()
        .map(|one| match one {
            'u' => updated(&set, true),
            'n' => updated(&set, false),
            's' => stuck(&set),
            'w' => under_way(&set),
            'a' => on_unready_node(outdated(&set)),
            'x' => on_unready_node(updated(&set, false)),
            _ => outdated(&set),
        })
        .collect();
    let unready_nodes = ["gone".to_owned()].into();
    let target = RolloutTarget::new(&set, &set).within(Surroundings { unready_nodes, ..Surroundings::default() });
    let pods: Vec<&Pod> = pods.iter().collect();
    let judged: Vec<Judged> = pods.iter().map(|pod| Judged::judge(&target, pod)).collect();
    let round = round(&target, &pods, &judged, |_| false);
    assert_eq!(Activity::after_round(&target, &round, &pods, &judged), expected, "{round:?}");
}

/// Returns a SidecarSet in whose status the clock was written, after it had this status.
fn written(status: Option<Value>, clock: Option<&Clock>, failed: Option<Cause>) -> Value {
    let set = cold();
    let mut object = set.clone().into_value();
    if let Some(status) = status {
        object["status"] = status;
    }
    let progress = Progress::stalled("InvalidSelector", "a message".to_owned());
    let message = clock.map(|clock| clock.message(DEADLINE)).unwrap_or_default();
    let condition = clock.map(|clock| clock.condition(failed, &message));
    let conditions = progress.conditions().into_iter().chain(condition).collect();
    let report = StatusReport { counts: Some((counts(5, 2, 1), Latest { name: "logs-1", collisions: 0 })), conditions };
    match step(&object, &report, at(100)) {
        Some(step) => after(&object, &step),
        None => object,
    }
}

#[rstest]
#[case::counting(Pace::Counting, None, "True", "WaitingForProgress", "the rollout fails at 2026-01-02T03:05:05Z")]
#[case::resting(Pace::Resting, None, "True", "Resting", "the strategy or Pods that are away stop the rollout")]
#[case::satisfied(Pace::Satisfied, None, "True", "Satisfied", "has done what its strategy asks for")]
#[case::failed(Pace::Failed, Some(Cause::ContainersFail), "False", "ContainersFail", "1 of them were ready")]
fn roll61_the_condition_survives_a_restart(
    #[case] pace: Pace,
    #[case] failed: Option<Cause>,
    #[case] status: &str,
    #[case] reason: &str,
    #[case] text: &str,
) {
    let clock = clock(2, 1, pace);
    let object = written(None, Some(&clock), failed);
    let condition = &object["status"]["conditions"][3];
    assert_eq!((&condition["type"], &condition["status"]), (&json!(PROGRESSING), &json!(status)));
    assert_eq!((&condition["reason"], &condition["lastTransitionTime"]), (&json!(reason), &json!(NOW.to_string())));
    assert!(condition["message"].as_str().unwrap().contains(text), "{condition}");
    assert_eq!(Clock::read(&object, "logs-1").as_ref(), Some(&clock));
    assert_eq!(Clock::read(&object, "logs-2"), None, "another revision");
    assert_eq!(written(Some(object["status"].clone()), Some(&clock), failed), object, "it is written once");

    let later = Clock { since: at(50), updated: 3, ..clock };
    let object = written(Some(object["status"].clone()), Some(&later), failed);
    assert_eq!(object["status"]["conditions"][3]["lastTransitionTime"], at(50).to_string(), "the time follows");
}

#[test]
fn roll61_the_condition_goes_if_no_deadline_is_asked_for() {
    let others = json!({"conditions": [{"type": "InBundle", "status": "True"}]});
    let object = written(Some(others), Some(&clock(2, 1, Pace::Counting)), None);
    let object = written(Some(object["status"].clone()), None, None);
    let types: Vec<&Value> =
        object["status"]["conditions"].as_array().unwrap().iter().map(|condition| &condition["type"]).collect();
    assert_eq!(types, ["InBundle", "Ready", "Reconciling", "Stalled"]);
    assert_eq!(written(Some(object["status"].clone()), None, None), object);
}

#[rstest]
#[case::of_another_author(json!({"message": "ReplicaSet has progressed"}))]
#[case::another_reason(json!({"reason": "NewReplicaSetAvailable"}))]
#[case::no_time(json!({"lastTransitionTime": "soon"}))]
fn roll61_a_condition_that_cannot_be_read_is_none(#[case] change: Value) {
    let mut object = written(None, Some(&clock(2, 1, Pace::Counting)), None);
    super::merge(&mut object["status"]["conditions"][3], &change);
    assert_eq!(Clock::read(&object, "logs-1"), None);
}

proptest! {
    #[test]
    fn roll61_the_clock_never_goes_back_and_never_runs_ahead(
        steps in prop::collection::vec((0..8_usize, 0..8_usize, 0..8_usize, 0..4_usize, 1..100_i64), 1..30),
    ) {
        let activities = [Activity::Working, Activity::Settling, Activity::Stopped, Activity::Satisfied];
        let (mut clock, mut now): (Option<Clock>, i64) = (None, 0);
        for (matched, updated, ready, activity, passed) in steps {
            now += passed;
            let (updated, activity) = (updated.min(matched), activities[activity]);
            let counts = counts(matched, updated, ready.min(updated));
            let before = clock.clone();
            let next = Clock::next(clock, "logs-1", counts, activity, at(now));
            prop_assert!(next.since <= at(now));
            prop_assert!(before.as_ref().is_none_or(|before| before.since <= next.since));
            // A restart changes nothing.
            let stored = written(None, Some(&next), None);
            prop_assert_eq!(Clock::read(&stored, "logs-1"), Some(next.clone()));
            // Without growth, a clock that counts goes on.
            if let Some(before) = before.filter(|before| before.pace == Pace::Counting && next.pace == Pace::Counting) {
                let grows = updated > before.updated || counts.updated_ready > before.updated_ready;
                prop_assert_eq!(next.since == at(now), grows || before.since == at(now));
            }
            clock = Some(next);
        }
    }
}
