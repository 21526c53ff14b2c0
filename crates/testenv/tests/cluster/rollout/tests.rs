//! Whole rollouts on a real API server, with Pods that kwok restarts: from the first Pod to the last. The audit log shows
//! each Pod as it was at every moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use pillion_testenv::until;
use rstest::rstest;
use serde_json::{Value, json};

use super::audit::Upgrade;
use super::{NEW, OLD, REPLICAS, RolloutNamespace};
use crate::support::SOON;

fn unedited(_: usize, _: &mut Value) {}

fn names(upgrades: &[Upgrade]) -> Vec<&str> {
    upgrades.iter().map(|upgrade| upgrade.pod.as_str()).collect()
}

/// Returns the largest number of Pods that were unavailable at the same time.
fn most_unavailable(upgrades: &[Upgrade]) -> usize {
    upgrades.iter().map(|upgrade| upgrade.unavailable.len()).max().unwrap_or_default()
}

/// Each Pod got the image exactly once.
fn assert_once(upgrades: &[Upgrade], image: &str) {
    let mut times = BTreeMap::<&str, usize>::new();
    for upgrade in upgrades.iter().filter(|upgrade| upgrade.gives(image)) {
        *times.entry(&upgrade.pod).or_default() += 1;
    }
    assert!(times.values().all(|times| *times == 1), "{times:?}");
}

#[rstest]
#[case::the_default_is_one(json!({}), 4, 1)]
#[case::a_number(json!({"maxUnavailable": 3}), 9, 3)]
#[case::a_percentage_is_rounded_up(json!({"maxUnavailable": "25%"}), 6, 2)]
#[case::all_at_once(json!({"maxUnavailable": "100%"}), 5, 5)]
#[tokio::test(flavor = "multi_thread")]
async fn roll35_a_cold_rollout_reaches_each_pod_within_its_budget(
    #[case] strategy: Value,
    #[case] pods: usize,
    #[case] most: usize,
) {
    let place = RolloutNamespace::new().await;
    place.fill(&[place.set("agent", &json!({"updateStrategy": strategy}))], pods, unedited).await;
    place.ended("agent", "Complete").await;

    place.release("agent", NEW).await;

    let stored = place.ended("agent", "Complete").await;
    let status = &stored["status"];
    for counter in ["matchedPods", "updatedPods", "readyPods", "updatedReadyPods"] {
        assert_eq!(status[counter], pods, "{counter}");
    }
    let upgrades = place.all_upgrades().await;
    assert_eq!(names(&upgrades).into_iter().collect::<BTreeSet<_>>().len(), pods);
    assert_once(&upgrades, NEW);
    assert_eq!(most_unavailable(&upgrades), most, "{upgrades:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn roll34_the_partition_keeps_pods_until_it_is_lowered() {
    let place = RolloutNamespace::new().await;
    let strategy = json!({"maxUnavailable": 2, "partition": "50%"});
    place.fill(&[place.set("agent", &json!({"updateStrategy": strategy}))], 5, unedited).await;
    place.release("agent", NEW).await;
    let stored = place.ended("agent", "PartitionReached").await;
    assert_eq!((&stored["status"]["updatedPods"], &stored["status"]["matchedPods"]), (&json!(2), &json!(5)));
    assert_eq!(place.all_upgrades().await.len(), 2);

    place.change("agent", &json!({"updateStrategy": {"partition": 1}})).await;
    place.ended("agent", "PartitionReached").await;
    assert_eq!(place.all_upgrades().await.len(), 4);

    place.change("agent", &json!({"updateStrategy": {"partition": 0}})).await;
    place.ended("agent", "Complete").await;
    let upgrades = place.all_upgrades().await;
    assert_once(&upgrades, NEW);
    assert_eq!((upgrades.len(), most_unavailable(&upgrades)), (5, 2));
}

#[rstest]
#[case::paused(json!({"paused": true}), "Paused", json!({"paused": false}))]
#[case::not_update(json!({"type": "NotUpdate"}), "NotUpdate", json!({"type": "RollingUpdate"}))]
#[case::nothing_may_be_unavailable(json!({"maxUnavailable": 0}), "NoPodSelected", json!({"maxUnavailable": 1}))]
#[case::an_unreadable_partition(json!({"partition": "150"}), "InvalidStrategy", json!({"partition": null}))]
#[tokio::test(flavor = "multi_thread")]
async fn roll12_nothing_is_upgraded_until_the_strategy_allows_it(
    #[case] strategy: Value,
    #[case] reason: &str,
    #[case] then: Value,
) {
    let place = RolloutNamespace::new().await;
    place.fill(&[place.set("agent", &json!({}))], 2, unedited).await;
    let containers = json!([{"name": "agent", "image": NEW}]);
    place.change("agent", &json!({"updateStrategy": strategy, "containers": containers})).await;
    place.ended("agent", reason).await;
    assert_eq!(names(&place.all_upgrades().await), [""; 0]);

    place.change("agent", &json!({"updateStrategy": then})).await;

    place.ended("agent", "Complete").await;
    assert_eq!(place.images("agent").await, [NEW, NEW]);
}

#[tokio::test(flavor = "multi_thread")]
async fn roll30_the_selector_of_the_strategy_limits_the_rollout() {
    let place = RolloutNamespace::new().await;
    let strategy = json!({"maxUnavailable": 5, "selector": {"matchLabels": {"canary": "yes"}}});
    let canary = |number: usize, pod: &mut Value| {
        if number == 1 {
            pod["metadata"]["labels"]["canary"] = json!("yes");
        }
    };
    place.fill(&[place.set("agent", &json!({"updateStrategy": strategy}))], 3, canary).await;
    place.release("agent", NEW).await;
    place.ended("agent", "SelectorReached").await;
    assert_eq!(place.images("agent").await, [OLD, NEW, OLD]);
    place.change("agent", &json!({"updateStrategy": {"selector": null}})).await;
    place.ended("agent", "Complete").await;
    assert_eq!(place.images("agent").await, [NEW, NEW, NEW]);
}

#[rstest]
#[case::weights(
    json!({"priorityStrategy": {"weightPriority": [
        {"weight": 10, "matchSelector": {"matchLabels": {"number": "3"}}},
        {"weight": 5, "matchSelector": {"matchLabels": {"number": "1"}}},
    ]}}),
    [Some("web-3"), Some("web-1"), None, None]
)]
#[case::an_ordered_key(
    json!({"priorityStrategy": {"orderPriority": [{"orderedKey": "number"}]}}),
    [Some("web-3"), Some("web-2"), Some("web-1"), Some("web-0")]
)]
#[case::scatter(
    json!({
        "priorityStrategy": {"orderPriority": [{"orderedKey": "number"}]},
        "scatterStrategy": [{"key": "half", "value": "upper"}], "maxUnavailable": 4,
    }),
    [Some("web-3"), Some("web-1"), Some("web-0"), Some("web-2")]
)]
#[tokio::test(flavor = "multi_thread")]
async fn roll32_roll33_pods_are_upgraded_in_the_order_of_the_strategy(
    #[case] strategy: Value,
    #[case] expected: [Option<&str>; 4],
) {
    let place = RolloutNamespace::new().await;
    let labels = |number: usize, pod: &mut Value| {
        let labels = &mut pod["metadata"]["labels"];
        labels["number"] = number.to_string().into();
        labels["half"] = json!(if number < 2 { "lower" } else { "upper" });
    };
    place.fill(&[place.set("agent", &json!({"updateStrategy": strategy}))], 4, labels).await;
    place.release("agent", NEW).await;
    place.ended("agent", "Complete").await;
    let upgrades = place.all_upgrades().await;
    let names = names(&upgrades);
    assert_eq!(names.len(), 4);
    let is_expected = |(name, expected): (&&str, Option<&str>)| expected.is_none_or(|expected| **name == *expected);
    assert!(names.iter().zip(expected).all(is_expected), "{names:?}");
}

/// A hot upgrade takes two rounds: the idle half gets the new image, and then the other half gets the empty one.
#[tokio::test(flavor = "multi_thread")]
async fn roll45_roll47_a_hot_rollout_swaps_the_halves_of_each_pod() {
    let place = RolloutNamespace::new().await;
    let empty = "empty:1";
    let container = json!({
        "name": "agent", "image": OLD,
        "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": empty},
    });
    let fields = json!({"containers": [container], "updateStrategy": {"maxUnavailable": 2}});
    place.fill(&[place.set("agent", &fields)], 4, unedited).await;
    for (image, [one, two]) in [(NEW, [empty, NEW]), ("agent:v3", ["agent:v3", empty])] {
        place.release("agent", image).await;
        place.ended("agent", "Complete").await;
        assert_eq!(place.images("agent-1").await, [one; 4]);
        assert_eq!(place.images("agent-2").await, [two; 4]);
        let upgrades = place.all_upgrades().await;
        assert_once(&upgrades, image);
        let given: Vec<Upgrade> = upgrades.iter().filter(|upgrade| upgrade.gives(image)).cloned().collect();
        assert_eq!((given.len(), most_unavailable(&given)), (4, 2), "{upgrades:#?}");
        // No write changes both halves.
        assert!(upgrades.iter().all(|upgrade| upgrade.images.len() == 1), "{upgrades:#?}");
    }
    assert_eq!(place.all_upgrades().await.len(), 16);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sidecar_sets_in_one_pod_are_rolled_out_side_by_side() {
    let place = RolloutNamespace::new().await;
    let strategy = json!({"updateStrategy": {"maxUnavailable": 2}});
    place.fill(&[place.set("agent", &strategy), place.set("proxy", &strategy)], 6, unedited).await;
    place.release("agent", NEW).await;
    place.release("proxy", "proxy:v2").await;
    place.ended("agent", "Complete").await;
    place.ended("proxy", "Complete").await;
    let upgrades = place.all_upgrades().await;
    for (container, image) in [("agent", NEW), ("proxy", "proxy:v2")] {
        assert_eq!(place.images(container).await, [image; 6]);
        assert_once(&upgrades, image);
    }
    assert_eq!(upgrades.len(), 12);
    // Two of each.
    assert!(most_unavailable(&upgrades) <= 4, "{upgrades:#?}");
}

/// A rollout of an image that does not work stops at the budget, and a later image reaches all Pods.
#[rstest]
#[case::never_ready("agent:broken")]
#[case::does_not_exist("agent:missing")]
#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_does_not_work_stops_at_the_budget(#[case] image: &str) {
    let place = RolloutNamespace::new().await;
    let strategy = json!({"updateStrategy": {"maxUnavailable": 2}});
    place.fill(&[place.set("agent", &strategy)], 5, unedited).await;
    place.release("agent", image).await;
    place.upgraded(2).await;
    let upgrades = place.all_upgrades().await;
    assert_eq!((upgrades.len(), most_unavailable(&upgrades)), (2, 2), "{upgrades:#?}");
    let status = place.ended("agent", "RollingOut").await["status"].clone();
    assert_eq!((&status["updatedPods"], &status["readyPods"]), (&json!(2), &json!(3)), "{status}");

    place.release("agent", NEW).await;
    place.ended("agent", "Complete").await;
    assert_eq!(place.images("agent").await, [NEW; 5]);
    let upgrades = place.all_upgrades().await;
    assert_once(&upgrades, NEW);
    assert_eq!(upgrades.len(), 7);
    // ROLL-35: Pods that were not ready before they are upgraded do not count.
    let broken: BTreeSet<&str> = names(&upgrades[..2]).into_iter().collect();
    for upgrade in &upgrades[2..] {
        let others = upgrade.unavailable.iter().filter(|pod| !broken.contains(pod.as_str()));
        assert!(others.count() <= 2, "{upgrades:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_that_never_reports_counts_as_unavailable() {
    let place = RolloutNamespace::new().await;
    let strategy = json!({"updateStrategy": {"maxUnavailable": 1}});
    place.fill(&[place.set("agent", &strategy)], 3, unedited).await;
    place.release("agent", "agent:silent").await;
    place.upgraded(1).await;
    assert_eq!(place.all_upgrades().await.len(), 1);
    place.ended("agent", "RollingOut").await;
    // Whoever replaces the Pod lets the rollout go on.
    let silent = place.all_upgrades().await[0].pod.clone();
    place.delete_pod(&silent).await;
    place.upgraded(2).await;
    let upgrades = place.all_upgrades().await;
    assert_eq!((upgrades.len(), most_unavailable(&upgrades)), (2, 1), "{upgrades:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_others_edit_and_delete_do_not_stop_a_rollout() {
    let place = RolloutNamespace::new().await;
    let strategy = json!({"updateStrategy": {"maxUnavailable": 2}});
    place.fill(&[place.set("agent", &strategy)], 8, unedited).await;
    place.release("agent", NEW).await;
    place.upgraded(1).await;
    for round in 0..30 {
        for pod in 0..8 {
            place.annotate(&format!("web-{pod}"), &round.to_string()).await;
        }
        if round == 5 {
            place.delete_pod("web-3").await;
            place.delete_pod("web-7").await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let stored = place.ended("agent", "Complete").await;
    assert_eq!(stored["status"]["matchedPods"], 6);
    assert_eq!(place.images("agent").await, [NEW; 6]);
    let upgrades = place.all_upgrades().await;
    assert_once(&upgrades, NEW);
    assert_eq!(most_unavailable(&upgrades), 2, "{upgrades:#?}");
    // The annotation of the last round has survived.
    for pod in place.pods().list(&ListParams::default()).await.unwrap() {
        assert_eq!(pod.metadata.annotations.unwrap()["test/other"], "29");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_set_that_is_deleted_ends_its_rollout() {
    let place = RolloutNamespace::new().await;
    place.fill(&[place.set("agent", &json!({}))], 6, unedited).await;
    place.release("agent", NEW).await;
    place.upgraded(2).await;
    place.delete("agent").await;
    // DIFF-13: no condition names it any longer.
    let forgotten = async || {
        let pods = place.pods().list(&ListParams::default()).await.unwrap();
        let names_it = |pod: &Pod| json!(pod.status).to_string().contains(&place.set_name("agent"));
        (!pods.items.iter().any(names_it)).then_some(())
    };
    until("the conditions being written", SOON, forgotten).await.unwrap();
    let upgrades = place.all_upgrades().await;
    assert!((2..6).contains(&upgrades.len()), "{upgrades:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_goes_does_not_stop_the_rollout_of_others() {
    let (going, staying) = (RolloutNamespace::new().await, RolloutNamespace::new().await);
    let both = json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": [going.name, staying.name]});
    let fields = json!({
        "namespaceSelector": {"matchLabels": null, "matchExpressions": [both]},
        "updateStrategy": {"maxUnavailable": 2},
    });
    let set = staying.set("agent", &fields);
    staying.fill(std::slice::from_ref(&set), 4, unedited).await;
    going.fill_for(&[set], 4, unedited).await;
    staying.release("agent", NEW).await;
    staying.upgraded(1).await;
    Api::<Namespace>::all(going.client.clone()).delete(&going.name, &DeleteParams::default()).await.unwrap();
    let gone = async || {
        let pods: Api<Pod> = going.pods();
        pods.list(&ListParams::default()).await.unwrap().items.is_empty().then_some(())
    };
    until("the Pods of the namespace being gone", SOON, gone).await.unwrap();
    let counted = async || (staying.stored("agent").await["status"]["matchedPods"] == 4).then_some(());
    until("the remaining Pods being counted", SOON, counted).await.unwrap();
    staying.ended("agent", "Complete").await;
    assert_eq!(staying.images("agent").await, [NEW; 4]);
    assert_once(&staying.all_upgrades().await, NEW);
}

/// Other tests run at the same time, so the leader changes during their rollouts, too.
#[tokio::test(flavor = "multi_thread")]
async fn another_replica_goes_on_where_the_leader_stopped() {
    let place = RolloutNamespace::new().await;
    place.fill(&[place.set("agent", &json!({}))], 6, unedited).await;
    place.release("agent", NEW).await;
    place.upgraded(2).await;
    let holder = place.holder().await;
    place.kill(&holder).await;
    place.ended("agent", "Complete").await;
    let upgrades = place.all_upgrades().await;
    assert_once(&upgrades, NEW);
    assert_eq!((upgrades.len(), most_unavailable(&upgrades)), (6, 1), "{upgrades:#?}");
    let now = place.holder().await;
    assert!(now != holder && REPLICAS.contains(&now.as_str()), "{now} after {holder}");
}

#[rstest]
#[case::of_the_set(json!({"selector": {"matchExpressions": [{"key": "app", "operator": "Is"}]}}), "InvalidSelector")]
#[case::of_a_priority(
    json!({"updateStrategy": {"priorityStrategy": {"weightPriority": [
        {"weight": 1, "matchSelector": {"matchExpressions": [{"key": "app", "operator": "Is"}]}},
    ]}}}),
    "InvalidStrategy"
)]
#[tokio::test(flavor = "multi_thread")]
async fn a_selector_that_cannot_be_read_stops_the_rollout_and_says_where(#[case] fields: Value, #[case] reason: &str) {
    let place = RolloutNamespace::new().await;
    place.fill(&[place.set("agent", &json!({}))], 2, unedited).await;
    let mut fields = fields;
    json_patch::merge(&mut fields, &json!({"containers": [{"name": "agent", "image": NEW}]}));
    place.change("agent", &fields).await;
    let stored = place.ended("agent", reason).await;
    let conditions = stored["status"]["conditions"].as_array().unwrap();
    let stalled = conditions.iter().find(|condition| condition["type"] == "Stalled").unwrap();
    let message = stalled["message"].as_str().unwrap();
    assert_eq!(stalled["status"], "True");
    assert!(message.contains("matchExpressions[0].operator") && message.contains("Is"), "{message}");
    assert_eq!(place.images("agent").await, [OLD, OLD]);
}
