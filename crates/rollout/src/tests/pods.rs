//! Which Pods belong to a SidecarSet, and their states.

use rstest::rstest;
use serde_json::{Value, json};

use super::{STATE, cold, hot, paired, pod, read, status};
use crate::consistency::{Judged, has_all_sidecars, is_candidate, is_consistent, is_ready};
use crate::target::RolloutTarget;

#[rstest]
#[case::injected("/metadata/labels", json!({}), true)]
#[case::of_others("/metadata/annotations/kruise.io~1sidecarset-injected-list", json!("logs-2,audit"), false)]
#[case::never_injected("/metadata/annotations", json!({}), false)]
#[case::one_of_several("/metadata/annotations/kruise.io~1sidecarset-injected-list", json!("audit,logs"), true)]
#[case::ended("/status/phase", json!("Succeeded"), false)]
#[case::failed("/status/phase", json!("Failed"), false)]
#[case::pending("/status/phase", json!("Pending"), true)]
#[case::being_deleted("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"), false)]
#[case::without_the_sidecar("/spec/containers", json!([{"name": "main", "image": "app:1"}]), false)]
fn roll10_pods_of_a_sidecar_set(#[case] pointer: &str, #[case] value: Value, #[case] expected: bool) {
    let set = cold();
    let target = RolloutTarget::new(&set, &set);
    assert_eq!(is_candidate(&target, &read(&pod(&set, &[(pointer, value)]))), expected);
}

#[rstest]
#[case::both("/metadata/labels", json!({}), true)]
#[case::no_record("/metadata/annotations/kruise.io~1sidecarset-working-hotupgrade-container", json!("{}"), false)]
#[case::no_json("/metadata/annotations/kruise.io~1sidecarset-working-hotupgrade-container", json!("agent"), false)]
#[case::one_container("/spec/containers/1", json!({"name": "other", "image": "empty:1"}), false)]
fn roll11_a_pair_needs_both_containers_and_the_record(
    #[case] pointer: &str,
    #[case] value: Value,
    #[case] expected: bool,
) {
    let set = hot();
    assert_eq!(has_all_sidecars(&RolloutTarget::new(&set, &set), &read(&paired(&set, &[(pointer, value)]))), expected);
}

#[rstest]
#[case::ready("/metadata/labels", json!({}), true)]
#[case::not_running("/status/phase", json!("Pending"), false)]
#[case::not_ready("/status/conditions/0", json!({"type": "Ready", "status": "False"}), false)]
#[case::no_condition("/status/conditions", json!([]), false)]
#[case::being_deleted("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"), false)]
#[case::idle_container_with_an_image("/spec/containers/1", json!({"name": "agent-2", "image": "agent:v2"}), false)]
fn roll16_ready_pods(#[case] pointer: &str, #[case] value: Value, #[case] expected: bool) {
    let set = hot();
    assert_eq!(is_ready(&RolloutTarget::new(&set, &set), &read(&paired(&set, &[(pointer, value)]))), expected);
}

/// A Pod whose spec has `agent:v2` already.
fn upgraded(state: &Value, running: &str) -> Value {
    let set = cold();
    pod(
        &set,
        &[
            ("/spec/containers/0", json!({"name": "agent", "image": "agent:v2"})),
            ("/status/containerStatuses/0", status("agent", running)),
            ("/metadata/annotations/kruise.io~1sidecarset-inplace-update-state", state.clone()),
        ],
    )
}

#[rstest]
#[case::not_started_yet(json!(r#"{"logs":{"lastContainerStatuses":{"agent":{"imageID":"docker://sha256:agent:v1"}}}}"#), "agent:v1", false)]
#[case::started(json!(r#"{"logs":{"lastContainerStatuses":{"agent":{"imageID":"docker://sha256:agent:v1"}}}}"#), "agent:v2", true)]
#[case::recorded_for_another_set(json!(r#"{"audit":{"lastContainerStatuses":{"agent":{"imageID":"docker://sha256:agent:v1"}}}}"#), "agent:v1", true)]
#[case::recorded_with_another_image(json!(r#"{"logs":{"lastContainerStatuses":{"agent":{"imageID":"docker://sha256:agent:v0"}}}}"#), "agent:v1", true)]
#[case::null(json!("null"), "agent:v1", true)]
#[case::no_json(json!("agent"), "agent:v1", false)]
#[case::null_for_the_set(json!(r#"{"logs":null}"#), "agent:v1", true)]
#[case::another_type(json!(r#"{"audit":1}"#), "agent:v1", false)]
#[case::another_type_within(json!(r#"{"audit":{"lastContainerStatuses":{"agent":1}}}"#), "agent:v1", false)]
#[case::another_type_of_the_revision(json!(r#"{"audit":{"revision":1}}"#), "agent:v1", false)]
#[case::no_time(json!(r#"{"audit":{"updateTimestamp":"now"}}"#), "agent:v1", false)]
#[case::no_json_and_the_image_runs(json!("agent"), "agent:v2", true)]
fn roll20_images_by_tag_are_judged_by_the_record(#[case] state: Value, #[case] running: &str, #[case] expected: bool) {
    let set = cold();
    assert_eq!(is_consistent(&RolloutTarget::new(&set, &set), &read(&upgraded(&state, running)), |_| true), expected);
    assert!(read(&upgraded(&state, running)).metadata.annotations.contains_key(STATE));
}

#[test]
fn roll20_a_container_without_a_status_is_inconsistent() {
    let set = cold();
    let pod = pod(&set, &[("/status/containerStatuses", json!([status("agent", "agent:v1")]))]);
    assert!(!is_consistent(&RolloutTarget::new(&set, &set), &read(&pod), |_| true));
}

#[rstest]
#[case::another_hash(r#"{"logs":{"hash":"old"}}"#, false)]
#[case::no_json("broken", false)]
#[case::of_others(r#"{"audit":{"hash":"HASH"}}"#, false)]
#[case::same(r#"{"logs":{"hash":"HASH"}}"#, true)]
#[case::legacy(r#"{"logs":"HASH"}"#, true)]
fn roll15_a_pod_is_updated_if_its_record_has_the_hash(#[case] record: &str, #[case] expected: bool) {
    let set = cold();
    let record = json!(record.replace("HASH", set.hash()));
    let pod = read(&pod(&set, &[("/metadata/annotations/kruise.io~1sidecarset-hash", record)]));
    assert_eq!(Judged::judge(&RolloutTarget::new(&set, &set), &pod).is_updated, expected);
}
