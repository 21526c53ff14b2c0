//! What is done in a round.

use pillion_sidecarset::sidecar_set::SidecarSet;
use rstest::rstest;
use serde_json::{Value, json};

use super::{WITHOUT_IMAGE, cold, hot, merge, paired, pod, read, sidecar_set, status};
use crate::consistency::Judged;
use crate::method::UpgradeMethod;
use crate::pod::Pod;
use crate::round::{Chosen, Rest, Round, round};
use crate::target::RolloutTarget;

fn decided(set: &SidecarSet, pods: &[Pod]) -> Round {
    let target = RolloutTarget::new(set, set);
    let pods: Vec<&Pod> = pods.iter().collect();
    let judged: Vec<Judged> = pods.iter().map(|pod| Judged::judge(&target, pod)).collect();
    round(&target, &pods, &judged, |_| false)
}

/// Returns a Pod with the current version, ready or not.
fn updated(set: &SidecarSet, is_ready: bool) -> Pod {
    let record = json!({"logs": {"hash": set.hash()}}).to_string();
    let ready = json!({"type": "Ready", "status": if is_ready { "True" } else { "False" }});
    let changes =
        [("/metadata/annotations/kruise.io~1sidecarset-hash", json!(record)), ("/status/conditions/0", ready)];
    read(&pod(set, &changes))
}

fn outdated(set: &SidecarSet) -> Pod {
    read(&pod(set, &[]))
}

fn chosen(round: &Round) -> Vec<usize> {
    let Round::Upgrade { chosen, .. } = round else { panic!("{round:?}") };
    chosen.iter().map(|chosen| chosen.pod).collect()
}

#[rstest]
#[case::not_update(json!({"type": "NotUpdate"}), Rest::NotUpdate)]
#[case::paused(json!({"paused": true}), Rest::Paused)]
#[case::not_update_and_paused(json!({"type": "NotUpdate", "paused": true}), Rest::NotUpdate)]
#[case::partition_that_is_no_amount(json!({"partition": "some"}), Rest::Unreadable)]
#[case::maximum_that_is_no_amount(json!({"maxUnavailable": true}), Rest::Unreadable)]
#[case::selector_with_an_unknown_operator(
    json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}), Rest::Unreadable
)]
#[case::weight_without_a_selector(json!({"priorityStrategy": {"weightPriority": [{"weight": 1}]}}), Rest::Unreadable)]
#[case::order_without_a_key(json!({"priorityStrategy": {"orderPriority": [{}]}}), Rest::Unreadable)]
#[case::scatter_without_a_key(json!({"scatterStrategy": [{"value": "a"}]}), Rest::Unreadable)]
#[case::unknown_type(json!({"type": "Recreate"}), Rest::Unreadable)]
fn roll12_the_strategy_may_stop_a_round(#[case] strategy: Value, #[case] expected: Rest) {
    let set = sidecar_set(&json!({}), &strategy);
    assert_eq!(decided(&set, &[outdated(&set)]), Round::Rest(expected));
    let errors = RolloutTarget::new(&set, &set).strategy.errors;
    assert_eq!(errors.is_empty(), expected != Rest::Unreadable, "{errors:?}");
    assert!(errors.iter().all(|error| error.path.as_str().starts_with("spec.updateStrategy.")), "{errors:?}");
}

#[test]
fn roll12_a_rollout_ends_when_each_pod_is_updated() {
    let set = cold();
    assert_eq!(decided(&set, &[updated(&set, true), updated(&set, false)]), Round::Rest(Rest::Done));
    assert_eq!(decided(&set, &[]), Round::Rest(Rest::Done));
}

#[test]
fn roll12_a_reset_comes_before_upgrades() {
    let set = hot();
    let in_both = [
        ("/spec/containers/1", json!({"name": "agent-2", "image": "agent:v2"})),
        ("/status/containerStatuses/1", status("agent-2", "agent:v2")),
        ("/metadata/annotations/kruise.io~1sidecarset-working-hotupgrade-container", json!(r#"{"agent":"agent-2"}"#)),
    ];
    let pods = [read(&paired(&set, &[])), read(&paired(&set, &in_both))];
    assert_eq!(decided(&set, &pods), Round::Reset(vec![1]));
}

#[test]
fn roll30_pods_of_which_more_than_images_changed_are_not_upgradable() {
    let set = cold();
    let record = json!(r#"{"logs":{"hash":"other"}}"#);
    let other = read(&pod(&set, &[("/metadata/annotations/kruise.io~1sidecarset-hash-without-image", record)]));
    assert!(other.metadata.annotations.contains_key(WITHOUT_IMAGE));
    let round = decided(&set, &[other, outdated(&set)]);
    assert_eq!(
        round,
        Round::Upgrade {
            not_upgradable: vec![0],
            chosen: vec![Chosen { pod: 1, method: UpgradeMethod::InPlace }],
            open: 1
        }
    );
}

/// Returns a Pod to which an earlier version was sent, and whose kubelet still reports the image before.
fn in_flight(set: &SidecarSet) -> Value {
    let state = json!(r#"{"logs":{"lastContainerStatuses":{"agent":{"imageID":"docker://sha256:agent:v0"}}}}"#);
    pod(
        set,
        &[
            ("/metadata/annotations/kruise.io~1sidecarset-inplace-update-state", state),
            ("/status/containerStatuses/0", status("agent", "agent:v0")),
        ],
    )
}

#[test]
fn roll30_a_pod_whose_last_upgrade_is_under_way_goes_first_and_counts() {
    let set = cold();
    let pods = [outdated(&set), read(&in_flight(&set)), outdated(&set)];
    assert_eq!(chosen(&decided(&set, &pods)), [1], "an edit reaches it, and no second Pod is unavailable");
    let set = sidecar_set(&json!({}), &json!({"maxUnavailable": 2}));
    let pods = [outdated(&set), read(&in_flight(&set)), outdated(&set)];
    assert_eq!(chosen(&decided(&set, &pods)), [1, 0]);
}

#[test]
fn roll30_only_selected_pods_are_upgraded() {
    let set = sidecar_set(&json!({}), &json!({"selector": {"matchLabels": {"canary": "true"}}}));
    let canary = read(&pod(&set, &[("/metadata/labels", json!({"app": "web", "canary": "true"}))]));
    assert_eq!(chosen(&decided(&set, &[outdated(&set), canary])), [1]);
}

#[rstest]
#[case::one_by_default(json!({}), 0, 1)]
#[case::one_is_unavailable_already(json!({}), 1, 0)]
#[case::half(json!({"maxUnavailable": "50%"}), 0, 3)]
#[case::half_less_the_unavailable_ones(json!({"maxUnavailable": "50%"}), 2, 1)]
#[case::none(json!({"maxUnavailable": 0}), 0, 0)]
#[case::partition(json!({"maxUnavailable": "100%", "partition": 2}), 0, 4)]
#[case::partition_beyond_all(json!({"maxUnavailable": "100%", "partition": "150%"}), 0, 1)]
fn roll34_roll35_the_budget_holds(#[case] strategy: Value, #[case] unavailable: usize, #[case] expected: usize) {
    let set = sidecar_set(&json!({}), &strategy);
    let pods: Vec<Pod> =
        (0..6).map(|index| if index < unavailable { updated(&set, false) } else { outdated(&set) }).collect();
    assert_eq!(chosen(&decided(&set, &pods)).len(), expected);
}

#[test]
fn roll35_a_pod_whose_upgrade_may_have_arrived_counts_and_comes_first() {
    let set = cold();
    let target = RolloutTarget::new(&set, &set);
    let mut pods = [outdated(&set), outdated(&set), outdated(&set)];
    pods[2].metadata.uid = "unknown".to_owned();
    let pods: Vec<&Pod> = pods.iter().collect();
    let judged: Vec<Judged> = pods.iter().map(|pod| Judged::judge(&target, pod)).collect();
    let decided = round(&target, &pods, &judged, |pod| pod.metadata.uid == "unknown");
    assert_eq!(chosen(&decided), [2], "maxUnavailable is 1");
}

#[test]
fn roll31_roll32_roll33_order_priority_and_scatter_decide_who_is_first() {
    let priority = json!({"weightPriority": [{"weight": 5, "matchSelector": {"matchLabels": {"zone": "b"}}}]});
    let mut strategy = json!({"maxUnavailable": "100%", "priorityStrategy": priority});
    let of_zones = |set: &SidecarSet| -> Vec<Pod> {
        let zones = ["a", "b", "a", "b", "a", "b"];
        zones.map(|zone| read(&pod(set, &[("/metadata/labels", json!({"app": "web", "zone": zone}))]))).to_vec()
    };
    let set = sidecar_set(&json!({}), &strategy);
    assert_eq!(chosen(&decided(&set, &of_zones(&set))), [1, 3, 5, 0, 2, 4]);
    merge(&mut strategy, &json!({"scatterStrategy": [{"key": "zone", "value": "b"}]}));
    let set = sidecar_set(&json!({}), &strategy);
    assert_eq!(chosen(&decided(&set, &of_zones(&set))), [1, 0, 2, 3, 4, 5]);
}
