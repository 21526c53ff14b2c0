//! The Pods that keep their version.

use rstest::rstest;
use serde_json::{Value, json};

use super::{WITHOUT_IMAGE, merge, pod, read, sidecar_set};
use crate::consistency::Judged;
use crate::left::left;
use crate::pod::Pod;
use crate::target::RolloutTarget;

const MORE: &str = "/metadata/annotations/kruise.io~1sidecarset-hash-without-image";

/// Returns what is reasons of four Pods: two with the label `canary`, of which the second one differs in more than images.
fn reasons(strategy: &Value) -> Vec<String> {
    let set = sidecar_set(&json!({}), strategy);
    let named = |name: &str, changes: &[(&str, Value)]| {
        let mut all = vec![("/metadata/name", json!(name)), ("/metadata/uid", json!(name))];
        all.extend_from_slice(changes);
        pod(&set, &all)
    };
    let canary = ("/metadata/labels/canary", json!("true"));
    let record = json!({"logs": {"hash": "other", "sidecarSetName": "logs", "sidecarList": ["agent"]}}).to_string();
    let mut updated = named("d", &[]);
    merge(
        &mut updated["metadata"]["annotations"],
        &json!({super::HASH: json!({"logs": {"hash": set.hash()}}).to_string(), WITHOUT_IMAGE: "{}"}),
    );
    let objects = [
        named("a", std::slice::from_ref(&canary)),
        named("b", &[canary, (MORE, json!(record))]),
        named("c", &[]),
        updated,
    ];
    let pods: Vec<Pod> = objects.iter().map(read).collect();
    let pods: Vec<&Pod> = pods.iter().collect();
    let target = RolloutTarget::new(&set, &set);
    let judged: Vec<Judged> = pods.iter().map(|pod| Judged::judge(&target, pod)).collect();
    let left = left(&target, &pods, &judged);
    left.into_iter().map(|(position, why)| format!("{}: {why}", pods[position].metadata.name)).collect()
}

const UNKNOWN: &str = "b: the version with which it was created is not stored any more";

#[rstest]
#[case::everything_that_can_be_is_upgraded(json!({}), &[UNKNOWN])]
#[case::a_pause_is_not_for_ever(json!({"paused": true}), &[UNKNOWN])]
#[case::a_partition(json!({"partition": 1}), &[UNKNOWN, "c: updateStrategy.partition keeps it"])]
#[case::a_selector(
    json!({"selector": {"matchLabels": {"canary": "true"}}}),
    &[UNKNOWN, "c: updateStrategy.selector does not select it"]
)]
#[case::no_rollout(
    json!({"type": "NotUpdate"}),
    &["a: updateStrategy.type is NotUpdate", "b: updateStrategy.type is NotUpdate", "c: updateStrategy.type is NotUpdate"]
)]
#[case::a_strategy_that_cannot_be_read(json!({"partition": "x"}), &[])]
fn roll69_pods_that_keep_their_version_and_why(#[case] strategy: Value, #[case] expected: &[&str]) {
    assert_eq!(reasons(&strategy), expected);
}

#[test]
fn roll62_roll69_pods_that_a_failed_rollout_has_not_reached() {
    let set = sidecar_set(&json!({}), &json!({}));
    let pods = [read(&pod(&set, &[]))];
    let pods: Vec<&Pod> = pods.iter().collect();
    let target = RolloutTarget::new(&set, &set).back_from("failed");
    let judged: Vec<Judged> = pods.iter().map(|pod| Judged::judge(&target, pod)).collect();
    let left = left(&target, &pods, &judged);
    let reasons: Vec<String> = left.iter().map(|(_, why)| why.to_string()).collect();
    assert_eq!(reasons, ["the rollout that failed has not reached it"]);
}
