//! What a round writes: the record of a failure alone, or an Event, the status and Pods.

use std::collections::BTreeMap;

use pillion_kubernetes::duration::Duration;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::failure::{Cause, Failed, digest};
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::upgrades::Upgrades;
use rstest::rstest;
use serde_json::json;

use super::{NOW, cold, pod, read, revision, sidecar_set};
use crate::deadline::{Clock, Pace};
use crate::decide::{Decision, Next, RoundReport, decide};
use crate::history::Revision;
use crate::observed::{BundleState, Observed};
use crate::round::Round;
use crate::target::RolloutTarget;

const DEADLINE: i64 = 600;

/// Returns the record of a failure of this SidecarSet.
fn record(set: &SidecarSet) -> Failed {
    Failed {
        at: "2026-01-01T00:00:00Z".to_owned(),
        reason: Cause::ProgressDeadlineExceeded,
        message: "no progress".to_owned(),
        sidecar_set_digest: digest(set),
        hash: set.hash().to_owned(),
        back: None,
    }
}

/// Decides on a rollout to one Pod that has an earlier version. The last progress was `waited` seconds ago.
fn decided(set: &SidecarSet, waited: i64, rollback: bool, failed: Option<&Failed>) -> (Decision, [String; 2]) {
    let earlier = sidecar_set(&json!({"image": "agent:v1"}), &json!({}));
    let revisions =
        [revision(&earlier, 1, &json!({})), revision(set, 2, &failed.map(super::failed).unwrap_or_default())];
    let revisions: Vec<&Revision> = revisions.iter().collect();
    let progress_deadline = Some(Duration(DEADLINE * 1_000_000_000));
    let upgrades = Upgrades { progress_deadline, rollback, ..Upgrades::default() };
    let target = RolloutTarget::new(set, set).with_upgrades((upgrades, Vec::new()), revisions.iter().copied());
    let pod = read(&pod(set, &[]));
    let clock = Clock {
        revision: revisions[1].name().to_owned(),
        matched: 1,
        updated: 0,
        updated_ready: 0,
        since: Timestamp(NOW.0 - waited),
        pace: Pace::Counting,
    };
    let decision = decide(&Observed {
        resource: set,
        object: set.as_value(),
        target: &target,
        pods: &[&pod],
        members: 1,
        reshaped: 0,
        bundle: BundleState::Current,
        asked: &BTreeMap::default(),
        uncertain: &BTreeMap::default(),
        held: &[],
        revision: revisions[1],
        revisions: &revisions,
        rollback: None,
        clock: Some(&clock),
        now: NOW,
    });
    (decision, [revisions[0].name().to_owned(), revisions[1].name().to_owned()])
}

fn report(decision: Decision) -> RoundReport {
    match decision.next {
        Next::Report(report) => report,
        Next::ChangeRecord(change) => panic!("{change:?}"),
    }
}

#[rstest]
#[case::it_may_go_back(true)]
#[case::it_stays(false)]
fn roll61_roll62_a_failure_is_recorded_before_anything_else(#[case] rollback: bool) {
    let (decision, [earlier, _]) = decided(&cold(), DEADLINE, rollback, None);
    let Next::ChangeRecord(change) = decision.next else { panic!("{:?}", decision.next) };
    let failure = change.failure.unwrap();
    assert_eq!(failure.reason, Cause::ProgressDeadlineExceeded);
    assert_eq!(failure.back, rollback.then_some(earlier));
}

#[test]
fn roll61_pods_are_upgraded_until_the_deadline_is_over() {
    let (decision, _) = decided(&cold(), DEADLINE - 1, true, None);
    assert_eq!(decision.clock.as_ref().unwrap().pace, Pace::Counting);
    let report = report(decision);
    assert_eq!((report.stopped, report.failure), (None, None));
    assert!(matches!(report.round, Round::Upgrade { chosen, .. } if chosen.len() == 1));
}

#[test]
fn roll61_a_rollout_that_has_failed_is_reported_and_stops() {
    let set = cold();
    let (decision, [_, failed]) = decided(&set, DEADLINE, false, Some(&record(&set)));
    assert_eq!(decision.clock.as_ref().unwrap().pace, Pace::Failed);
    let report = report(decision);
    assert_eq!(report.stopped, Some(Cause::ProgressDeadlineExceeded));
    assert!(report.progress.is_stalled, "{:?}", report.progress);
    assert_eq!(report.failure.unwrap().revision, failed);
}

#[test]
fn roll61_a_record_of_another_content_is_removed_first() {
    let set = cold();
    let other = Failed { sidecar_set_digest: "other".to_owned(), ..record(&set) };
    let (decision, _) = decided(&set, DEADLINE, false, Some(&other));
    let Next::ChangeRecord(change) = decision.next else { panic!("{:?}", decision.next) };
    assert_eq!((change.failure, change.why), (None, "the rollout begins again"));
}
