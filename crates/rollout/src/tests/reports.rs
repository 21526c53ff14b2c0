//! The status of a SidecarSet.

use std::time::Duration;

use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::{Step, Subresource};
use rstest::rstest;
use serde_json::{Value, json};

use super::{NOW, after, cold, sidecar_set};
use crate::consistency::Judged;
use crate::counts::Counts;
use crate::method::UpgradeMethod;
use crate::round::{Chosen, Rest, Round};
use crate::status::{Latest, Progress, StatusDecision, StatusReport, decide, drops_conditions, step};
use crate::target::RolloutTarget;

const LATEST: Latest<'_> = Latest { name: "logs-1", collisions: 0 };

fn judged(is_updated: bool, is_consistent: bool, is_ready: bool) -> Judged {
    Judged { is_updated, is_consistent, is_ready, ..Judged::default() }
}

#[test]
fn roll15_pods_are_counted() {
    let all =
        [judged(true, true, true), judged(true, false, true), judged(false, true, true), judged(false, true, false)];
    assert_eq!(Counts::count(&all), Counts { matched: 4, updated: 2, ready: 2, updated_ready: 1, ..Counts::default() });
}

fn counts(matched: usize, updated: usize, updated_ready: usize) -> Counts {
    Counts { matched, updated, ready: updated_ready, updated_ready, ..Counts::default() }
}

fn upgrade(not_upgradable: &[usize], chosen: &[usize]) -> Round {
    let chosen = chosen.iter().map(|pod| Chosen { pod: *pod, method: UpgradeMethod::InPlace }).collect();
    Round::Upgrade { not_upgradable: not_upgradable.to_vec(), chosen, open: 2 }
}

fn nothing_open() -> Round {
    Round::Upgrade { not_upgradable: Vec::new(), chosen: Vec::new(), open: 0 }
}

#[rstest]
#[case::complete(json!({}), Round::Rest(Rest::Done), counts(3, 3, 3), "Complete", [true, false, false])]
#[case::not_ready_yet(json!({}), Round::Rest(Rest::Done), counts(3, 3, 2), "PodsNotReady", [false, true, false])]
#[case::goes_on(json!({}), upgrade(&[], &[0]), counts(3, 1, 1), "RollingOut", [false, true, false])]
#[case::waits_for_the_budget(json!({}), upgrade(&[], &[]), counts(3, 1, 0), "RollingOut", [false, true, false])]
#[case::paused(json!({}), Round::Rest(Rest::Paused), counts(3, 1, 1), "Paused", [false, false, false])]
#[case::paused_when_complete(json!({}), Round::Rest(Rest::Paused), counts(3, 3, 3), "Complete", [true, false, false])]
#[case::not_update(json!({}), Round::Rest(Rest::NotUpdate), counts(3, 1, 1), "NotUpdate", [true, false, false])]
#[case::partition(json!({"partition": 2}), upgrade(&[], &[]), counts(3, 1, 1), "PartitionReached", [true, false, false])]
#[case::not_upgradable(json!({}), upgrade(&[0], &[]), counts(3, 1, 1), "NotUpgradablePods", [false, false, true])]
#[case::reset(json!({}), Round::Reset(vec![0]), counts(3, 3, 3), "ResettingContainers", [false, true, false])]
#[case::selector(json!({"selector": {"matchLabels": {"a": "b"}}}), nothing_open(), counts(3, 1, 1), "SelectorReached", [true, false, false])]
#[case::nodes_are_away(json!({}), upgrade(&[], &[]), Counts { absent: 2, ..counts(3, 1, 1) }, "PodsAbsent", [false, true, false])]
#[case::the_partition_is_not_reached(json!({"partition": 1, "maxUnavailable": 0}), upgrade(&[], &[]), counts(3, 1, 1), "NoPodSelected", [false, false, false])]
#[case::nobody_is_selected(json!({}), upgrade(&[], &[]), counts(3, 1, 1), "NoPodSelected", [false, false, false])]
fn roll15_conditions_tell_how_far_it_is(
    #[case] strategy: Value,
    #[case] round: Round,
    #[case] counts: Counts,
    #[case] reason: &str,
    #[case] expected: [bool; 3],
) {
    let set = sidecar_set(&json!({}), &strategy);
    let progress = Progress::after_round(&RolloutTarget::new(&set, &set), &round, counts);
    assert_eq!(progress.reason, reason, "{progress:?}");
    assert_eq!(progress.conditions().map(|condition| condition.status), expected, "{progress:?}");
}

fn report(progress: &Progress) -> StatusReport<'_> {
    StatusReport { counts: Some((counts(3, 1, 1), LATEST)), conditions: progress.conditions().to_vec() }
}

#[rstest]
#[case::no_status(json!(null))]
#[case::status_of_another_controller(json!({"matchedPods": 2, "updatedPods": 0, "readyPods": 0}))]
#[case::conditions_of_others(json!({"matchedPods": 2, "conditions": [{"type": "InBundle", "status": "True"}]}))]
fn api9_roll15_a_status_is_written_once(#[case] status: Value) {
    let set = cold();
    let mut object = set.into_value();
    if !status.is_null() {
        object["status"] = status.clone();
    }
    let target_set = cold();
    let progress =
        Progress::after_round(&RolloutTarget::new(&target_set, &target_set), &upgrade(&[], &[0]), counts(3, 1, 1));
    let first = step(&object, &report(&progress), NOW).expect("a step");
    let Step::JsonPatch { subresource, .. } = &first else { panic!("a JSON Patch") };
    assert_eq!(*subresource, Some(Subresource::Status));
    let now = after(&object, &first);
    let number = |key: &str| now["status"][key].as_i64();
    assert_eq!(
        ["matchedPods", "updatedPods", "readyPods", "updatedReadyPods", "observedGeneration"].map(number),
        [Some(3), Some(1), Some(1), Some(1), Some(2)]
    );
    assert_eq!((&now["status"]["latestRevision"], &now["status"]["collisionCount"]), (&json!("logs-1"), &json!(0)));
    let types: Vec<&str> =
        json::items(&now, &["status", "conditions"]).iter().map(|it| json::text(it, &["type"])).collect();
    assert!(types.ends_with(&["Ready", "Reconciling", "Stalled"]), "{types:?}");
    assert_eq!(step(&now, &report(&progress), NOW), None, "nothing is written twice");
}

#[test]
fn where_conditions_are_dropped_the_counters_are_written_alone() {
    let object = cold().into_value();
    let report = StatusReport { counts: Some((counts(3, 1, 1), LATEST)), conditions: Vec::new() };
    let now = after(&object, &step(&object, &report, NOW).expect("a step"));
    assert_eq!(now["status"].get("conditions"), None);
    assert_eq!(step(&now, &report, NOW), None);
}

/// OpenKruise's CustomResourceDefinition refuses a status without these.
#[rstest]
#[case::of_no_pods(Some((Counts::default(), LATEST)))]
#[case::of_a_set_that_is_not_rolled_out(None)]
fn roll15_the_first_status_has_the_counters_that_are_required(#[case] counts: Option<(Counts, Latest<'_>)>) {
    let object = json!({"metadata": {"name": "logs", "uid": "1", "resourceVersion": "5", "generation": 1}});
    let progress = Progress::stalled("InvalidSelector", "a message".to_owned());
    let report = StatusReport { counts, conditions: progress.conditions().to_vec() };
    let now = after(&object, &step(&object, &report, NOW).expect("a step"));
    for key in ["matchedPods", "updatedPods", "readyPods"] {
        assert_eq!(now["status"][key], 0, "{key}: {now}");
    }
    assert_eq!(step(&now, &report, NOW), None);
}

#[rstest]
#[case::numbers(0, 2, "RollingOut", Some(2))]
#[case::numbers_a_second_later(1, 2, "RollingOut", Some(1))]
#[case::numbers_later(2, 2, "RollingOut", None)]
#[case::another_version_of_the_sidecar_set(0, 3, "RollingOut", None)]
#[case::another_reason(0, 2, "Complete", None)]
#[case::the_clock_was_set_back(-10, 2, "RollingOut", None)]
fn numbers_alone_are_written_every_two_seconds(
    #[case] seconds: i64,
    #[case] generation: i64,
    #[case] reason: &'static str,
    #[case] later: Option<u64>,
) {
    let progress = Progress::reconciling("RollingOut", String::new());
    let mut object = cold().into_value();
    let first = decide(&object, &report(&progress), "RollingOut", None, NOW);
    let StatusDecision::Write(_, last) = first else { panic!("it is written: {first:?}") };
    object["metadata"]["generation"] = json!(generation);
    let now = Timestamp(NOW.0 + seconds);
    let next = decide(&object, &report(&progress), reason, Some(&last), now);
    match later {
        Some(left) => assert_eq!(next, StatusDecision::Later(Duration::from_secs(left))),
        None => assert!(matches!(next, StatusDecision::Write(..)), "{next:?}"),
    }
}

#[rstest]
#[case::kept(json!({"status": {"conditions": [{"type": "Ready"}]}}), true, false)]
#[case::dropped(json!({"status": {"matchedPods": 3}}), true, true)]
#[case::none_was_written(json!({"status": {"matchedPods": 3}}), false, false)]
fn an_api_server_may_drop_conditions(#[case] stored: Value, #[case] has_conditions: bool, #[case] expected: bool) {
    let progress = Progress::reconciling("RollingOut", String::new());
    let conditions = if has_conditions { progress.conditions().to_vec() } else { Vec::new() };
    let report = StatusReport { counts: None, conditions };
    assert_eq!(drops_conditions(&report, &stored), expected);
}
