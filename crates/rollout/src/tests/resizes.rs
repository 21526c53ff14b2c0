//! Resizes of Pods (ROLL-65).

use pillion_kubernetes::time::Timestamp;
use pillion_plan::{Step, Subresource};
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::upgrades::Upgrades;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    HASH, NOW, RESIZE, WITHOUT_IMAGE, after, merge, paired, pod, read, report_containers, revision, sidecar_set,
};
use crate::budget::partition;
use crate::consistency::Judged;
use crate::counts::Counts;
use crate::history::Revision;
use crate::method::{Obstacle, UpgradeMethod};
use crate::pod::Pod;
use crate::pod::resize::STATE;
use crate::resize;
use crate::round::{Chosen, Rest, Round, round};
use crate::status::Progress;
use crate::target::{RolloutTarget, Surroundings};
use crate::upgrade::{after_resize, images, images_precede_resize, upgrade};

/// Returns a version with this image and these resources.
fn version(image: &str, resources: &Value, strategy: &Value) -> SidecarSet {
    sidecar_set(&json!({"image": image, "resources": resources}), strategy)
}

fn cpu(limit: &str) -> Value {
    json!({"limits": {"cpu": limit}, "requests": {"cpu": "100m"}})
}

fn target<'a>(set: &'a SidecarSet, known: &[&SidecarSet], upgrades: Upgrades) -> RolloutTarget<'a> {
    let revisions: Vec<Revision> =
        known.iter().zip(1..).map(|(set, number)| revision(set, number, &json!({}))).collect();
    // The target borrows the revisions for as long as the test runs.
    RolloutTarget::new(set, set).with_upgrades((upgrades, vec![]), revisions.leak().iter())
}

/// Returns a Pod that has a version, runs, and is ready.
fn running(set: &SidecarSet) -> Value {
    let record = |hash: &str| json!({"logs": {"hash": hash, "sidecarSetName": "logs", "sidecarList": ["agent"]}});
    let sidecar = &set.as_value()["spec"]["containers"][0];
    let container = json!({
        "name": "agent", "image": sidecar["image"], "resources": sidecar["resources"],
        "env": [{"name": "IS_INJECTED", "value": "true"}],
    });
    let main = json!({"name": "main", "image": "app:1", "resources": {"limits": {"cpu": "4"}}});
    let changes = [
        ("/metadata/annotations/kruise.io~1sidecarset-hash", json!(record(set.hash()).to_string())),
        ("/spec/containers", json!([container, main])),
    ];
    let mut pod = pod(set, &changes);
    pod["metadata"]["generation"] = json!(3);
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": true});
    pod["metadata"]["ownerReferences"] = json!([owner]);
    kubelet(&mut pod);
    pod
}

/// Brings the statuses of a Pod to its spec, and drops what the kubelet said about a resize.
fn kubelet(pod: &mut Value) {
    report_containers(pod);
    pod["status"]["conditions"].as_array_mut().unwrap().retain(|it| it["type"] == "Ready");
}

fn applied(pod: &mut Value, step: &Step) {
    *pod = after(pod, step);
    let version: u64 = pod["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    pod["metadata"]["resourceVersion"] = json!((version + 1).to_string());
    if matches!(step, Step::JsonPatch { subresource: Some(Subresource::Resize), .. }) {
        pod["metadata"]["generation"] = json!(pod["metadata"]["generation"].as_i64().unwrap() + 1);
    }
}

/// Does what the controller does with a Pod that is resized.
fn act(target: &RolloutTarget<'_>, pod: &mut Value) {
    let planned = resize::plan(target, pod).unwrap();
    if let Some(begin) = &planned.begin {
        applied(pod, begin);
    }
    if let Some(resize) = &planned.resize {
        applied(pod, resize);
    } else if resize::is_complete(target, &read(pod)) {
        let seen = read(pod);
        applied(pod, &after_resize(target, &seen, "logs-2", NOW).unwrap().step(&seen));
    } else if images_precede_resize(target, &read(pod)) {
        let seen = read(pod);
        applied(pod, &images(target, &seen, NOW).step(&seen));
    }
}

fn condition(pod: &mut Value, type_: &str, reason: &str, generation: i64) {
    let condition = json!({
        "type": type_, "status": "True", "reason": reason, "message": "no room", "observedGeneration": generation,
    });
    pod["status"]["conditions"].as_array_mut().unwrap().push(condition);
}

fn decided(target: &RolloutTarget<'_>, pods: &[Value]) -> Round {
    let pods: Vec<Pod> = pods.iter().map(read).collect();
    let pods: Vec<&Pod> = pods.iter().collect();
    let judged: Vec<Judged> = pods.iter().map(|pod| Judged::judge(target, pod)).collect();
    round(target, &pods, &judged, |_| false)
}

fn chosen(round: &Round) -> Vec<usize> {
    let Round::Upgrade { chosen, .. } = round else { return vec![] };
    chosen.iter().map(|Chosen { pod, .. }| *pod).collect()
}

fn annotation(pod: &Value, key: &str) -> Value {
    serde_json::from_str(pod["metadata"]["annotations"][key].as_str().unwrap_or("null")).unwrap()
}

#[test]
fn roll65_a_pod_is_marked_then_resized_and_then_upgraded() {
    let old = version("agent:v1", &cpu("1"), &json!({}));
    let new = version("agent:v2", &cpu("2"), &json!({}));
    let target = target(&new, &[&old, &new], RESIZE);
    let mut pod = running(&old);
    let before = pod.clone();
    assert_eq!(target.upgrade_method(&read(&pod)), Ok(UpgradeMethod::Resize));

    let planned = resize::plan(&target, &pod).unwrap();
    let Some(Step::JsonPatch { subresource: None, operations, .. }) = &planned.begin else { panic!("{planned:?}") };
    assert!(operations.iter().all(|it| it["op"] == "test" || it["path"].as_str().unwrap().contains("pillion.dev")));
    let Some(Step::JsonPatch { subresource: Some(Subresource::Resize), operations, .. }) = &planned.resize else {
        panic!("{planned:?}")
    };
    let path = "/spec/containers/0/resources";
    let expected = json!([
        {"op": "test", "path": "/metadata/uid", "value": "p"},
        {"op": "test", "path": "/spec/containers/0/name", "value": "agent"},
        {"op": "test", "path": path, "value": cpu("1")},
        {"op": "add", "path": path, "value": cpu("2")},
    ]);
    assert_eq!(json!(operations), expected);

    act(&target, &mut pod);
    assert_eq!(annotation(&pod, STATE), json!({"logs": {"hash": new.hash(), "generation": 4}}));
    assert_eq!(pod["spec"]["containers"][0]["image"], "agent:v1");
    assert!(resize::is_under_way(&target, &read(&pod)));
    assert!(!Judged::judge(&target, &read(&pod)).is_updated);

    kubelet(&mut pod);
    assert!(!resize::is_under_way(&target, &read(&pod)));
    act(&target, &mut pod);
    assert_eq!(pod["spec"]["containers"][0]["image"], "agent:v2");
    for (key, hash) in [(HASH, new.hash()), (WITHOUT_IMAGE, new.annotation(WITHOUT_IMAGE))] {
        let record = &annotation(&pod, key)["logs"];
        assert_eq!((&record["hash"], &record["controllerRevision"]), (&json!(hash), &json!("logs-2")));
    }
    assert_eq!(pod["metadata"]["annotations"].get(STATE), None);
    assert!(Judged::judge(&target, &read(&pod)).is_updated);
    assert_eq!(pod["spec"]["containers"][1], before["spec"]["containers"][1], "the application stays as it is");
}

#[rstest]
#[case::the_limit_is_the_request(json!({}), json!({"limits": {"cpu": "2"}}), json!({"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}))]
#[case::what_the_version_does_not_name_stays(
    json!({"limits": {"memory": "1Gi"}}), json!({"requests": {"cpu": "1"}}),
    json!({"limits": {"memory": "1Gi"}, "requests": {"cpu": "1"}})
)]
#[case::other_resources_stay(
    json!({"limits": {"gpu": "1"}}), json!({"limits": {"cpu": "1", "gpu": "2"}, "requests": {"cpu": "1"}}),
    json!({"limits": {"gpu": "1", "cpu": "1"}, "requests": {"cpu": "1"}})
)]
#[case::the_same_amount_in_other_words(
    json!({"requests": {"cpu": "1", "memory": "1Gi"}}), json!({"requests": {"cpu": "1000m", "memory": "1024Mi"}}),
    json!({"requests": {"cpu": "1", "memory": "1Gi"}})
)]
fn roll65_only_cpu_and_memory_that_differ_change(
    #[case] before: Value,
    #[case] wanted: Value,
    #[case] expected: Value,
) {
    let new = version("agent:v2", &wanted, &json!({}));
    let target = target(&new, &[], RESIZE);
    let mut pod = running(&version("agent:v1", &before, &json!({})));
    pod["spec"]["containers"][0]["resources"] = before.clone();
    let planned = resize::plan(&target, &pod).unwrap();
    assert_eq!(planned.resize.is_some(), before != expected);
    if let Some(step) = planned.resize {
        pod = after(&pod, &step);
    }
    assert_eq!(pod["spec"]["containers"][0]["resources"], expected);
}

#[test]
fn roll65_a_resources_policy_is_computed_from_the_containers_of_the_pod_itself() {
    let policy = |share: &str| json!({"targetContainersMode": "sum", "targetContainersNameRegex": ".*", "resourcesExpr": {"limits": {"cpu": share}}});
    let of = |share: &str| sidecar_set(&json!({"resourcesPolicy": policy(share)}), &json!({}));
    let (old, new) = (of("cpu*50%"), of("cpu*25%"));
    let target = target(&new, &[&old, &new], RESIZE);
    let mut pod = running(&old);
    pod["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "2"}, "requests": {"cpu": "100m"}});
    let planned = resize::plan(&target, &pod).unwrap();
    let now = after(&pod, &planned.resize.unwrap());
    assert_eq!(now["spec"]["containers"][0]["resources"]["limits"]["cpu"], "1", "a quarter of that of \"main\"");
}

#[test]
fn roll65_an_expression_that_matches_no_container_is_a_refusal() {
    let policy = json!({"targetContainersMode": "sum", "targetContainersNameRegex": "^none$", "resourcesExpr": {"limits": {"cpu": "cpu*1"}}});
    let new = sidecar_set(&json!({"resourcesPolicy": policy}), &json!({}));
    let target = target(&new, &[], RESIZE);
    let pod = running(&version("agent:v1", &cpu("1"), &json!({})));
    let reasons = resize::plan(&target, &pod).unwrap_err();
    assert!(reasons[0].to_string().contains("no containers match"), "{reasons:?}");
}

#[test]
fn roll65_both_halves_of_a_pair_are_resized() {
    let of = |limit: &str| {
        let upgrade = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
        sidecar_set(&json!({"upgradeStrategy": upgrade, "resources": cpu(limit)}), &json!({}))
    };
    let (old, new) = (of("1"), of("2"));
    let target = target(&new, &[&old, &new], RESIZE);
    let mut pod = paired(&old, &[]);
    for half in 0..2 {
        pod["spec"]["containers"][half]["resources"] = cpu("1");
    }
    let now = after(&pod, &resize::plan(&target, &pod).unwrap().resize.unwrap());
    let resources = |index: usize| now["spec"]["containers"][index]["resources"].clone();
    assert_eq!([resources(0), resources(1), resources(2)], [cpu("2"), cpu("2"), Value::Null]);
}

#[test]
fn roll65_a_resize_that_is_in_flight_counts_as_unavailable() {
    let strategy = json!({"maxUnavailable": 1});
    let (old, new) = (version("agent:v1", &cpu("1"), &strategy), version("agent:v2", &cpu("2"), &strategy));
    let target = target(&new, &[&old, &new], RESIZE);
    let mut pods = vec![running(&old), running(&old), running(&old)];
    assert_eq!(chosen(&decided(&target, &pods)), [0]);
    act(&target, &mut pods[0]);
    let round = decided(&target, &pods);
    assert_eq!(chosen(&round), [] as [usize; 0], "it is in flight");
    let judged: Vec<Judged> = pods.iter().map(|pod| Judged::judge(&target, &read(pod))).collect();
    let progress = Progress::after_round(&target, &round, Counts::count(&judged));
    assert_eq!((progress.is_reconciling, progress.reason), (true, "RollingOut"));
    assert_eq!(progress.message, "0 of 3 Pods are updated, 0 of them are ready; resizes under way: 1");
    condition(&mut pods[0], "PodResizePending", "Deferred", 4);
    assert_eq!(chosen(&decided(&target, &pods)), [] as [usize; 0], "it waits");
    pods[0]["status"]["conditions"].as_array_mut().unwrap().pop();
    condition(&mut pods[0], "PodResizeInProgress", "", 4);
    assert_eq!(chosen(&decided(&target, &pods)), [0], "the images do not wait");
    act(&target, &mut pods[0]);
    assert_eq!(pods[0]["spec"]["containers"][0]["image"], "agent:v2");
    assert_eq!(chosen(&decided(&target, &pods)), [] as [usize; 0], "it goes on");
    assert!(!Judged::judge(&target, &read(&pods[0])).is_updated);
    kubelet(&mut pods[0]);
    assert_eq!(chosen(&decided(&target, &pods)), [0], "it is completed before another Pod is touched");
    act(&target, &mut pods[0]);
    kubelet(&mut pods[0]);
    assert_eq!(chosen(&decided(&target, &pods)), [1]);
}

#[test]
fn roll65_a_mark_without_a_resize_is_completed() {
    let (old, new) = (version("agent:v1", &cpu("1"), &json!({})), version("agent:v2", &cpu("2"), &json!({})));
    let target = target(&new, &[&old, &new], RESIZE);
    let mut pod = running(&old);
    let begin = resize::plan(&target, &pod).unwrap().begin.unwrap();
    applied(&mut pod, &begin);
    assert_eq!(chosen(&decided(&target, &[running(&old), pod.clone()])), [1], "the controller was killed in between");
    act(&target, &mut pod);
    assert_eq!(pod["spec"]["containers"][0]["resources"], cpu("2"));
}

#[rstest]
#[case::infeasible("PodResizePending", "Infeasible", 4, true)]
#[case::an_earlier_resize_was_infeasible("PodResizePending", "Infeasible", 3, false)]
#[case::deferred("PodResizePending", "Deferred", 4, false)]
#[case::failed_in_between("PodResizeInProgress", "Error", 4, false)]
fn roll65_an_infeasible_resize_is_an_obstacle(
    #[case] type_: &str,
    #[case] reason: &str,
    #[case] generation: i64,
    #[case] expected: bool,
) {
    let (old, new) = (version("agent:v1", &cpu("1"), &json!({})), version("agent:v2", &cpu("2"), &json!({})));
    let resizing = target(&new, &[&old, &new], RESIZE);
    let mut pod = running(&old);
    act(&resizing, &mut pod);
    condition(&mut pod, type_, reason, generation);
    let seen = read(&pod);
    let infeasible = Obstacle::ResizeInfeasible { problem: "no room".to_owned() };
    assert_eq!(resizing.upgrade_method(&seen), if expected { Err(infeasible) } else { Ok(UpgradeMethod::Resize) });
    let recreating = target(&new, &[&old, &new], Upgrades { recreate: true, ..RESIZE });
    assert_eq!(
        recreating.upgrade_method(&seen),
        Ok(if expected { UpgradeMethod::Recreate } else { UpgradeMethod::Resize })
    );
    let round = decided(&resizing, &[pod, running(&old)]);
    let not_upgradable = if expected { vec![0] } else { vec![] };
    let resized = |pod| vec![Chosen { pod, method: UpgradeMethod::Resize }];
    let chosen = match (expected, type_) {
        (true, _) => resized(1),
        (false, "PodResizePending") => vec![],
        // The kubelet has accepted it, so the images follow.
        (false, _) => resized(0),
    };
    assert_eq!(
        round,
        Round::Upgrade { not_upgradable, open: 2 - usize::from(expected), chosen },
        "it counts as not upgraded, and holds up no other Pod"
    );
}

#[test]
fn roll65_a_refusal_holds_until_the_version_changes() {
    let (old, new) = (version("agent:v1", &cpu("1"), &json!({})), version("agent:v2", &cpu("2"), &json!({})));
    let third = version("agent:v2", &cpu("500m"), &json!({}));
    let known = [&old, &new, &third];
    let refusing = target(&new, &known, RESIZE);
    let mut pod = running(&old);
    let begin = resize::plan(&refusing, &pod).unwrap().begin.unwrap();
    applied(&mut pod, &begin);
    let refuse = resize::refuse(&refusing, &read(&pod), &"QoS ".repeat(1000));
    applied(&mut pod, &refuse);
    let obstacle = refusing.upgrade_method(&read(&pod)).unwrap_err();
    assert!(matches!(&obstacle, Obstacle::ResizeRefused { problem } if problem.len() == 500), "{obstacle:?}");
    assert_eq!(target(&third, &known, RESIZE).upgrade_method(&read(&pod)), Ok(UpgradeMethod::Resize));
    act(&target(&third, &known, RESIZE), &mut pod);
    assert_eq!(pod["spec"]["containers"][0]["resources"], cpu("500m"));
    assert_eq!(annotation(&pod, STATE)["logs"].get("refused"), None);
}

#[rstest]
#[case::back_to_the_version_of_the_pod("agent:v1", "1")]
#[case::back_to_its_resources("agent:v3", "1")]
#[case::to_others("agent:v3", "3")]
fn roll65_an_edit_in_between_is_followed(#[case] image: &str, #[case] limit: &str) {
    let (old, new) = (version("agent:v1", &cpu("1"), &json!({})), version("agent:v2", &cpu("2"), &json!({})));
    let last = version(image, &cpu(limit), &json!({}));
    let known = [&old, &new, &last];
    let mut pod = running(&old);
    act(&target(&new, &known, RESIZE), &mut pod);
    condition(&mut pod, "PodResizePending", "Infeasible", 4);

    let target = target(&last, &known, RESIZE);
    assert!(!Judged::judge(&target, &read(&pod)).is_updated);
    assert_eq!(chosen(&decided(&target, &[pod.clone()])), [0]);
    act(&target, &mut pod);
    assert_eq!(pod["spec"]["containers"][0]["resources"], cpu(limit));
    kubelet(&mut pod);
    act(&target, &mut pod);
    kubelet(&mut pod);
    assert_eq!(pod["spec"]["containers"][0]["image"], image);
    assert!(Judged::judge(&target, &read(&pod)).is_updated);
    assert_eq!(decided(&target, &[pod]), Round::Rest(Rest::Done));
}

#[test]
fn roll65_an_edit_of_the_image_alone_keeps_what_the_kubelet_said() {
    let (old, new) = (version("agent:v1", &cpu("1"), &json!({})), version("agent:v2", &cpu("2"), &json!({})));
    let last = version("agent:v3", &cpu("2"), &json!({}));
    let known = [&old, &new, &last];
    let mut pod = running(&old);
    act(&target(&new, &known, RESIZE), &mut pod);
    condition(&mut pod, "PodResizePending", "Infeasible", 4);
    let target = target(&last, &known, RESIZE);
    act(&target, &mut pod);
    assert!(matches!(target.upgrade_method(&read(&pod)), Err(Obstacle::ResizeInfeasible { .. })));
}

#[test]
fn roll65_amounts_of_a_resize_that_has_begun_cannot_be_removed() {
    let (old, new) = (version("agent:v1", &json!({}), &json!({})), version("agent:v1", &cpu("2"), &json!({})));
    let known = [&old, &new];
    let mut pod = running(&old);
    act(&target(&new, &known, RESIZE), &mut pod);
    let obstacle = target(&old, &known, RESIZE).upgrade_method(&read(&pod)).unwrap_err();
    assert_eq!(
        obstacle.to_string(),
        "more than images has changed: containers[agent].resources.limits.cpu, containers[agent].resources.requests.cpu"
    );
}

#[test]
fn roll65_a_resize_that_is_not_allowed_any_more_is_reported() {
    let (old, new) = (version("agent:v1", &cpu("1"), &json!({})), version("agent:v2", &cpu("2"), &json!({})));
    let known = [&old, &new];
    let mut pod = running(&old);
    act(&target(&new, &known, RESIZE), &mut pod);
    let without = Upgrades { resize: false, ..RESIZE };
    assert_eq!(target(&new, &known, without).upgrade_method(&read(&pod)), Err(Obstacle::ResizeNotAllowed));
    let recreate = Upgrades { recreate: true, ..without };
    assert_eq!(target(&new, &known, recreate).upgrade_method(&read(&pod)), Ok(UpgradeMethod::Recreate));
}

#[rstest]
#[case::paused(json!({"paused": true}))]
#[case::not_selected(json!({"selector": {"matchLabels": {"canary": "true"}}}))]
#[case::kept_by_the_partition(json!({"partition": "100%"}))]
fn roll65_the_strategy_holds_for_a_resize_that_has_begun(#[case] strategy: Value) {
    let (old, new) = (version("agent:v1", &cpu("1"), &json!({})), version("agent:v2", &cpu("2"), &json!({})));
    let mut pod = running(&old);
    act(&target(&new, &[&old, &new], RESIZE), &mut pod);
    kubelet(&mut pod);
    let held = version("agent:v2", &cpu("2"), &strategy);
    assert_eq!(chosen(&decided(&target(&held, &[&old, &new], RESIZE), &[pod])), [] as [usize; 0]);
}

#[test]
fn roll65_another_sidecar_set_keeps_its_mark() {
    let (old, new) = (version("agent:v1", &cpu("1"), &json!({})), version("agent:v2", &cpu("2"), &json!({})));
    let target = target(&new, &[&old, &new], RESIZE);
    let mut pod = running(&old);
    let other = json!({"audit": {"hash": "h", "generation": 1}});
    pod["metadata"]["annotations"][STATE] = json!(other.to_string());
    act(&target, &mut pod);
    kubelet(&mut pod);
    act(&target, &mut pod);
    assert_eq!(annotation(&pod, STATE), other);
}

#[rstest]
#[case::nothing_is_asked_for(json!({}), None, true)]
#[case::the_same(json!({"limits": {"cpu": "1"}}), Some(json!({"limits": {"cpu": "1000m"}})), true)]
#[case::more_is_reported(json!({}), Some(json!({"limits": {"cpu": "1"}})), true)]
#[case::less(json!({"limits": {"cpu": "1"}}), Some(json!({"limits": {"cpu": "500m"}})), false)]
#[case::another_list(json!({"limits": {"cpu": "1"}}), Some(json!({"requests": {"cpu": "1"}})), false)]
#[case::nothing_is_reported(json!({"requests": {"memory": "1"}}), None, false)]
#[case::neither_cpu_nor_memory(json!({"limits": {"gpu": "1"}}), None, true)]
fn roll65_statuses_tell_whether_a_resize_is_carried_out(
    #[case] wanted: Value,
    #[case] reported: Option<Value>,
    #[case] expected: bool,
) {
    let mut pod = running(&version("agent:v1", &json!({}), &json!({})));
    pod["spec"]["containers"][0]["resources"] = wanted;
    merge(&mut pod["status"]["containerStatuses"][0], &json!({"resources": reported}));
    assert_eq!(read(&pod).status("agent").map(|status| status.has_resources), Some(expected));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn roll65_resizes_keep_the_budget_and_reach_each_pod(
        count in 1..8_usize,
        most in 1..4_usize,
        kept in 0..3_usize,
        order in prop::collection::vec(prop::option::of(any::<prop::sample::Index>()), 0..40),
    ) {
        let strategy = json!({"maxUnavailable": most, "partition": kept});
        let (old, new) = (version("agent:v1", &cpu("1"), &strategy), version("agent:v2", &cpu("2"), &strategy));
        let target = target(&new, &[&old, &new], RESIZE);
        let mut pods: Vec<Value> = (0..count)
            .map(|index| {
                let mut pod = running(&old);
                merge(&mut pod["metadata"], &json!({"name": format!("web-{index}"), "uid": format!("p{index}")}));
                pod
            })
            .collect();
        // The kubelets of all Pods at the end.
        let calls = order.into_iter().chain((0..count * 8).map(|_| None));
        for only in calls.collect::<Vec<_>>() {
            let round = decided(&target, &pods);
            for pod in chosen(&round) {
                act(&target, &mut pods[pod]);
            }
            let is_touched = |pod: &Value| pod["metadata"]["annotations"].get(STATE).is_some();
            let is_unavailable = |pod: &Value| {
                let judged = Judged::judge(&target, &read(pod));
                is_touched(pod) || (judged.is_updated && !judged.is_available())
            };
            prop_assert!(pods.iter().filter(|pod| is_unavailable(pod)).count() <= most);
            match only {
                Some(index) => kubelet(&mut pods[index.index(count)]),
                None => pods.iter_mut().for_each(kubelet),
            }
        }
        let updated = pods.iter().filter(|pod| Judged::judge(&target, &read(pod)).is_updated).count();
        prop_assert_eq!(updated, count - partition(target.strategy.limits.partition, count));
    }
}

#[test]
fn roll65_images_alone_change_in_place() {
    let (old, new) = (version("agent:v1", &cpu("1"), &json!({})), version("agent:v2", &cpu("1"), &json!({})));
    let target = target(&new, &[&old, &new], RESIZE);
    let pod = running(&old);
    assert_eq!(target.upgrade_method(&read(&pod)), Ok(UpgradeMethod::InPlace));
    let seen = read(&pod);
    let now = after(&pod, &upgrade(&target, &seen, "logs-2", NOW).unwrap().step(&seen));
    assert_eq!(now["spec"]["containers"][0]["resources"], pod["spec"]["containers"][0]["resources"]);
}

#[rstest]
#[case::at_once("Error", 0, None)]
#[case::for_half_a_minute("Error", 30, Some("no room"))]
#[case::it_goes_on("", 300, None)]
fn roll65_a_resize_that_the_kubelet_does_not_get_done_is_told_after_half_a_minute(
    #[case] reason: &str,
    #[case] seconds: i64,
    #[case] expected: Option<&str>,
) {
    let (old, new) = (version("agent:v1", &cpu("2"), &json!({})), version("agent:v1", &cpu("1"), &json!({})));
    let now = Timestamp(NOW.0 + seconds);
    let target = target(&new, &[&old, &new], RESIZE).within(Surroundings { now, ..Surroundings::default() });
    let mut pod = running(&old);
    act(&target, &mut pod);
    condition(&mut pod, "PodResizeInProgress", reason, 4);
    pod["status"]["conditions"][1]["lastTransitionTime"] = json!(NOW.to_string());
    assert_eq!(resize::error(&target, &read(&pod)), expected);
    let waits = reason == "Error" && expected.is_none();
    assert_eq!(resize::depends_on_time(&target, &read(&pod)), waits, "the controller looks again");
}
