//! Evictions: which Pods, how many at a time, and what is remembered about them.

use std::collections::BTreeSet;

use pillion_kubernetes::time::Timestamp;
use pillion_plan::Step;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::upgrades::Upgrades;
use rstest::rstest;
use serde_json::{Value, json};

use super::{NOW, pod, read, revision, sidecar_set};
use crate::consistency::Judged;
use crate::counts::Counts;
use crate::evicted::{EVICTED, Evicted, wanted};
use crate::history::{History, Latest, Revision};
use crate::method::{Obstacle, UpgradeMethod};
use crate::pod::Pod;
use crate::recreate::{Held, progress};
use crate::recreation::{Recreation, SETTLING};
use crate::round::{Round, round};
use crate::status::Progress;
use crate::target::RolloutTarget;
use crate::template;

const SINCE: Timestamp = Timestamp(NOW.0 - 1000);

/// Returns a reference to a controller.
fn owner(api_version: &str, kind: &str, uid: &str) -> Value {
    json!([{"apiVersion": api_version, "kind": kind, "name": "web", "uid": uid, "controller": true}])
}

pub(super) fn replica_set(uid: &str) -> (&'static str, Value) {
    ("/metadata/ownerReferences", owner("apps/v1", "ReplicaSet", uid))
}

/// Returns a target that may evict Pods, and whose version came into force some time ago.
pub(super) fn target(set: &SidecarSet) -> RolloutTarget<'_> {
    let upgrades = Upgrades { recreate: true, ..Upgrades::default() };
    let mut target = RolloutTarget::new(set, set).with_upgrades((upgrades, Vec::new()), Vec::new());
    target.recreation = Recreation::default().in_force(Some(SINCE), NOW);
    target
}

/// Returns a ready Pod of another version, of which more than images differs.
pub(super) fn outdated(set: &SidecarSet, uid: &str, changes: &[(&str, Value)]) -> Pod {
    let record = json!(r#"{"logs":{"hash":"other"}}"#);
    let mut all = vec![
        ("/metadata/annotations/kruise.io~1sidecarset-hash-without-image", record),
        ("/metadata/uid", json!(uid)),
        ("/metadata/name", json!(uid)),
        ("/metadata/creationTimestamp", json!(Timestamp(SINCE.0 - 5).to_string())),
        replica_set("rs"),
    ];
    all.extend_from_slice(changes);
    read(&pod(set, &all))
}

/// Returns a Pod that an eviction has brought the version.
pub(super) fn updated(set: &SidecarSet, uid: &str, is_ready: bool) -> Pod {
    let record = json!({"logs": {"hash": set.hash()}}).to_string();
    let ready = json!({"type": "Ready", "status": if is_ready { "True" } else { "False" }});
    let changes = [
        ("/metadata/annotations/kruise.io~1sidecarset-hash", json!(record)),
        ("/metadata/uid", json!(uid)),
        ("/metadata/name", json!(uid)),
        ("/status/conditions/0", ready),
        replica_set("rs"),
    ];
    read(&pod(set, &changes))
}

pub(super) fn decided(target: &RolloutTarget<'_>, pods: &[Pod]) -> (Round, Vec<Judged>) {
    let pods: Vec<&Pod> = pods.iter().collect();
    let judged: Vec<Judged> = pods.iter().map(|pod| Judged::judge(target, pod)).collect();
    (round(target, &pods, &judged, |_| false), judged)
}

fn evicted(target: &RolloutTarget<'_>, pods: &[Pod]) -> Vec<usize> {
    let Round::Upgrade { chosen, .. } = decided(target, pods).0 else { return Vec::new() };
    assert!(chosen.iter().all(|chosen| chosen.method == UpgradeMethod::Recreate), "{chosen:?}");
    chosen.iter().map(|chosen| chosen.pod).collect()
}

#[rstest]
#[case::replica_set("apps/v1", "ReplicaSet", None)]
#[case::stateful_set("apps/v1", "StatefulSet", None)]
#[case::daemon_set("apps/v1", "DaemonSet", None)]
#[case::replication_controller("v1", "ReplicationController", None)]
#[case::clone_set("apps.kruise.io/v1alpha1", "CloneSet", None)]
#[case::stateful_set_of_openkruise("apps.kruise.io/v1beta1", "StatefulSet", None)]
#[case::daemon_set_of_openkruise("apps.kruise.io/v1alpha1", "DaemonSet", None)]
#[case::job("batch/v1", "Job", Some("Job"))]
#[case::broadcast_job("apps.kruise.io/v1alpha1", "BroadcastJob", Some("BroadcastJob"))]
#[case::replica_set_of_another_group("example.org/v1", "ReplicaSet", Some("ReplicaSet"))]
#[case::node("v1", "Node", Some("Node"))]
fn roll66_only_pods_whose_controller_creates_them_anew_are_evicted(
    #[case] api_version: &str,
    #[case] kind: &str,
    #[case] refused: Option<&str>,
) {
    let set = sidecar_set(&json!({}), &json!({}));
    let pod = outdated(&set, "a", &[("/metadata/ownerReferences", owner(api_version, kind, "o"))]);
    let expected =
        refused.map_or(Ok(UpgradeMethod::Recreate), |kind| Err(Obstacle::OtherController { kind: kind.to_owned() }));
    assert_eq!(target(&set).upgrade_method(&pod), expected);
}

#[rstest]
#[case::no_owner(("/metadata/ownerReferences", json!([])), Obstacle::NoController)]
#[case::an_owner_that_is_no_controller(
    ("/metadata/ownerReferences", json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs"}])),
    Obstacle::NoController
)]
#[case::a_static_pod(("/metadata/annotations/kubernetes.io~1config.mirror", json!("x")), Obstacle::StaticPod)]
#[case::a_protected_namespace(("/metadata/namespace", json!("kube-system")), Obstacle::ProtectedNamespace)]
#[case::roll68_a_new_pod(
    ("/metadata/creationTimestamp", json!(Timestamp(SINCE.0 + SETTLING).to_string())), Obstacle::NewPodLacksVersion
)]
#[case::roll67_a_workload_whose_new_pods_do_not_get_it(
    ("/metadata/ownerReferences", owner("apps/v1", "ReplicaSet", "excluded")), Obstacle::NotInjected { why: "no".to_owned() }
)]
fn roll66_a_pod_that_is_never_evicted(#[case] change: (&str, Value), #[case] expected: Obstacle) {
    let set = sidecar_set(&json!({}), &json!({"maxUnavailable": "100%"}));
    let mut target = target(&set);
    target.recreation.protected = ["kube-system".to_owned()].into();
    target.recreation.not_injected = [("excluded".to_owned(), "no".to_owned())].into();
    let pods = [outdated(&set, "a", &[change])];
    assert_eq!(target.upgrade_method(&pods[0]), Err(expected));
    assert_eq!(evicted(&target, &pods), [0; 0]);
    assert!(matches!(decided(&target, &pods).0, Round::Upgrade { not_upgradable, .. } if not_upgradable == [0]));
}

#[test]
fn roll60_roll66_without_the_policy_nothing_is_evicted() {
    let set = sidecar_set(&json!({}), &json!({"maxUnavailable": "100%"}));
    let plain = RolloutTarget::new(&set, &set);
    assert_eq!(evicted(&plain, &[outdated(&set, "a", &[])]), [0; 0]);
    assert_eq!(evicted(&target(&set), &[outdated(&set, "a", &[])]), [0]);
}

#[rstest]
#[case::one_by_default(json!({}), 0, 1)]
#[case::missing_pods_count(json!({"maxUnavailable": 2}), 1, 1)]
#[case::all_that_may_be_are_missing(json!({"maxUnavailable": 2}), 2, 0)]
// Four Pods and two missing ones are six: half of them are three.
#[case::a_percentage_counts_missing_pods(json!({"maxUnavailable": "50%"}), 2, 1)]
#[case::a_partition_counts_missing_pods(json!({"maxUnavailable": "100%", "partition": "50%"}), 2, 1)]
#[case::a_partition_of_all(json!({"maxUnavailable": "100%", "partition": 4}), 0, 0)]
fn roll66_an_evicted_pod_counts_until_it_is_replaced(
    #[case] strategy: Value,
    #[case] missing: usize,
    #[case] expected: usize,
) {
    let set = sidecar_set(&json!({}), &strategy);
    let mut target = target(&set);
    target.recreation.missing = missing;
    let pods: Vec<Pod> = ["a", "b", "c", "d"].iter().map(|uid| outdated(&set, uid, &[])).collect();
    assert_eq!(evicted(&target, &pods).len(), expected);
}

#[test]
fn roll66_a_replacement_that_is_not_ready_counts() {
    let set = sidecar_set(&json!({}), &json!({"maxUnavailable": 1}));
    let target = target(&set);
    assert_eq!(evicted(&target, &[outdated(&set, "a", &[]), updated(&set, "b", false)]), [0; 0]);
    assert_eq!(evicted(&target, &[outdated(&set, "a", &[]), updated(&set, "b", true)]), [0]);
}

#[test]
fn roll66_a_pod_that_a_budget_holds_keeps_its_place_and_others_go_on() {
    let set = sidecar_set(&json!({}), &json!({"maxUnavailable": 1, "partition": 1}));
    let mut target = target(&set);
    let pods = ["a", "b", "c"].map(|uid| outdated(&set, uid, &[]));
    target.recreation.held = ["a".to_owned()].into();
    assert_eq!(evicted(&target, &pods), [1]);
    target.recreation.held.insert("b".to_owned());
    assert_eq!(evicted(&target, &pods), [0; 0], "the partition keeps the last one");
}

#[test]
fn roll68_one_new_pod_without_the_version_keeps_all_pods() {
    let set = sidecar_set(&json!({}), &json!({"maxUnavailable": "100%"}));
    let target = target(&set);
    let new = outdated(&set, "new", &[("/metadata/creationTimestamp", json!(NOW.to_string()))]);
    let pods = [outdated(&set, "a", &[]), new];
    assert_eq!(evicted(&target, &pods), [0; 0]);
    let (round, judged) = decided(&target, &pods);
    let seen: Vec<&Pod> = pods.iter().collect();
    let before = Progress::after_round(&target, &round, Counts::count(&judged));
    let after = progress(before, (&target, &round), (&seen, &judged, 2), &[]);
    assert_eq!((after.reason, after.is_stalled), ("NewPodsLackVersion", true));
    assert!(after.message.contains("Pod \"shop/new\""), "{}", after.message);
}

#[rstest]
#[case::just_now(Some(NOW), true)]
#[case::a_moment_ago(Some(Timestamp(NOW.0 - SETTLING + 1)), true)]
#[case::some_time_ago(Some(Timestamp(NOW.0 - SETTLING)), false)]
#[case::unknown(None, true)]
fn roll68_nothing_is_evicted_while_admission_may_not_know_the_version(
    #[case] since: Option<Timestamp>,
    #[case] is_early: bool,
) {
    let set = sidecar_set(&json!({}), &json!({}));
    let mut target = target(&set);
    target.recreation = Recreation::default().in_force(since, NOW);
    assert_eq!(target.recreation.is_early, is_early);
    assert_eq!(evicted(&target, &[outdated(&set, "a", &[])]).is_empty(), is_early);
    let wait = target.recreation.settles_in(NOW);
    assert_eq!(wait.is_some(), is_early && since.is_some(), "{wait:?}");
}

fn held(several: bool) -> Held {
    let (uid, pod) = ("a".to_owned(), "shop/a".to_owned());
    Held { uid, pod, message: "the budget needs 3".to_owned(), has_several_budgets: several }
}

#[rstest]
#[case::one_budget(false, "HeldByBudget", false)]
#[case::several(true, "SeveralBudgets", true)]
fn roll66_people_see_what_holds_a_pod(#[case] several: bool, #[case] reason: &str, #[case] is_stalled: bool) {
    let set = sidecar_set(&json!({}), &json!({}));
    let mut target = target(&set);
    target.recreation.held = ["a".to_owned()].into();
    let pods = [outdated(&set, "a", &[])];
    let seen: Vec<&Pod> = pods.iter().collect();
    // The reason stays while the eviction is tried again.
    for held_now in [target.recreation.held.clone(), BTreeSet::new()] {
        target.recreation.held = held_now;
        let (round, judged) = decided(&target, &pods);
        let before = Progress::after_round(&target, &round, Counts::count(&judged));
        let after = progress(before, (&target, &round), (&seen, &judged, 1), &[held(several)]);
        assert_eq!((after.reason, after.is_stalled), (reason, is_stalled));
        assert!(
            after.message.contains("\"shop/a\"") && after.message.contains("the budget needs 3"),
            "{}",
            after.message
        );
    }
}

#[test]
fn roll66_a_paused_rollout_says_so_and_a_missing_pod_keeps_it_going() {
    let set = sidecar_set(&json!({}), &json!({"paused": true}));
    let pods = [outdated(&set, "a", &[])];
    let seen: Vec<&Pod> = pods.iter().collect();
    let paused = target(&set);
    let (round, judged) = decided(&paused, &pods);
    let before = Progress::after_round(&paused, &round, Counts::count(&judged));
    assert_eq!(progress(before.clone(), (&paused, &round), (&seen, &judged, 1), &[held(false)]), before);

    let set = sidecar_set(&json!({}), &json!({}));
    let pods = [updated(&set, "a", true)];
    let mut target = target(&set);
    target.recreation.missing = 2;
    let seen: Vec<&Pod> = pods.iter().collect();
    let (round, judged) = decided(&target, &pods);
    let before = Progress::after_round(&target, &round, Counts::count(&judged));
    let after = progress(before, (&target, &round), (&seen, &judged, 1), &[]);
    assert_eq!((after.reason, after.is_reconciling), ("RollingOut", true));
    assert!(after.message.starts_with("2 evicted Pods are not replaced yet"), "{}", after.message);
}

#[test]
fn roll67_pods_without_the_sidecar_are_evicted_after_a_rollout_is_complete_otherwise() {
    let set = sidecar_set(&json!({}), &json!({"maxUnavailable": 1}));
    let target = target(&set);
    let annotations = json!({});
    let lacking = outdated(&set, "b", &[("/metadata/annotations", annotations)]);
    let pods = [updated(&set, "a", true), lacking];
    assert_eq!(evicted(&target, &pods), [1]);
    let (round, judged) = decided(&target, &pods);
    let seen: Vec<&Pod> = pods.iter().collect();
    let before = Progress::after_round(&target, &round, Counts::count(&judged[..1]));
    assert_eq!(before.reason, "Complete", "the counters are those of the Pods with the sidecar");
    let after = progress(before, (&target, &round), (&seen, &judged, 1), &[]);
    assert_eq!((after.reason, after.is_ready), ("RollingOut", false));
    assert!(after.message.contains("1 Pods lack the sidecar"), "{}", after.message);
}

/// Returns the revision of a version with this image, which was created at this time.
pub(super) fn created(number: i64, created: i64, image: &str, annotations: &Value) -> Revision {
    let metadata = json!({
        "name": format!("logs-{image}"), "resourceVersion": "1", "creationTimestamp": Timestamp(created).to_string(),
        "annotations": annotations,
    });
    revision(&sidecar_set(&json!({"image": image}), &json!({})), number, &metadata)
}

#[rstest]
#[case::never_used_again(2, json!({}), Some(200))]
#[case::used_again_and_noted(3, json!({"pillion.dev/effective-since": "1970-01-01T00:05:00Z;revision=3"}), Some(300))]
#[case::used_again_since_it_was_noted(4, json!({"pillion.dev/effective-since": "1970-01-01T00:05:00Z;revision=3"}), None)]
#[case::unreadable(3, json!({"pillion.dev/effective-since": "soon"}), None)]
#[case::used_again_and_not_noted(3, json!({}), None)]
fn roll68_since_when_a_version_is_in_force(#[case] number: i64, #[case] noted: Value, #[case] since: Option<i64>) {
    let other = created(if number == 2 { 1 } else { 2 }, if number == 2 { 100 } else { 250 }, "other", &json!({}));
    let newest = created(number, 200, "newest", &noted);
    assert_eq!(newest.in_force_since([&other, &newest]), since.map(Timestamp));
}

#[rstest]
#[case::without_evictions(None, None)]
#[case::with_evictions(Some(Timestamp(300)), Some("1970-01-01T00:05:00Z;revision=3"))]
fn roll68_rev5_a_revision_that_is_used_again_notes_the_time(
    #[case] noting: Option<Timestamp>,
    #[case] expected: Option<&str>,
) {
    let set = sidecar_set(&json!({}), &json!({}));
    let mut older = created(1, 100, "older", &json!({}));
    older.data = pillion_sidecarset::hash::revision_data(set.spec(&[]).unwrap());
    let newer = created(2, 200, "newer", &json!({}));
    let history = History::new(&set, "u", [&older, &newer]);
    let history = match noting {
        Some(now) => history.noting(now),
        None => history,
    };
    let Latest::Again(Step::Patch { patch, .. }) = history.latest() else { panic!("{:?}", history.latest()) };
    let mut wanted = json!({"revision": 3});
    if let Some(text) = expected {
        wanted["metadata"] = json!({"annotations": {"pillion.dev/effective-since": text}});
    }
    assert_eq!(patch, wanted);
}

#[test]
fn roll66_the_record_survives_a_restart_and_goes_when_pods_are_replaced() {
    let set = sidecar_set(&json!({}), &json!({}));
    let pod = outdated(&set, "a", &[]);
    let mut record = Evicted::default();
    assert!(record.add(&pod, 3));
    let revisions = [created(1, 100, "old", &json!({EVICTED: "x"})), created(2, 200, "new", &json!({}))];
    let steps = record.steps("logs-new", &revisions);
    let [Step::Patch { patch, .. }, Step::Patch { object, patch: removed, .. }] = steps.as_slice() else {
        panic!("{steps:?}")
    };
    let stored = patch["metadata"]["annotations"][EVICTED].as_str().unwrap();
    assert_eq!((object.name.as_str(), removed), ("logs-old", &json!({"metadata": {"annotations": {EVICTED: null}}})));

    let revisions = [created(2, 200, "new", &json!({EVICTED: stored}))];
    let mut again = Evicted::from_revisions(&revisions);
    assert_eq!(again, record);
    assert!(again.steps("logs-new", &revisions).is_empty());
    assert_eq!(again.missing(|_| 1).map(|(uid, _, missing)| (uid, missing)).collect::<Vec<_>>(), [("rs", 2)]);
    again.lower("rs", 2);
    assert_eq!(again.missing(|_| 1).map(|(.., missing)| missing).sum::<usize>(), 1, "it was scaled down");
    again.prune(|_| 2);
    assert_eq!(again, Evicted::default());
    assert_eq!(again.steps("logs-new", &revisions).len(), 1, "the annotation goes");
}

#[test]
fn roll66_the_record_has_a_limit() {
    let set = sidecar_set(&json!({}), &json!({}));
    let mut record = Evicted::default();
    let pod = |uid: &str| outdated(&set, "a", &[replica_set(uid)]);
    let added = (0..500).filter(|number| record.add(&pod(&number.to_string()), 1)).count();
    assert_eq!(added, 400);
    assert!(record.add(&pod("0"), 2), "a known workload has room");
}

#[rstest]
#[case::replicas(json!({"kind": "ReplicaSet", "spec": {"replicas": 3}}), Some(3))]
#[case::one_by_default(json!({"kind": "StatefulSet", "spec": {}}), Some(1))]
#[case::nodes(json!({"kind": "DaemonSet", "status": {"desiredNumberScheduled": 4}}), Some(4))]
#[case::nodes_that_are_not_counted_yet(json!({"kind": "DaemonSet"}), None)]
#[case::being_deleted(
    json!({"kind": "ReplicaSet", "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"replicas": 3}}), Some(0)
)]
fn roll66_how_many_pods_a_workload_wants(#[case] workload: Value, #[case] expected: Option<usize>) {
    assert_eq!(wanted(&workload), expected);
}

#[test]
fn roll67_the_dry_run_creates_the_pod_that_the_workload_would_create() {
    let stateful_set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "web", "namespace": "shop", "uid": "s", "labels": {"own": "label"}},
        "spec": {
            "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
            "template": {
                "metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}},
                "spec": {"containers": [{"name": "main"}], "volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp"}]},
            },
        },
    });
    let expected = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": "web-", "namespace": "shop", "labels": {"app": "web"}, "annotations": {"a": "b"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "s", "controller": true
            }],
        },
        "spec": {
            "containers": [{"name": "main"}],
            "volumes": [{"name": "tmp"}, {"name": "data", "persistentVolumeClaim": {"claimName": "data-web"}}],
        },
    });
    assert_eq!(template::pod(&stateful_set), Some(expected));
    assert_eq!(template::pod(&json!({"spec": {}})), None);
}

#[rstest]
#[case::the_version("", None)]
#[case::another_version("other", Some("get another version of the SidecarSet"))]
#[case::no_sidecar("none", Some("do not get the sidecar"))]
fn roll67_what_the_answer_to_a_dry_run_says(#[case] hash: &str, #[case] expected: Option<&str>) {
    let set = sidecar_set(&json!({}), &json!({}));
    let record = json!({"logs": {"hash": if hash.is_empty() { set.hash() } else { hash }}}).to_string();
    let mut changes = vec![("/metadata/annotations/kruise.io~1sidecarset-hash", json!(record)), replica_set("rs")];
    if hash == "none" {
        changes.push(("/metadata/annotations", json!({})));
    }
    let answer = template::check(&target(&set), &pod(&set, &changes));
    assert_eq!(answer.is_err(), expected.is_some(), "{answer:?}");
    if let (Err(why), Some(expected)) = (answer, expected) {
        assert!(why.contains(expected) && why.contains("ReplicaSet"), "{why}");
    }
}
