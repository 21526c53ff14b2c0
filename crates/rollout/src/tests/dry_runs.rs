//! What is remembered of dry runs.

use pillion_kubernetes::time::Timestamp;
use rstest::rstest;
use serde_json::json;

use super::{NOW, cold, sidecar_set};
use crate::dry_runs::{DryRun, DryRuns};
use crate::pod::Pod;
use crate::target::RolloutTarget;

fn pod() -> Pod {
    Pod::decode(&json!({
        "metadata": {
            "namespace": "shop", "name": "p", "uid": "p",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "w", "controller": true}],
        },
        "spec": {"containers": []},
    }))
    .unwrap()
}

#[rstest]
#[case::gets_it(DryRun::GetsVersion, 300, true, None, None)]
#[case::lacks_it(DryRun::LacksVersion("no".to_owned()), 600, false, Some("no"), None)]
#[case::unknown(
    DryRun::Unknown("no answer".to_owned()), 2, false,
    Some("whether new Pods of its ReplicaSet get the sidecar is not known: no answer"),
    Some("whether new Pods of ReplicaSet \"shop/w\" get SidecarSet \"logs\"")
)]
fn roll67_a_result_counts_for_some_time(
    #[case] result: DryRun,
    #[case] lasts: i64,
    #[case] gets_version: bool,
    #[case] why: Option<&str>,
    #[case] unknown: Option<&str>,
) {
    let (set, pod, mut results) = (cold(), pod(), DryRuns::default());
    let target = RolloutTarget::new(&set, &set);
    results.keep(&target, set.as_value(), NOW);
    assert_eq!(results.note("logs", &pod, &result, NOW).as_deref(), unknown);
    assert_eq!(results.unknown().next(), unknown);
    assert_eq!(results.not_injected().get("w").map(String::as_str), why);
    for (after, expected) in [(lasts - 1, Some(gets_version)), (lasts, None)] {
        results.keep(&target, set.as_value(), Timestamp(NOW.0 + after));
        // A question without an answer stays until the next dry run.
        let expected = if unknown.is_some() { Some(false) } else { expected };
        assert_eq!(results.gets_version(&pod), expected, "after {after} s");
        let is_due = unknown.is_some() && after == lasts;
        assert_eq!(results.due(Timestamp(NOW.0 + after)).contains("w"), is_due, "after {after} s");
    }
}

#[test]
fn roll67_a_result_is_about_one_version() {
    let (set, pod, mut results) = (cold(), pod(), DryRuns::default());
    results.keep(&RolloutTarget::new(&set, &set), set.as_value(), NOW);
    results.note("logs", &pod, &DryRun::GetsVersion, NOW);
    let next = sidecar_set(&json!({"image": "agent:v3"}), &json!({}));
    results.keep(&RolloutTarget::new(&next, &next), next.as_value(), NOW);
    assert_eq!(results.gets_version(&pod), None);
}

#[test]
fn roll67_a_dry_run_that_fails_is_tried_again_soon_and_then_more_rarely() {
    let (set, pod, mut results) = (cold(), pod(), DryRuns::default());
    let target = RolloutTarget::new(&set, &set);
    let mut now = NOW;
    let mut fails = |results: &mut DryRuns, result: &DryRun| {
        results.keep(&target, set.as_value(), now);
        results.note("logs", &pod, result, now);
        let wait = results.next_try(now);
        now = Timestamp(now.0 + wait.unwrap_or_default().cast_signed());
        wait
    };
    let unknown = DryRun::Unknown("no answer".to_owned());
    let waits: Vec<_> = (0..7).map(|_| fails(&mut results, &unknown)).collect();
    assert_eq!(waits, [2, 4, 8, 16, 32, 60, 60].map(Some));
    assert_eq!(fails(&mut results, &DryRun::GetsVersion), None);
    assert_eq!(fails(&mut results, &unknown), Some(2), "the times begin anew");
}
