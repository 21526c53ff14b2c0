//! Pods that are not ready for another reason than their containers (ROLL-35).

use pillion_kubernetes::time::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::{NOW, cold, pod, read, sidecar_set};
use crate::consistency::Judged;
use crate::pod::Pod;
use crate::round::{Round, round};
use crate::target::{RolloutTarget, Surroundings};

/// Returns the Pods that a round upgrades. Node `gone` is not ready.
fn chosen(most: usize, pods: &[Value]) -> Vec<usize> {
    let set = sidecar_set(&json!({}), &json!({"maxUnavailable": most}));
    let surroundings = Surroundings { now: NOW, unready_nodes: ["gone".to_owned()].into(), ..Surroundings::default() };
    let target = RolloutTarget::new(&set, &set).within(surroundings);
    let pods: Vec<Pod> = pods.iter().map(read).collect();
    let pods: Vec<&Pod> = pods.iter().collect();
    let judged: Vec<Judged> = pods.iter().map(|pod| Judged::judge(&target, pod)).collect();
    let Round::Upgrade { chosen, .. } = round(&target, &pods, &judged, |_| false) else { panic!("it rests") };
    chosen.iter().map(|chosen| chosen.pod).collect()
}

fn outdated(changes: &[(&str, Value)]) -> Value {
    pod(&cold(), changes)
}

/// Returns a Pod that is not ready since some seconds. Its sidecar has this status.
fn unready(seconds: i64, agent: &Value) -> Value {
    let since = Timestamp(NOW.0 - seconds).to_string();
    let ready = json!({"type": "Ready", "status": "False", "lastTransitionTime": since});
    let mut pod = outdated(&[("/status/conditions/0", ready)]);
    for (key, value) in agent.as_object().unwrap() {
        pod["status"]["containerStatuses"][0][key] = value.clone();
    }
    pod
}

fn running(is_ready: bool) -> Value {
    json!({"ready": is_ready, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}})
}

#[rstest]
#[case::its_containers_are_ready(unready(3600, &running(true)), &[])]
#[case::its_probes_have_not_run_yet(unready(5, &running(false)), &[])]
#[case::it_was_started_again(unready(5, &json!({"ready": false, "state": {"running": {"startedAt": NOW.to_string()}}})), &[0])]
#[case::it_stays_like_that(unready(30, &running(false)), &[0])]
#[case::it_crashes(unready(5, &json!({"ready": false, "state": {"waiting": {"reason": "CrashLoopBackOff"}}})), &[0])]
#[case::it_has_not_started(unready(5, &json!({"ready": false, "state": {"waiting": {"reason": "ContainerCreating"}}})), &[0])]
#[case::its_node_is_not_ready(outdated(&[("/spec/nodeName", json!("gone"))]), &[])]
#[case::it_was_broken_before_its_node(
    { let mut pod = unready(3600, &running(false)); pod["spec"]["nodeName"] = json!("gone"); pod }, &[]
)]
#[case::it_waits_for_a_node(outdated(&[("/status", json!({"phase": "Pending"})), ("/spec/nodeName", json!(""))]), &[0])]
fn roll35_a_pod_is_changed_for_its_containers_alone(#[case] pod: Value, #[case] expected: &[usize]) {
    assert_eq!(chosen(0, &[pod]), expected);
}

#[test]
fn roll35_pods_that_are_away_count() {
    let away = || outdated(&[("/spec/nodeName", json!("gone"))]);
    assert_eq!(chosen(1, &[away(), outdated(&[]), outdated(&[])]), [0_usize; 0]);
    assert_eq!(chosen(2, &[away(), outdated(&[]), outdated(&[])]), [1]);
    let in_its_place = unready(3600, &running(true));
    assert_eq!(chosen(2, &[outdated(&[]), in_its_place, outdated(&[])]), [0]);
}
