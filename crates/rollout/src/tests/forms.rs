//! Containers that are native sidecars of a Pod (NAT-5).

use pillion_sidecarset::native::NativeSidecars;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::upgrades::Upgrades;
use rstest::rstest;
use serde_json::{Value, json};

use super::{NOW, after, cold, pod, read, status};
use crate::consistency::{Judged, is_candidate};
use crate::method::{Obstacle, UpgradeMethod};
use crate::target::RolloutTarget;
use crate::upgrade::upgrade;

const NATIVE: Upgrades =
    Upgrades { resize: false, recreate: false, native: true, progress_deadline: None, rollback: false };
const RECREATE: Upgrades = Upgrades { recreate: true, native: false, ..NATIVE };
const BOTH: Upgrades = Upgrades { recreate: true, ..NATIVE };
const NEITHER: Upgrades = Upgrades { native: false, ..NATIVE };

fn target(set: &SidecarSet, upgrades: Upgrades, native: NativeSidecars) -> RolloutTarget<'_> {
    RolloutTarget::new(set, set).with_upgrades((upgrades, vec![]), vec![]).with_native_sidecars(native)
}

/// Returns a Pod of a `ReplicaSet` with `agent:v1` as a container.
fn plain(set: &SidecarSet) -> Value {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "o", "controller": true}]);
    pod(set, &[("/metadata/ownerReferences", owner)])
}

/// Returns the same Pod with `agent` as a native sidecar.
fn native(set: &SidecarSet, restart_policy: &str) -> Value {
    let mut pod = plain(set);
    let mut agent = pod["spec"]["containers"].as_array_mut().unwrap().remove(0);
    agent["restartPolicy"] = json!("Always");
    agent["env"] = json!([{"name": "IS_INJECTED", "value": "true"}]);
    pod["spec"]["initContainers"] = json!([{"name": "own", "image": "own:1"}, agent]);
    pod["spec"]["restartPolicy"] = json!(restart_policy);
    pod["status"]["containerStatuses"].as_array_mut().unwrap().remove(0);
    pod["status"]["initContainerStatuses"] = json!([status("own", "own:1"), status("agent", "agent:v1")]);
    pod
}

#[rstest]
#[case::runs_on("Always", true)]
#[case::ends("Never", false)]
#[case::ends_after_a_success("OnFailure", false)]
fn nat5_a_pod_that_ends_with_its_native_sidecars_is_not_rolled_out_to(
    #[case] restart_policy: &str,
    #[case] expected: bool,
) {
    let set = cold();
    let pod = read(&native(&set, restart_policy));
    assert_eq!(is_candidate(&target(&set, NATIVE, NativeSidecars::Always), &pod), expected);
}

#[test]
fn nat5_a_pod_that_ends_with_a_container_is_rolled_out_to_as_before() {
    let set = cold();
    let mut pod = plain(&set);
    pod["spec"]["restartPolicy"] = json!("Never");
    assert!(is_candidate(&target(&set, NATIVE, NativeSidecars::EndingPods), &read(&pod)));
}

#[rstest]
#[case::not_asked_for(NEITHER, Err(Obstacle::NativeSidecars))]
#[case::asked_for(NATIVE, Ok(UpgradeMethod::InPlace))]
#[case::evicted(RECREATE, Ok(UpgradeMethod::Recreate))]
#[case::in_place_before_an_eviction(BOTH, Ok(UpgradeMethod::InPlace))]
fn nat5_native_sidecars_get_images_in_place_where_it_is_asked_for(
    #[case] upgrades: Upgrades,
    #[case] expected: Result<UpgradeMethod, Obstacle>,
) {
    let set = cold();
    let pod = read(&native(&set, "Always"));
    assert_eq!(target(&set, upgrades, NativeSidecars::Always).upgrade_method(&pod), expected);
}

#[rstest]
#[case::the_form_stays(BOTH, NativeSidecars::Off, UpgradeMethod::InPlace)]
#[case::only_ending_pods_change(BOTH, NativeSidecars::EndingPods, UpgradeMethod::InPlace)]
#[case::the_form_changes(BOTH, NativeSidecars::Always, UpgradeMethod::Recreate)]
#[case::no_eviction_is_allowed(NATIVE, NativeSidecars::Always, UpgradeMethod::InPlace)]
fn nat5_an_eviction_brings_the_other_form_with_the_next_version(
    #[case] upgrades: Upgrades,
    #[case] native: NativeSidecars,
    #[case] expected: UpgradeMethod,
) {
    let set = cold();
    assert_eq!(target(&set, upgrades, native).upgrade_method(&read(&plain(&set))), Ok(expected));
}

#[test]
fn nat5_the_form_alone_makes_no_pod_outdated() {
    let set = cold();
    let mut pod = plain(&set);
    let record = json!({"logs": {"hash": set.hash(), "sidecarSetName": "logs", "sidecarList": ["agent"]}});
    pod["metadata"]["annotations"][super::HASH] = json!(record.to_string());
    assert!(Judged::judge(&target(&set, BOTH, NativeSidecars::Always), &read(&pod)).is_updated);
}

#[test]
fn nat5_the_image_of_a_native_sidecar_changes_where_it_is() {
    let set = cold();
    let (target, before) = (target(&set, NATIVE, NativeSidecars::Always), native(&set, "Always"));
    let seen = read(&before);
    let now = after(&before, &upgrade(&target, &seen, "logs-1", NOW).unwrap().step(&seen));
    assert_eq!(now["spec"]["initContainers"][1]["image"], "agent:v2");
    assert_eq!(now["spec"]["containers"], before["spec"]["containers"]);
}

#[test]
fn nat5_a_resize_finds_a_native_sidecar() {
    let set = super::sidecar_set(&json!({"resources": {"limits": {"cpu": "2"}}}), &json!({}));
    let mut pod = native(&set, "Always");
    pod["spec"]["initContainers"][1]["resources"] = json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}});
    let plan = crate::resize::plan(&target(&set, NATIVE, NativeSidecars::Always), &pod).unwrap();
    let resized = after(&pod, &plan.resize.unwrap());
    assert_eq!(resized["spec"]["initContainers"][1]["resources"]["limits"]["cpu"], "2");
}
