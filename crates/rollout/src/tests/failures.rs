//! Containers that fail, and the way back.

use pillion_plan::Step;
use pillion_plan::failure::{Back, Cause, FAILED, Failed};
use pillion_sidecarset::sidecar_set::SidecarSet;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::{failed, pod, read, revision, sidecar_set};
use crate::consistency::Judged;
use crate::counts::Counts;
use crate::failed_progress;
use crate::history::{History, Latest, Revision};
use crate::method::UpgradeMethod;
use crate::pod::{Pod, Trouble};
use crate::round::{Chosen, Rest, Round, round};
use crate::status::Progress;
use crate::target::RolloutTarget;
use crate::trouble;

fn version(image: &str, strategy: &Value) -> SidecarSet {
    sidecar_set(&json!({"image": image}), strategy)
}

fn record(back: Option<&str>) -> Failed {
    Failed {
        at: "2026-01-01T00:00:00Z".to_owned(),
        reason: Cause::ProgressDeadlineExceeded,
        message: "no progress".to_owned(),
        sidecar_set_digest: String::new(),
        hash: String::new(),
        back: back.map(str::to_owned),
    }
}

/// Returns a Pod with this version; the container named like the sidecar waits for this reason.
fn waiting(set: &SidecarSet, container: usize, reason: &str) -> Pod {
    let record = json!({"logs": {"hash": set.hash()}}).to_string();
    let [state, last] = ["state", "lastState"].map(|key| format!("/status/containerStatuses/{container}/{key}"));
    read(&pod(
        set,
        &[
            ("/metadata/annotations/kruise.io~1sidecarset-hash", json!(record)),
            (state.as_str(), json!({"waiting": {"reason": reason}})),
            (last.as_str(), json!({"terminated": {"exitCode": 1}})),
        ],
    ))
}

#[rstest]
#[case::crash("CrashLoopBackOff", Some(Trouble::Crash))]
#[case::pull("ErrImagePull", Some(Trouble::Image))]
#[case::the_next_pull("ImagePullBackOff", Some(Trouble::Image))]
#[case::name("InvalidImageName", Some(Trouble::Image))]
#[case::config("CreateContainerConfigError", Some(Trouble::Start))]
#[case::usual_start("ContainerCreating", None)]
#[case::after_init_containers("PodInitializing", None)]
#[case::nothing("", None)]
fn roll61_the_reason_why_a_container_waits_is_read(#[case] reason: &str, #[case] expected: Option<Trouble>) {
    let set = version("agent:v2", &json!({}));
    assert_eq!(waiting(&set, 0, reason).status("agent").unwrap().state.trouble, expected);
}

#[rstest]
#[case::running(json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}))]
#[case::null(json!(null))]
#[case::null_inside(json!({"waiting": null}))]
#[case::null_reason(json!({"waiting": {"reason": null}}))]
fn roll61_other_states_are_no_trouble(#[case] state: Value) {
    let set = version("agent:v2", &json!({}));
    let pod = read(&pod(&set, &[("/status/containerStatuses/0/state", state)]));
    assert_eq!(pod.status("agent").unwrap().state.trouble, None);
}

fn fails(set: &SidecarSet, pods: &[Pod], revisions: &[&Revision]) -> Option<String> {
    let target = RolloutTarget::new(set, set);
    let pods: Vec<&Pod> = pods.iter().collect();
    let judged: Vec<Judged> = pods.iter().map(|pod| Judged::judge(&target, pod)).collect();
    trouble::fails(&target, &pods, &judged, revisions)
}

#[rstest]
#[case::as_many_as_allowed(2, json!({"maxUnavailable": 2}), false)]
#[case::more_than_allowed(3, json!({"maxUnavailable": 2}), true)]
#[case::a_percentage(2, json!({"maxUnavailable": "25%"}), true)]
#[case::one_by_default(2, json!({}), true)]
#[case::none(0, json!({"maxUnavailable": 0}), false)]
fn roll61_containers_fail_in_more_pods_than_max_unavailable(
    #[case] failing: usize,
    #[case] strategy: Value,
    #[case] expected: bool,
) {
    let set = version("agent:v2", &strategy);
    let pods: Vec<Pod> =
        (0..4).map(|number| waiting(&set, 0, if number < failing { "CrashLoopBackOff" } else { "" })).collect();
    let message = fails(&set, &pods, &[]);
    assert_eq!(message.is_some(), expected, "{message:?}");
    if let Some(message) = message {
        assert!(
            message.contains(&format!("{failing} Pods")) && message.contains("Pod \"shop/web\" crashes"),
            "{message}"
        );
    }
}

#[test]
fn roll61_only_pods_with_the_version_and_containers_that_it_changed_count() {
    let set = version("agent:v2", &json!({"maxUnavailable": 0}));
    let old = version("agent:v1", &json!({}));
    let other_version = waiting(&old, 0, "CrashLoopBackOff");
    assert_eq!(fails(&set, &[other_version], &[]), None);
    let of_the_application = waiting(&set, 1, "CrashLoopBackOff");
    assert_eq!(fails(&set, &[of_the_application], &[]), None);
    let own = [waiting(&set, 0, "ErrImagePull")];
    let (before, now) = (revision(&old, 1, &json!({})), revision(&set, 2, &json!({})));
    assert!(fails(&set, &own, &[&before, &now]).is_some_and(|text| text.contains("cannot be pulled")));
    // The version before had the same container and another volume.
    let mut volumes = set.clone();
    volumes.as_value_mut()["spec"]["volumes"] = json!([{"name": "a"}]);
    assert_eq!(fails(&set, &own, &[&revision(&volumes, 1, &json!({})), &now]), None);
}

#[test]
fn roll61_rev5_a_version_that_returns_is_tried_again() {
    let (one, two) = (version("agent:v1", &json!({})), version("agent:v2", &json!({})));
    let failed = revision(&one, 1, &failed(&record(None)));
    let newest = revision(&two, 2, &json!({}));
    let Latest::Again(Step::Patch { patch, .. }) = History::new(&one, "u", [&failed, &newest]).latest() else {
        panic!("an older revision has the data");
    };
    assert_eq!(patch, json!({"revision": 3, "metadata": {"annotations": {FAILED: null}}}));
}

#[test]
fn roll61_a_record_is_written_and_removed() {
    let stored = revision(&version("agent:v1", &json!({})), 1, &json!({}));
    assert_eq!(stored.forgive(), None);
    let Step::Patch { object, patch, uid, .. } = stored.fail(&record(Some("logs-0"))) else { panic!("a patch") };
    assert_eq!((object.kind, uid.as_str()), ("ControllerRevision", "r1"));
    let text = patch["metadata"]["annotations"][FAILED].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Failed>(text).unwrap(), record(Some("logs-0")));
    let marked = revision(&version("agent:v1", &json!({})), 1, &failed(&record(None)));
    assert!(
        matches!(marked.forgive(), Some(Step::Patch { patch, .. }) if patch["metadata"]["annotations"][FAILED].is_null())
    );
}

#[test]
fn roll62_the_whole_revision_has_its_data() {
    let revision = revision(&version("agent:v1", &json!({})), 1, &json!({}));
    let whole = revision.whole();
    assert_eq!(Revision::from_controller_revision(&whole), revision);
    assert!(whole.spec().is_ok());
}

/// Returns the target of the way back from `failed` to `restored`.
fn back<'a>(restored: &'a SidecarSet, resource: &'a SidecarSet, failed: &SidecarSet) -> RolloutTarget<'a> {
    RolloutTarget::new(restored, resource).back_from(failed.hash())
}

/// Returns a Pod with a version, ready or not.
fn with(set: &SidecarSet, is_ready: bool) -> Pod {
    let record = json!({"logs": {"hash": set.hash()}}).to_string();
    let ready = json!({"type": "Ready", "status": if is_ready { "True" } else { "False" }});
    read(&pod(
        set,
        &[
            ("/metadata/annotations/kruise.io~1sidecarset-hash", json!(record)),
            ("/status/conditions/0", ready),
            ("/status/containerStatuses/1/ready", json!(is_ready)),
        ],
    ))
}

fn decided(target: &RolloutTarget<'_>, pods: &[Pod]) -> Round {
    let pods: Vec<&Pod> = pods.iter().collect();
    let judged: Vec<Judged> = pods.iter().map(|pod| Judged::judge(target, pod)).collect();
    round(target, &pods, &judged, |_| false)
}

fn upgrade(chosen: &[usize]) -> Round {
    open(chosen, chosen.len())
}

fn open(chosen: &[usize], open: usize) -> Round {
    let chosen = chosen.iter().map(|pod| Chosen { pod: *pod, method: UpgradeMethod::InPlace }).collect();
    Round::Upgrade { not_upgradable: vec![], chosen, open }
}

#[rstest]
#[case::pods_that_are_not_ready_at_once(json!({}), "bbx", &[2, 0])]
#[case::others_within_the_maximum(json!({"maxUnavailable": 2}), "bbb", &[0, 1])]
#[case::the_partition_keeps_none(json!({"partition": 2}), "bgg", &[0])]
#[case::the_selector_keeps_none(json!({"selector": {"matchLabels": {"canary": "true"}}}), "bgg", &[0])]
#[case::pods_of_other_versions_stay(json!({"maxUnavailable": 5}), "obo", &[1])]
fn roll62_pods_with_the_failed_version_go_back(
    #[case] strategy: Value,
    #[case] pods: &str,
    #[case] expected: &[usize],
) {
    let (old, restored) = (version("agent:v0", &strategy), version("agent:v1", &strategy));
    let failed = version("agent:v2", &strategy);
    let pods: Vec<Pod> = pods
        .chars()
        .map(|one| match one {
            'b' => with(&failed, true),
            'x' => with(&failed, false),
            'g' => with(&restored, true),
            _ => with(&old, true),
        })
        .collect();
    let count = pods.iter().filter(|pod| pod.records().get("logs").is_some_and(|it| it.hash == failed.hash())).count();
    assert_eq!(decided(&back(&restored, &failed, &failed), &pods), open(expected, count));
}

#[rstest]
#[case::paused(json!({"paused": true}), Rest::Paused)]
#[case::not_update(json!({"type": "NotUpdate"}), Rest::NotUpdate)]
fn roll62_the_strategy_may_stop_the_way_back(#[case] strategy: Value, #[case] expected: Rest) {
    let (restored, failed) = (version("agent:v1", &strategy), version("agent:v2", &strategy));
    assert_eq!(decided(&back(&restored, &failed, &failed), &[with(&failed, true)]), Round::Rest(expected));
}

#[rstest]
#[case::pods_go_back(json!({}), upgrade(&[0]), (3, 1, 1), 2, "RollingBack", [false, true, false])]
#[case::the_last_one_starts(json!({}), Round::Rest(Rest::Done), (3, 3, 2), 0, "RollingBack", [false, true, false])]
#[case::all_are_back(json!({}), Round::Rest(Rest::Done), (3, 3, 3), 0, "RolledBack", [false, false, true])]
#[case::others_keep_an_older_version(json!({}), upgrade(&[]), (3, 1, 1), 0, "RolledBack", [false, false, true])]
#[case::some_cannot(
    json!({}), Round::Upgrade { not_upgradable: vec![0, 1], chosen: vec![], open: 0 }, (3, 1, 1), 2, "RolledBack",
    [false, false, true]
)]
#[case::paused(json!({"paused": true}), Round::Rest(Rest::Paused), (3, 1, 1), 2, "Paused", [false, false, false])]
#[case::paused_when_all_are_back(
    json!({"paused": true}), Round::Rest(Rest::Paused), (3, 3, 3), 0, "RolledBack", [false, false, true]
)]
#[case::not_update(
    json!({"type": "NotUpdate"}), Round::Rest(Rest::NotUpdate), (3, 1, 1), 2, "RolledBack", [false, false, true]
)]
#[case::unreadable(
    json!({"partition": "some"}), Round::Rest(Rest::Unreadable), (3, 1, 1), 2, "InvalidStrategy", [false, false, true]
)]
fn roll62_conditions_tell_the_way_back_and_are_never_ready(
    #[case] strategy: Value,
    #[case] round: Round,
    #[case] (matched, updated, updated_ready): (usize, usize, usize),
    #[case] left: usize,
    #[case] reason: &str,
    #[case] expected: [bool; 3],
) {
    let (restored, failed) = (version("agent:v1", &strategy), version("agent:v2", &strategy));
    let (one, two) = (revision(&restored, 1, &json!({})), revision(&failed, 2, &json!({})));
    let rollback = Back { failed: &two.head, record: record(Some(one.name())), restored: &one.head };
    let counts = Counts { matched, updated, ready: updated_ready, updated_ready, ..Counts::default() };
    let normal = Progress::after_round(&back(&restored, &failed, &failed), &round, counts);
    let progress = failed_progress::back(&rollback, &round, normal, (counts, left), "a note");
    assert_eq!(progress.reason, reason, "{progress:?}");
    assert_eq!(progress.conditions().map(|condition| condition.status), expected, "{progress:?}");
    if reason != "InvalidStrategy" {
        for part in [one.name(), two.name(), "ProgressDeadlineExceeded: no progress", "a note"] {
            assert!(progress.message.contains(part), "{progress:?}");
        }
    }
}

#[rstest]
#[case::it_alone(false, false, "changes; 1 of 3 Pods")]
#[case::without_an_earlier_revision(false, true, "no earlier revision")]
#[case::after_the_way_back(true, true, "and failed as well at")]
fn roll61_roll62_a_failure_says_what_failed_and_what_helps(
    #[case] is_back: bool,
    #[case] is_wanted: bool,
    #[case] expected: &str,
) {
    let (one, two) = (
        revision(&version("agent:v1", &json!({})), 1, &json!({})),
        revision(&version("agent:v2", &json!({})), 2, &json!({})),
    );
    let rollback = is_back.then(|| Back { failed: &two.head, record: record(Some(one.name())), restored: &one.head });
    let counts = Counts { matched: 3, updated: 1, ready: 1, updated_ready: 1, ..Counts::default() };
    let progress = failed_progress::failed(two.name(), &record(None), rollback.as_ref(), is_wanted, counts);
    assert_eq!((progress.reason, progress.is_stalled), ("ProgressDeadlineExceeded", true));
    for part in [two.name(), "2026-01-01T00:00:00Z", "no progress", "no further Pod is changed until spec", expected] {
        assert!(progress.message.contains(part), "{progress:?}");
    }
}

proptest! {
    #[test]
    fn roll62_the_way_back_holds_the_budget_and_touches_no_other_version(
        pods in prop::collection::vec((0..3_usize, any::<bool>()), 0..20),
        most in 0..6_usize,
    ) {
        let strategy = json!({"maxUnavailable": most});
        let versions = ["agent:v0", "agent:v1", "agent:v2"].map(|image| version(image, &strategy));
        let made: Vec<Pod> = pods.iter().map(|(number, is_ready)| with(&versions[*number], *is_ready)).collect();
        let target = back(&versions[1], &versions[2], &versions[2]);
        let chosen = match decided(&target, &made) {
            Round::Upgrade { chosen, .. } => chosen,
            Round::Rest(Rest::Done) => vec![],
            other => panic!("{other:?}"),
        };
        prop_assert!(chosen.iter().all(|chosen| pods[chosen.pod].0 == 2));
        let unavailable = pods.iter().filter(|(number, is_ready)| *number == 1 && !is_ready).count();
        let taken = chosen.iter().filter(|chosen| pods[chosen.pod].1).count();
        prop_assert!(taken == 0 || unavailable + taken <= most);
    }
}
