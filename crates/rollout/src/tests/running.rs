//! Which container a status is about (ROLL-20), and whose trouble it tells (ROLL-61).

use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::sidecar_set::SidecarSet;
use rstest::rstest;
use serde_json::{Value, json};

use super::{HASH, NOW, STATE, after, pod, read, sidecar_set, status};
use crate::consistency::Judged;
use crate::pod::in_place::BEFORE;
use crate::pod::{Pod, Trouble};
use crate::target::{RolloutTarget, Surroundings};
use crate::upgrade::upgrade;

fn version(image: &str) -> SidecarSet {
    sidecar_set(&json!({"image": image}), &json!({}))
}

/// Returns the target, some seconds after the upgrades.
fn target(set: &SidecarSet, seconds: i64) -> RolloutTarget<'_> {
    let now = Timestamp(NOW.0 + seconds);
    RolloutTarget::new(set, set).within(Surroundings { now, ..Surroundings::default() })
}

/// Returns a Pod whose sidecar runs, in a container that was started again twice.
fn running(image: &str, id: &str) -> Value {
    let mut status = status("agent", image);
    (status["imageID"], status["containerID"], status["restartCount"]) = (json!(id), json!("c1"), json!(2));
    let image = json!({"name": "agent", "image": image});
    pod(&version("agent:v0"), &[("/spec/containers/0", image), ("/status/containerStatuses/0", status)])
}

/// Returns the Pod after an upgrade, before the kubelet sees it.
fn sent(pod: &Value, image: &str) -> Value {
    let set = version(image);
    let seen = read(pod);
    after(pod, &upgrade(&target(&set, 0), &seen, "logs-2", NOW).unwrap().step(&seen))
}

/// Returns the Pod with another status of its sidecar.
fn reports(pod: &Value, changes: &Value) -> Pod {
    let mut pod = pod.clone();
    for (key, value) in changes.as_object().unwrap() {
        pod["status"]["containerStatuses"][0][key] = value.clone();
    }
    read(&pod)
}

const ID: &str = "docker.io/library/agent@sha256:1";

#[rstest]
#[case::the_container_before(json!({}), false)]
#[case::another_image(json!({"image": "agent:v2", "imageID": "docker.io/library/agent@sha256:2", "containerID": "c2"}), true)]
#[case::a_retag(json!({"image": "agent:v2", "containerID": "c2"}), true)]
#[case::the_container_before_had_both_names(json!({"image": "docker.io/library/agent:v2"}), false)]
#[case::a_runtime_without_ids(json!({"image": "agent:v2", "containerID": ""}), true)]
#[case::a_runtime_without_ids_that_has_not_started_it(json!({"containerID": ""}), false)]
#[case::a_retag_that_keeps_its_old_name(json!({"containerID": "c2", "restartCount": 3}), true)]
#[case::without_a_container_id(json!({"containerID": "", "restartCount": 3}), true)]
fn roll20_a_new_container_tells_that_the_kubelet_did_it(#[case] changes: Value, #[case] expected: bool) {
    let pod = reports(&sent(&running("agent:v1", ID), "agent:v2"), &changes);
    let set = version("agent:v2");
    let judged = Judged::judge(&target(&set, 5), &pod);
    assert_eq!((judged.is_updated, judged.is_consistent, judged.is_in_flight), (true, expected, !expected));
}

/// OpenKruise writes no more than the id of the image and the time.
#[rstest]
#[case::the_container_before(json!({"state": {"running": {"startedAt": "2020-01-01T00:00:00Z"}}}), false)]
#[case::started_since(json!({"state": {"running": {"startedAt": "2027-01-01T00:00:00Z"}}}), true)]
#[case::waits(json!({"state": {"waiting": {"reason": "ContainerCreating"}}}), false)]
#[case::a_retag(json!({"image": "docker.io/library/agent:v2"}), true)]
fn roll20_records_of_openkruise_are_read(#[case] changes: Value, #[case] expected: bool) {
    let mut pod = sent(&running("agent:v1", ID), "agent:v2");
    pod["metadata"]["annotations"].as_object_mut().unwrap().remove(BEFORE).unwrap();
    let set = version("agent:v2");
    assert_eq!(Judged::judge(&target(&set, 5), &reports(&pod, &changes)).is_consistent, expected);
}

#[rstest]
#[case::the_digest_of_an_index(json!({"imageID": "r.example/x@sha256:c", "containerID": "c2"}), true)]
#[case::the_same_image_by_another_digest(json!({"containerID": "c2"}), true)]
#[case::that_before(json!({}), false)]
fn roll20_digests_are_not_always_that_of_the_image(#[case] changes: Value, #[case] expected: bool) {
    let [before, image] = ["a", "b"].map(|digit| format!("r.example/x@sha256:{}", digit.repeat(64)));
    let pod = sent(&running(&before, "r.example/x@sha256:d"), &image);
    let set = version(&image);
    assert_eq!(Judged::judge(&target(&set, 5), &reports(&pod, &changes)).is_consistent, expected);
}

#[test]
fn roll20_a_pod_without_a_record_is_not_in_flight() {
    let image = format!("r.example/x@sha256:{}", "a".repeat(64));
    let set = version(&image);
    let pod = running(&image, "r.example/x@sha256:d");
    assert!(Judged::judge(&target(&set, 0), &read(&pod)).is_available());
}

/// The kubelet may start the image of an edit that another edit has replaced.
#[test]
fn roll20_an_image_that_was_replaced_is_not_the_one_that_is_asked_for() {
    let pod = sent(&sent(&running("agent:v1", ID), "agent:v2"), "agent:v3");
    let before: Value = serde_json::from_str(pod["metadata"]["annotations"][BEFORE].as_str().unwrap()).unwrap();
    assert_eq!(before["logs"]["agent"]["superseded"], json!(["agent:v2"]));
    let set = version("agent:v3");
    let second = json!({"image": "docker.io/library/agent:v2", "imageID": "agent@sha256:2", "containerID": "c2"});
    let is_consistent =
        |changes, seconds| Judged::judge(&target(&set, seconds), &reports(&pod, &changes)).is_consistent;
    assert!(!is_consistent(second.clone(), 5));
    assert!(!is_consistent(json!({}), 5), "it may start either");
    assert!(is_consistent(json!({"image": "agent:v3", "imageID": "agent@sha256:3", "containerID": "c3"}), 5));
    assert!(is_consistent(second, 60), "another tag of the same image");
}

/// The node was off: the kubelet starts the container that ended, and may not have seen the change by then.
#[rstest]
#[case::it_had_ended(json!({"terminated": {"exitCode": 255}}))]
#[case::it_was_about_to_start(json!({"waiting": {"reason": "ContainerCreating"}}))]
fn roll20_a_container_that_did_not_run_may_start_once_more_with_its_image(#[case] state: Value) {
    let mut stopped = running("agent:v1", ID);
    stopped["status"]["containerStatuses"][0]["state"] = state;
    let pod = sent(&stopped, "agent:v2");
    let set = version("agent:v2");
    let is_consistent = |image: &str, id: &str, seconds| {
        let changes = json!({
            "image": image, "imageID": id, "containerID": "c2", "restartCount": 3,
            "state": {"running": {"startedAt": "2027-01-01T00:00:00Z"}},
        });
        Judged::judge(&target(&set, seconds), &reports(&pod, &changes)).is_consistent
    };
    assert!(!is_consistent("agent:v1", ID, 5));
    assert!(is_consistent("agent:v2", "docker.io/library/agent@sha256:2", 5));
    assert!(is_consistent("agent:v1", ID, 60), "another tag of the same image");
}

/// The kubelet has not seen the change in between, and starts nothing.
#[rstest]
#[case::at_once("agent:v1", 5, false)]
#[case::when_it_has_seen_the_change("agent:v1", 10, true)]
#[case::by_another_name_of_its_image("agent:other", 10, false)]
#[case::by_another_name_later("agent:other", 60, true)]
fn roll20_an_edit_may_be_taken_back_before_the_kubelet_sees_it(
    #[case] reported: &str,
    #[case] seconds: i64,
    #[case] expected: bool,
) {
    let pod = sent(&sent(&running("agent:v1", ID), "agent:v2"), "agent:v1");
    let set = version("agent:v1");
    let pod = reports(&pod, &json!({"image": reported}));
    assert_eq!(Judged::judge(&target(&set, seconds), &pod).is_consistent, expected);
}

#[test]
fn roll42_the_record_of_openkruise_keeps_its_form() {
    let pod = sent(&running("agent:v1", ID), "agent:v2");
    let set = version("agent:v2");
    assert_eq!(
        pod["metadata"]["annotations"][STATE],
        format!(
            r#"{{"logs":{{"lastContainerStatuses":{{"agent":{{"imageID":"{ID}"}}}},"revision":"{}","updateTimestamp":"{NOW}"}}}}"#,
            set.hash()
        )
    );
    assert_eq!(pod["metadata"]["annotations"][BEFORE], r#"{"logs":{"agent":{"containerID":"c1","restartCount":2}}}"#);
    assert!(pod["metadata"]["annotations"][HASH].as_str().unwrap().contains(set.hash()));
}

const CRASH: &str = "CrashLoopBackOff";

fn waits(reason: &str, exit_code: i64, more: &Value) -> Value {
    let mut status = json!({
        "ready": false, "state": {"waiting": {"reason": reason}}, "lastState": {"terminated": {"exitCode": exit_code}},
    });
    super::merge(&mut status, more);
    status
}

/// A container of `agent:v1` was sent to `agent:v2`.
#[rstest]
#[case::it_crashes(waits(CRASH, 1, &json!({"image": "agent:v2", "imageID": "2", "containerID": "c2", "restartCount": 3})), Some(Trouble::Crash))]
#[case::it_ends_again_and_again(waits(CRASH, 0, &json!({"image": "agent:v2", "imageID": "2", "containerID": "c4", "restartCount": 5})), Some(Trouble::Crash))]
#[case::it_waits_for_the_back_off_of_its_image(waits(CRASH, 0, &json!({})), None)]
#[case::the_one_before_crashed(waits(CRASH, 1, &json!({})), None)]
#[case::it_was_stopped_for_the_upgrade(waits(CRASH, 137, &json!({})), None)]
#[case::its_image_cannot_be_pulled(waits("ImagePullBackOff", 0, &json!({})), Some(Trouble::Image))]
#[case::it_cannot_be_started(waits("CreateContainerError", 0, &json!({})), Some(Trouble::Start))]
fn roll61_trouble_belongs_to_a_container(#[case] changes: Value, #[case] expected: Option<Trouble>) {
    let pod = reports(&sent(&running("agent:v1", ID), "agent:v2"), &changes);
    let set = version("agent:v2");
    assert_eq!(target(&set, 5).trouble(&pod, pod.status("agent").unwrap()), expected);
}

/// The way back from `agent:v2`, which has failed: a moment later, the kubelet still reports that.
#[rstest]
#[case::a_crash(CRASH, &json!({"containerID": "c5", "restartCount": 6, "image": "agent:v2", "imageID": "2"}), 5, None)]
#[case::a_pull("ErrImagePull", &json!({}), 5, None)]
#[case::a_start("CreateContainerError", &json!({}), 5, None)]
#[case::a_pull_that_goes_on("ErrImagePull", &json!({}), 15, Some(Trouble::Image))]
fn roll62_the_version_that_comes_back_is_not_blamed(
    #[case] reason: &str,
    #[case] more: &Value,
    #[case] seconds: i64,
    #[case] expected: Option<Trouble>,
) {
    let failing = waits(reason, 1, more);
    let mut pod = sent(&running("agent:v1", ID), "agent:v2");
    super::merge(&mut pod["status"]["containerStatuses"][0], &failing);
    let set = version("agent:v1");
    let back = reports(&sent(&pod, "agent:v1"), &json!({}));
    assert_eq!(target(&set, seconds).trouble(&back, back.status("agent").unwrap()), expected);
}

#[rstest]
#[case::a_new_pod_that_crashes(waits(CRASH, 1, &json!({"restartCount": 0})), Some(Trouble::Crash))]
#[case::a_new_pod_that_ends_again_and_again(waits(CRASH, 0, &json!({"restartCount": 1})), Some(Trouble::Crash))]
fn roll61_new_pods_have_trouble_of_their_own(#[case] changes: Value, #[case] expected: Option<Trouble>) {
    let pod = reports(&running("agent:v2", ID), &changes);
    let set = version("agent:v2");
    assert_eq!(target(&set, 0).trouble(&pod, pod.status("agent").unwrap()), expected);
}
