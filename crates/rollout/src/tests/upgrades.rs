//! What an upgrade does to a Pod.

use pillion_plan::{Step, Subresource};
use pillion_sidecarset::sidecar_set::SidecarSet;
use rstest::rstest;
use serde_json::{Value, json};

use super::{HASH, NOW, STATE, WITHOUT_IMAGE, WORKING, after, cold, hot, paired, pod, read, sidecar_set, status};
use crate::hot::is_reset_due;
use crate::pod::Pod;
use crate::pod::in_place::BEFORE;
use crate::target::RolloutTarget;
use crate::upgradable;
use crate::upgrade::{reset, upgrade};

fn upgraded(set: &SidecarSet, pod: &Value) -> Value {
    let seen = read(pod);
    let edit = upgrade(&RolloutTarget::new(set, set), &seen, "logs-1", NOW).unwrap();
    after(pod, &edit.step(&seen))
}

fn annotation(pod: &Value, key: &str) -> Value {
    let text = pod["metadata"]["annotations"][key].as_str().unwrap_or_default();
    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
}

fn images(pod: &Value) -> Vec<&str> {
    pod["spec"]["containers"].as_array().unwrap().iter().map(|it| it["image"].as_str().unwrap()).collect()
}

#[test]
fn roll40_roll41_roll42_an_upgrade_changes_the_image_and_the_records() {
    let set = cold();
    let before = pod(&set, &[]);
    let now = upgraded(&set, &before);
    assert_eq!(images(&now), ["agent:v2", "app:1"]);
    let time = NOW.to_string();
    let record = json!({
        "updateTimestamp": time, "hash": set.hash(), "sidecarSetName": "logs", "sidecarList": ["agent"],
        "controllerRevision": "logs-1",
    });
    assert_eq!(annotation(&now, HASH), json!({"logs": record}));
    let state = json!({
        "revision": set.hash(), "updateTimestamp": time,
        "lastContainerStatuses": {"agent": {"imageID": "docker://sha256:agent:v1"}},
    });
    assert_eq!(annotation(&now, STATE), json!({"logs": state}));
    let mut restored = now;
    restored["spec"] = before["spec"].clone();
    restored["metadata"]["annotations"] = before["metadata"]["annotations"].clone();
    assert_eq!(restored, before, "nothing else changes");
}

#[test]
fn roll41_the_record_is_written_even_if_no_image_changes() {
    let set = cold();
    let now = upgraded(&set, &pod(&set, &[("/spec/containers/0", json!({"name": "agent", "image": "agent:v2"}))]));
    assert_eq!(annotation(&now, HASH)["logs"]["hash"], set.hash());
    assert_eq!(annotation(&now, STATE)["logs"]["lastContainerStatuses"], json!({}));
}

#[test]
fn diff19_legacy_records_keep_their_own_names() {
    let set = cold();
    let key = |key: &str| format!("/metadata/annotations/{}", key.replace('/', "~1"));
    let (hash, without_image) = (key(HASH), key(WITHOUT_IMAGE));
    let legacy = [
        (hash.as_str(), json!(r#"{"audit":"a","logs":"old"}"#)),
        (without_image.as_str(), json!(r#"{"audit":"b","logs":"c"}"#)),
    ];
    let now = upgraded(&set, &pod(&set, &legacy));
    let time = NOW.to_string();
    let legacy = |name: &str, hash: &str| json!({"updateTimestamp": time, "hash": hash, "sidecarSetName": name, "sidecarList": null});
    assert_eq!(annotation(&now, HASH)["audit"], legacy("audit", "a"));
    assert_eq!(annotation(&now, HASH)["logs"]["hash"], set.hash());
    assert_eq!(annotation(&now, WITHOUT_IMAGE), json!({"audit": legacy("audit", "b"), "logs": legacy("logs", "c")}));
}

#[rstest]
#[case::an_image_changes("agent:v1", true)]
#[case::no_image_changes("agent:v2", false)]
fn diff21_the_state_has_the_time_of_the_latest_change(#[case] image: &str, #[case] is_new: bool) {
    let set = cold();
    let state = json!({"logs": {"revision": "old", "updateTimestamp": "2020-01-01T00:00:00Z", "other": 1}});
    let changes = [
        ("/spec/containers/0", json!({"name": "agent", "image": image})),
        ("/metadata/annotations/kruise.io~1sidecarset-inplace-update-state", json!(state.to_string())),
    ];
    let state = annotation(&upgraded(&set, &pod(&set, &changes)), STATE)["logs"].clone();
    assert_eq!(state["revision"] == set.hash(), is_new);
    assert_eq!(state["updateTimestamp"] == NOW.to_string(), is_new);
    assert_eq!(state["other"], 1, "unknown fields stay");
}

#[rstest]
#[case::retain("Retain", json!({"owner": "logs"}), json!({"owner": "team"}))]
#[case::new_retain("Retain", json!({"new": "logs"}), json!({"owner": "team"}))]
#[case::overwrite("Overwrite", json!({"owner": "logs", "new": "logs"}), json!({"owner": "logs", "new": "logs"}))]
#[case::merge("MergePatchJson", json!({"json": "{\"b\":2}"}), json!({"owner": "team", "json": "{\"a\":1,\"b\":2}"}))]
fn roll43_diff23_metadata_is_patched_except_for_new_retain_keys(
    #[case] policy: &str,
    #[case] annotations: Value,
    #[case] expected: Value,
) {
    let mut set = cold();
    set.as_value_mut()["spec"]["patchPodMetadata"] = json!([{"annotations": annotations, "patchPolicy": policy}]);
    let mut changes = vec![("/metadata/annotations/owner", json!("team"))];
    if annotations.get("json").is_some() {
        changes.push(("/metadata/annotations/json", json!(r#"{"a":1}"#)));
    }
    let now = upgraded(&set, &pod(&set, &changes));
    let mut own = now["metadata"]["annotations"].as_object().unwrap().clone();
    own.retain(|key, _| !key.contains("kruise.io/") && key != BEFORE);
    assert_eq!(Value::Object(own), expected);
}

#[test]
fn roll43_a_patch_that_cannot_be_merged_names_the_annotation() {
    let mut set = cold();
    let patch = json!([{"annotations": {"json": "{}"}, "patchPolicy": "MergePatchJson"}]);
    set.as_value_mut()["spec"]["patchPodMetadata"] = patch;
    let pod = read(&pod(&set, &[("/metadata/annotations/json", json!("no json"))]));
    let reasons = upgrade(&RolloutTarget::new(&set, &set), &pod, "logs-1", NOW).unwrap_err();
    let text: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    assert!(text.join("\n").contains("spec.patchPodMetadata[0].annotations[json]"), "{text:?}");
}

#[rstest]
#[case::the_second_is_idle(["agent:v1", "empty:1"], ["agent:v1", "agent:v2"], "agent-2")]
#[case::the_first_is_idle(["empty:1", "agent:v1"], ["agent:v2", "agent:v1"], "agent-1")]
fn roll45_roll46_the_idle_container_gets_the_image(
    #[case] before: [&str; 2],
    #[case] expected: [&str; 2],
    #[case] working: &str,
) {
    let set = hot();
    let container = |name: &str, image: &str| json!({"name": name, "image": image});
    let changes = [
        ("/spec/containers/0", container("agent-1", before[0])),
        ("/spec/containers/1", container("agent-2", before[1])),
    ];
    let now = upgraded(&set, &paired(&set, &changes));
    assert_eq!(images(&now)[..2], expected);
    assert_eq!(annotation(&now, WORKING), json!({"agent": working}));
    assert_eq!(now["metadata"]["annotations"][&format!("version.sidecarset.kruise.io/{working}")], "7");
}

#[rstest]
#[case::the_second_is_not_ready(true, false, "agent-2")]
#[case::the_first_is_not_ready(false, true, "agent-1")]
#[case::both_are_ready(true, true, "agent-2")]
fn roll45_without_an_idle_container_the_one_that_does_not_work(
    #[case] first: bool,
    #[case] second: bool,
    #[case] working: &str,
) {
    let set = hot();
    let ready = |name: &str, is_ready: bool| {
        let mut status = status(name, "agent:v1");
        status["ready"] = json!(is_ready);
        status
    };
    let changes = [
        ("/spec/containers/1", json!({"name": "agent-2", "image": "agent:v1"})),
        ("/status/containerStatuses/0", ready("agent-1", first)),
        ("/status/containerStatuses/1", ready("agent-2", second)),
    ];
    assert_eq!(annotation(&upgraded(&set, &paired(&set, &changes)), WORKING), json!({"agent": working}));
}

#[test]
fn roll48_a_pair_goes_through_its_states() {
    let set = hot();
    let target = RolloutTarget::new(&set, &set);
    let start = paired(&set, &[]);
    let both = upgraded(&set, &start);
    assert_eq!(images(&both)[..2], ["agent:v1", "agent:v2"]);
    assert!(!is_reset_due(&target, &read(&both)), "the kubelet has not started the new container yet");
    let mut started = both;
    started["status"]["containerStatuses"][1] = status("agent-2", "agent:v2");
    assert!(is_reset_due(&target, &read(&started)));

    let seen = read(&started);
    let rest = after(&started, &reset(&target, &seen, NOW).step(&seen));
    assert_eq!(images(&rest)[..2], ["empty:1", "agent:v2"]);
    let versions = |key: &str| rest["metadata"]["annotations"][key].clone();
    assert_eq!(versions("version.sidecarset.kruise.io/agent-1"), "0");
    assert_eq!(versions("versionalt.sidecarset.kruise.io/agent-2"), "0");
    assert_eq!(annotation(&rest, HASH), annotation(&started, HASH), "the record stays");
    assert!(!is_reset_due(&target, &read(&rest)), "twice changes nothing");
}

#[rstest]
#[case::pod_is_ready("/metadata/labels", json!({}), true)]
#[case::another_container_is_not_ready("/status/containerStatuses/2", json!({"name": "main", "ready": false}), true)]
#[case::idle_container_is_not_ready("/status/containerStatuses/0", json!({"name": "agent-1", "ready": false}), true)]
fn roll47_a_ready_pod_is_reset(#[case] pointer: &str, #[case] value: Value, #[case] expected: bool) {
    let set = hot();
    let mut pod = upgraded(&set, &paired(&set, &[(pointer, value)]));
    pod["status"]["containerStatuses"][1] = status("agent-2", "agent:v2");
    assert_eq!(is_reset_due(&RolloutTarget::new(&set, &set), &read(&pod)), expected);
    pod["status"]["conditions"] = json!([]);
    let others_are_ready = pod["status"]["containerStatuses"][2]["ready"] == true;
    assert_eq!(is_reset_due(&RolloutTarget::new(&set, &set), &read(&pod)), others_are_ready);
}

#[test]
fn what_the_change_depends_on_is_tested() {
    let set = cold();
    let pod = read(&pod(&set, &[]));
    let edit = upgrade(&RolloutTarget::new(&set, &set), &pod, "logs-1", NOW).unwrap();
    let Step::JsonPatch { operations, .. } = edit.step(&pod) else { panic!("a JSON Patch") };
    let tested: Vec<&str> =
        operations.iter().filter(|it| it["op"] == "test").map(|it| it["path"].as_str().unwrap()).collect();
    assert_eq!(
        tested,
        [
            "/metadata/uid",
            "/metadata/resourceVersion",
            "/metadata/annotations/kruise.io~1sidecarset-hash",
            "/spec/containers/0/name",
            "/spec/containers/0/image"
        ]
    );
}

fn with_condition(condition: &Value) -> Pod {
    read(&pod(&cold(), &[("/status/conditions/0", condition.clone())]))
}

#[rstest]
#[case::first(json!({"type": "Ready", "status": "True"}), Some(true), Some(("True", r#"{"logs":true}"#)))]
#[case::not_upgradable(json!({"type": "Ready", "status": "True"}), Some(false), Some(("False", r#"{"logs":false}"#)))]
#[case::beside_others(
    json!({"type": "SidecarSetUpgradable", "status": "False", "reason": "UpdateImmutableField", "message": r#"{"audit":false}"#}),
    Some(true), Some(("False", r#"{"audit":false,"logs":true}"#))
)]
#[case::of_a_sidecar_set_that_is_gone(
    json!({"type": "SidecarSetUpgradable", "status": "False", "reason": "UpdateImmutableField", "message": r#"{"gone":false}"#}),
    Some(true), Some(("True", r#"{"logs":true}"#))
)]
#[case::as_before(
    json!({"type": "SidecarSetUpgradable", "status": "True", "reason": "AllSidecarsetUpgradable", "message": r#"{"logs":true}"#}),
    Some(true), None
)]
#[case::itself_is_gone(
    json!({"type": "SidecarSetUpgradable", "status": "False", "reason": "UpdateImmutableField", "message": r#"{"audit":true,"logs":false}"#}),
    None, Some(("True", r#"{"audit":true}"#))
)]
#[case::nothing_to_remove(json!({"type": "Ready", "status": "True"}), None, None)]
fn roll50_diff13_the_condition_says_what_can_be_upgraded(
    #[case] before: Value,
    #[case] value: Option<bool>,
    #[case] expected: Option<(&str, &str)>,
) {
    let step = upgradable::step(&with_condition(&before), ("logs", value), |name| name != "gone", NOW).unwrap();
    let written = step.map(|step| {
        let Step::JsonPatch { subresource, operations, .. } = step else { panic!("a JSON Patch") };
        assert_eq!(subresource, Some(Subresource::Status));
        let condition = &operations.last().unwrap()["value"];
        let text = |key: &str| condition[key].as_str().unwrap().to_owned();
        (text("status"), text("message"))
    });
    assert_eq!(written, expected.map(|(status, message)| (status.to_owned(), message.to_owned())));
}

#[test]
fn roll50_a_condition_that_cannot_be_read_is_an_error_with_a_remedy() {
    let pod = with_condition(&json!({"type": "SidecarSetUpgradable", "message": "soon"}));
    let error = upgradable::step(&pod, ("logs", Some(true)), |_| true, NOW).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the message of condition SidecarSetUpgradable of Pod \"shop/web\" cannot be read; it must be a JSON object from \
         SidecarSets to booleans; remove the condition"
    );
}

#[test]
fn sidecars_of_a_pod_that_lacks_one_are_left_alone() {
    let set = sidecar_set(&json!({"name": "other"}), &json!({}));
    let before = pod(&set, &[]);
    assert_eq!(images(&upgraded(&set, &before)), images(&before));
}

/// The second half crashes with the new version, and the SidecarSet goes back to the version of the first one.
#[test]
fn roll45_diff37_the_half_that_has_the_image_works() {
    let set = hot();
    let first = upgraded(&set, &paired(&set, &[]));
    assert_eq!(first["spec"]["containers"][1], json!({"name": "agent-2", "image": "agent:v2"}));
    let back = sidecar_set(
        &json!({
            "image": "agent:v1",
            "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"},
        }),
        &json!({}),
    );
    let target = RolloutTarget::new(&back, &back);
    let mut crashing = first;
    crashing["status"]["containerStatuses"][1] = status("agent-2", "agent:v2");
    crashing["status"]["containerStatuses"][1]["ready"] = json!(false);
    crashing["status"]["conditions"][0]["status"] = json!("False");
    let now = upgraded(&back, &crashing);
    assert_eq!(now["spec"]["containers"], crashing["spec"]["containers"], "no image changes");
    assert_eq!(now["metadata"]["annotations"][WORKING], r#"{"agent":"agent-1"}"#);
    assert_eq!(now["metadata"]["annotations"]["version.sidecarset.kruise.io/agent-1"], "7");
    assert!(is_reset_due(&target, &read(&now)), "the broken half gets the empty image");
    let seen = read(&now);
    let reset = after(&now, &reset(&target, &seen, NOW).step(&seen));
    assert_eq!(reset["spec"]["containers"][0]["image"], "agent:v1");
    assert_eq!(reset["spec"]["containers"][1]["image"], "empty:1");
}
