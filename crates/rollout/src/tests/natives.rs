//! Native sidecars (ROLL-63).

use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use pillion_sidecarset::upgrades::Upgrades;
use rstest::rstest;
use serde_json::{Value, json};

use super::{NOW, STATE, after, pod, read, status};
use crate::consistency::{Judged, is_candidate};
use crate::method::UpgradeMethod;
use crate::pod::Native;
use crate::round::{Chosen, Round, round};
use crate::target::RolloutTarget;
use crate::trouble;
use crate::upgrade::upgrade;

const NATIVE: Upgrades =
    Upgrades { resize: false, recreate: false, native: true, progress_deadline: None, rollback: false };

/// Returns a SidecarSet `logs` with a plain init container, a native sidecar and a container.
fn set(tag: &str) -> SidecarSet {
    let image = |name: &str| json!(format!("{name}:{tag}"));
    prepared(&SidecarSet::from_decoded(json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
        "metadata": {"name": "logs", "uid": "u", "resourceVersion": "7", "generation": 2},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "initContainers": [
                {"name": "setup", "image": image("setup")},
                {"name": "proxy", "image": image("proxy"), "restartPolicy": "Always"},
            ],
            "containers": [{"name": "agent", "image": image("agent")}], "updateStrategy": {},
        },
    })))
}

fn target(set: &SidecarSet, upgrades: Upgrades) -> RolloutTarget<'_> {
    RolloutTarget::new(set, set).with_upgrades((upgrades, vec![]), vec![])
}

/// Returns a Pod with the version `v1`, and a native sidecar of its own.
fn running(set: &SidecarSet) -> Value {
    let injected = json!([{"name": "IS_INJECTED", "value": "true"}]);
    let mut pod = pod(set, &[]);
    pod["spec"]["initContainers"] = json!([
        {"name": "own", "image": "own:1", "restartPolicy": "Always"},
        {"name": "setup", "image": "setup:v1", "env": injected},
        {"name": "proxy", "image": "proxy:v1", "env": injected, "restartPolicy": "Always"},
    ]);
    pod["status"]["initContainerStatuses"] =
        json!([status("own", "own:1"), status("setup", "setup:v1"), status("proxy", "proxy:v1")]);
    pod
}

fn upgraded(target: &RolloutTarget<'_>, pod: &Value) -> Value {
    let seen = read(pod);
    after(pod, &upgrade(target, &seen, "logs-1", NOW).unwrap().step(&seen))
}

#[test]
fn roll63_only_injected_native_sidecars_are_kept_of_a_pod() {
    let pod = read(&running(&set("v2")));
    let [Native { index, container }] = pod.natives.as_slice() else { panic!("{:?}", pod.natives) };
    assert_eq!((*index, container.name.as_str(), container.image.as_str()), (2, "proxy", "proxy:v1"));
    assert_eq!(pod.state.natives.iter().map(|status| &*status.name).collect::<Vec<_>>(), ["proxy"]);
}

#[test]
fn roll63_images_of_native_sidecars_change_where_it_is_asked_for() {
    let set = set("v2");
    let before = running(&set);
    let now = upgraded(&target(&set, NATIVE), &before);
    let images = |pod: &Value, list: &str| -> Vec<String> {
        let items = pod["spec"][list].as_array().unwrap().iter();
        items.map(|it| it["image"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(images(&now, "initContainers"), ["own:1", "setup:v1", "proxy:v2"]);
    assert_eq!(images(&now, "containers"), ["agent:v2", "app:1"]);
    let state: Value = serde_json::from_str(now["metadata"]["annotations"][STATE].as_str().unwrap()).unwrap();
    let last = json!({
        "agent": {"imageID": "docker://sha256:agent:v1"}, "proxy": {"imageID": "docker://sha256:proxy:v1"},
    });
    assert_eq!(state["logs"]["lastContainerStatuses"], last);

    let without = upgraded(&target(&set, Upgrades::default()), &before);
    assert_eq!(without["spec"]["initContainers"], before["spec"]["initContainers"]);
    assert_eq!(images(&without, "containers"), ["agent:v2", "app:1"]);
}

#[rstest]
#[case::both_have_restarted("agent:v2", "proxy:v2", true)]
#[case::the_native_sidecar_has_not("agent:v2", "proxy:v1", false)]
#[case::the_container_has_not("agent:v1", "proxy:v2", false)]
fn roll63_native_sidecars_count_for_the_state_of_a_pod(
    #[case] agent: &str,
    #[case] proxy: &str,
    #[case] expected: bool,
) {
    let set = set("v2");
    let target = target(&set, NATIVE);
    let mut pod = upgraded(&target, &running(&set));
    pod["status"]["containerStatuses"][0] = status("agent", agent);
    pod["status"]["initContainerStatuses"][2] = status("proxy", proxy);
    let judged = Judged::judge(&target, &read(&pod));
    assert_eq!((judged.is_updated, judged.is_consistent), (true, expected));
}

#[rstest]
#[case::it_runs("1", "3", true)]
#[case::an_image_of_its_index_runs("2", "3", true)]
#[case::that_before_runs("3", "3", false)]
fn roll63_digests_of_native_sidecars_are_compared(#[case] runs: &str, #[case] before: &str, #[case] expected: bool) {
    let set = set("v2");
    let mut pod = running(&set);
    let digest = |name: &str, digit: &str| format!("{name}@sha256:{}", digit.repeat(64));
    for (list, statuses, index, image) in [
        ("containers", "containerStatuses", 0, digest("agent", "1")),
        ("initContainers", "initContainerStatuses", 2, digest("proxy", "1")),
    ] {
        pod["spec"][list][index]["image"] = json!(image);
        pod["status"][statuses][index]["imageID"] = json!(format!("docker-pullable://{image}"));
    }
    let before = json!({"imageID": format!("docker-pullable://{}", digest("proxy", before))});
    let state = json!({"logs": {"lastContainerStatuses": {"proxy": before}}});
    pod["metadata"]["annotations"][STATE] = json!(state.to_string());
    pod["status"]["initContainerStatuses"][2]["imageID"] =
        json!(format!("docker-pullable://{}", digest("proxy", runs)));
    assert_eq!(Judged::judge(&target(&set, NATIVE), &read(&pod)).is_consistent, expected);
    assert!(Judged::judge(&target(&set, Upgrades::default()), &read(&pod)).is_consistent);
}

#[test]
fn roll63_a_pod_without_the_native_sidecar_does_not_belong_to_the_sidecar_set() {
    let set = set("v2");
    let mut pod = running(&set);
    pod["spec"]["initContainers"].as_array_mut().unwrap().pop();
    assert!(!is_candidate(&target(&set, NATIVE), &read(&pod)));
    assert!(is_candidate(&target(&set, Upgrades::default()), &read(&pod)));
}

#[test]
fn roll30_roll63_a_pod_whose_native_sidecar_is_not_restarted_yet_goes_first() {
    let set = set("v2");
    let target = target(&set, NATIVE);
    let mut pod = running(&set);
    let state = json!({"logs": {"lastContainerStatuses": {"proxy": {"imageID": "docker://sha256:proxy:v0"}}}});
    pod["metadata"]["annotations"][STATE] = json!(state.to_string());
    pod["status"]["initContainerStatuses"][2] = status("proxy", "proxy:v0");
    let seen = read(&pod);
    let judged = [Judged::judge(&target, &seen)];
    assert_eq!(
        round(&target, &[&seen], &judged, |_| false),
        Round::Upgrade {
            not_upgradable: vec![],
            chosen: vec![Chosen { pod: 0, method: UpgradeMethod::InPlace }],
            open: 1
        }
    );
}

#[rstest]
#[case::crash("proxy", "CrashLoopBackOff", true)]
#[case::usual_start("proxy", "PodInitializing", false)]
#[case::of_the_pod_itself("own", "CrashLoopBackOff", false)]
fn roll61_native_sidecars_that_fail_count(#[case] name: &str, #[case] reason: &str, #[case] expected: bool) {
    let set = set("v2");
    let mut pod = running(&set);
    pod["metadata"]["annotations"]["kruise.io/sidecarset-hash"] =
        json!({"logs": {"hash": set.hash()}}).to_string().into();
    for status in pod["status"]["initContainerStatuses"].as_array_mut().unwrap() {
        if status["name"] == name {
            status["state"] = json!({"waiting": {"reason": reason}});
            status["lastState"] = json!({"terminated": {"exitCode": 1}});
        }
    }
    let pod = read(&pod);
    let target = target(&set, NATIVE);
    let judged = Judged::judge(&target, &pod);
    // maxUnavailable is 1.
    let failure = trouble::fails(&target, &[&pod, &pod], &[judged, judged], &[]);
    assert_eq!(failure.is_some(), expected, "{failure:?}");
}
