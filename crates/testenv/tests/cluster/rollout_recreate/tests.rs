//! Rollouts that evict Pods, on a real API server: budgets hold at each eviction of the audit log.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use pillion_testenv::{Cluster, Options, until};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use super::{EXCLUDED, PROTECTED, RolloutNamespace, start};
use crate::support::controllers::NAMESPACE;
use crate::support::{SOON, dry_run, pod, program};

/// How long nothing must happen before a rollout counts as at rest.
const QUIET: Duration = Duration::from_secs(6);

async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    CLUSTER.get_or_init(async || start(Options::new().nodes(1)).await).await
}

/// Checks that each Pod was evicted once, and that no eviction left more Pods unavailable than allowed.
fn assert_within(place: &RolloutNamespace<'_>, pods: usize, most: usize) -> usize {
    let evictions = place.evictions(pods);
    let names: BTreeSet<&String> = evictions.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), evictions.len(), "{evictions:?}");
    assert!(evictions.iter().all(|(_, unavailable)| *unavailable <= most), "{evictions:?}\n{}", place.logs());
    evictions.len()
}

#[rstest]
#[case::one_by_one("Deployment", json!({}), 3, 1)]
#[case::several_at_a_time("Deployment", json!({"maxUnavailable": "50%"}), 5, 3)]
#[case::of_a_stateful_set("StatefulSet", json!({"maxUnavailable": 2}), 4, 2)]
#[tokio::test(flavor = "multi_thread")]
async fn roll66_pods_are_recreated_within_max_unavailable(
    #[case] kind: &str,
    #[case] strategy: Value,
    #[case] pods: usize,
    #[case] most: usize,
) {
    let place = RolloutNamespace::new(cluster().await).await;
    place.create_set(&strategy).await;
    place.run(&[place.workload(kind, &place.name, pods)], pods).await;
    place.ended("Complete").await;
    assert_eq!(place.levels(&place.name).await, vec!["info"; pods]);

    place.release("debug").await;
    place.evicted(pods).await;
    place.ended("Complete").await;
    place.ready(pods).await;
    assert_eq!(place.levels(&place.name).await, vec!["debug"; pods]);
    tokio::time::sleep(QUIET).await;
    assert_eq!(assert_within(&place, pods, most), pods);
}

#[tokio::test(flavor = "multi_thread")]
async fn roll66_a_budget_of_zero_is_waited_for_and_then_it_goes_on() {
    let place = RolloutNamespace::new(cluster().await).await;
    place.create_set(&json!({"maxUnavailable": 2})).await;
    place.run(&[place.workload("Deployment", &place.name, 3), place.budget("web", 0)], 3).await;
    place.counted("web", 3).await;
    place.ended("Complete").await;

    place.release("debug").await;
    let message = place.ended("HeldByBudget").await;
    assert!(message.contains("PodDisruptionBudget") && message.contains("web"), "{message}");
    tokio::time::sleep(QUIET).await;
    assert_eq!(place.evictions(3), []);

    place.apply(&[place.budget("web", 1)]).await;
    place.evicted(3).await;
    place.ended("Complete").await;
    assert_eq!(place.levels(&place.name).await, ["debug"; 3]);
    assert_eq!(assert_within(&place, 3, 1), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn roll66_a_pod_with_two_budgets_is_reported() {
    let place = RolloutNamespace::new(cluster().await).await;
    place.create_set(&json!({})).await;
    let objects = [place.workload("Deployment", &place.name, 2), place.budget("one", 1), place.budget("two", 1)];
    place.run(&objects, 2).await;
    place.ended("Complete").await;
    place.release("debug").await;
    let message = place.ended("SeveralBudgets").await;
    assert!(message.contains("more than one PodDisruptionBudget"), "{message}");
    assert_eq!(place.evictions(2), []);
    let events: Api<Event> = Api::all(place.client.clone());
    let told = async || {
        let events = events.list(&ListParams::default()).await.ok()?.items;
        let is_it = |event: &Event| {
            event.reason.as_deref() == Some("SeveralBudgets")
                && event.involved_object.name.as_ref() == Some(&place.name)
        };
        events.iter().any(is_it).then_some(())
    };
    until("the Event", SOON, told).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn roll66_a_deployment_may_scale_meanwhile() {
    let place = RolloutNamespace::new(cluster().await).await;
    place.create_set(&json!({})).await;
    place.run(&[place.workload("Deployment", &place.name, 4)], 4).await;
    place.ended("Complete").await;
    place.release("debug").await;
    place.evicted(1).await;
    place.apply(&[place.workload("Deployment", &place.name, 6)]).await;
    place.evicted(2).await;
    place.apply(&[place.workload("Deployment", &place.name, 3)]).await;
    place.ready(3).await;
    place.ended("Complete").await;
    assert_eq!(place.levels(&place.name).await, ["debug"; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn roll67_pods_without_the_sidecar_get_it_where_new_pods_get_it() {
    let place = RolloutNamespace::new(cluster().await).await;
    let bare = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "bare", "namespace": place.name, "labels": {"app": place.name}},
        "spec": {"containers": [{"name": "main", "image": "app:1"}]},
    });
    let objects = [
        place.workload("Deployment", &place.name, 3),
        place.workload("Deployment", EXCLUDED, 1),
        place.workload("Deployment", PROTECTED, 1),
        bare,
    ];
    place.run(&objects, 4).await;
    for namespace in [EXCLUDED, PROTECTED] {
        let there = async || (place.levels(namespace).await == ["none"]).then_some(());
        until("the Pod of another namespace", SOON, there).await.unwrap();
    }
    place.create_set(&json!({"maxUnavailable": 1})).await;
    place.evicted(3).await;
    place.ready(4).await;
    place.ended("Complete").await;
    tokio::time::sleep(QUIET).await;
    let mut levels = place.levels(&place.name).await;
    levels.sort_unstable();
    assert_eq!(levels, ["info", "info", "info", "none"], "no controller recreates the bare Pod");
    assert_eq!(place.levels(EXCLUDED).await, ["none"]);
    assert_eq!(place.levels(PROTECTED).await, ["none"]);
    assert_eq!(assert_within(&place, 4, 1), 3);
    assert_eq!(place.stored().await["status"]["matchedPods"], 3, "the counters are those of the reference");
}

#[tokio::test(flavor = "multi_thread")]
async fn roll67_nothing_is_evicted_while_injection_is_paused() {
    let place = RolloutNamespace::new(cluster().await).await;
    place.create_set(&json!({"maxUnavailable": "100%"})).await;
    place.run(&[place.workload("Deployment", &place.name, 2)], 2).await;
    place.ended("Complete").await;
    place.change(&json!({"injectionStrategy": {"paused": true}})).await;
    place.injects(false).await;
    place.release("debug").await;
    let message = place.ended("NotUpgradablePods").await;
    assert!(message.contains("do not get the sidecar"), "{message}");
    assert_eq!(place.evictions(2), []);
    place.change(&json!({"injectionStrategy": {"paused": false}})).await;
    place.ended("Complete").await;
    assert_eq!(place.levels(&place.name).await, ["debug"; 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn roll66_a_pause_in_the_middle_holds() {
    let place = RolloutNamespace::new(cluster().await).await;
    place.create_set(&json!({})).await;
    place.run(&[place.workload("Deployment", &place.name, 4)], 4).await;
    place.ended("Complete").await;
    place.release("debug").await;
    place.evicted(1).await;
    place.change(&json!({"updateStrategy": {"paused": true}})).await;
    place.ended("Paused").await;
    let before = place.evictions(4).len();
    tokio::time::sleep(QUIET).await;
    assert_eq!(place.evictions(4).len(), before);
    assert!(before < 4, "{before}");
    place.change(&json!({"updateStrategy": {"paused": false}})).await;
    place.ended("Complete").await;
    assert_eq!(assert_within(&place, 4, 1), 4);
}

/// In a cluster of its own, since it takes away what other tests need: the leader, a node and the webhook.
#[tokio::test(flavor = "multi_thread")]
async fn roll66_roll68_leader_node_and_webhook_may_go() {
    let cluster = start(Options::new().nodes(2)).await;
    let place = RolloutNamespace::new(&cluster).await;
    place.create_set(&json!({"maxUnavailable": 2})).await;
    place.run(&[place.workload("Deployment", &place.name, 6)], 6).await;
    place.ended("Complete").await;

    place.release("debug").await;
    place.evicted(1).await;
    let leases = Api::<Lease>::namespaced(place.client.clone(), NAMESPACE);
    let lease = leases.get("pillion-controller-rollout").await.unwrap();
    let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap();
    cluster.stop_program(holder.split('_').next().unwrap(), 0).await.unwrap();
    place.ended("Complete").await;
    place.ready(6).await;
    assert_eq!(place.levels(&place.name).await, ["debug"; 6]);
    // The audit log has an eviction whose answer the dead leader did not take as one that failed.
    let evicted = assert_within(&place, 6, 2);
    assert!((5..=6).contains(&evicted), "{evicted}");

    place.release("trace").await;
    place.evicted(evicted + 1).await;
    Api::<Node>::all(place.client.clone()).delete("node-2", &DeleteParams::default()).await.unwrap();
    place.ended("Complete").await;
    place.ready(6).await;
    assert_eq!(place.levels(&place.name).await, ["trace"; 6]);

    place.change(&json!({"updateStrategy": {"maxUnavailable": 1}})).await;
    let before = place.evictions(6).len();
    place.release("warn").await;
    place.evicted(before + 1).await;
    let hooks = Api::<MutatingWebhookConfiguration>::all(place.client.clone());
    let off = Patch::Merge(json!({"webhooks": []}));
    hooks.patch("pillion", &PatchParams::default(), &off).await.unwrap();
    let message = place.ended("NewPodsLackVersion").await;
    assert!(message.contains("created after this version came into force"), "{message}");
    let evicted = place.evictions(6).len();
    tokio::time::sleep(QUIET).await;
    assert_eq!(place.evictions(6).len(), evicted, "one new Pod without the version stops it");
    assert!(evicted < before + 6);
}

/// Neither a Pod that is older than the version nor a younger one counts as lacking what it leaves out.
#[tokio::test(flavor = "multi_thread")]
async fn opt5_pods_that_leave_the_set_out_are_not_evicted_and_hold_nothing_up() {
    let place = RolloutNamespace::new(cluster().await).await;
    place.create_set(&json!({})).await;
    place.annotate("pillion.dev/opt-out", "Allowed").await;
    let without = |name: &str| {
        let mut workload = place.workload("Deployment", &place.name, 1);
        workload["metadata"]["name"] = name.into();
        // Each has its own Pods.
        workload["spec"]["selector"]["matchLabels"]["part"] = name.into();
        workload["spec"]["template"]["metadata"]["labels"]["part"] = name.into();
        workload["spec"]["template"]["metadata"]["annotations"]["pillion.dev/opt-out-of"] = place.name.clone().into();
        workload
    };
    let has_left = async |count: usize| {
        let levels = async || place.levels(&place.name).await.iter().filter(|level| *level == "none").count();
        until("the Pods going without it", SOON, async || (levels().await == count).then_some(())).await.unwrap();
    };
    // The policy follows the bundle. Until it knows that the SidecarSet allows it, the Pod gets the sidecar.
    let probe = async || {
        let pods: Api<Pod> = Api::namespaced(place.client.clone(), &place.name);
        let metadata = json!({
            "name": "probe", "labels": {"app": place.name}, "annotations": {"pillion.dev/opt-out-of": place.name},
        });
        let probe: Pod = serde_json::from_value(pod(&json!({"metadata": metadata}))).unwrap();
        let made = json!(pods.create(&dry_run(), &probe).await.ok()?);
        (made["spec"]["containers"].as_array()?.len() == 1).then_some(())
    };
    until("the policy allowing it", SOON, probe).await.unwrap();
    place.run(&[place.workload("Deployment", &place.name, 2), without("older")], 3).await;
    has_left(1).await;

    place.release("debug").await;
    place.evicted(2).await;
    place.ended("Complete").await;
    // Younger than the version, with the time after which a Pod must have it.
    tokio::time::sleep(Duration::from_secs(12)).await;
    place.run(&[without("younger")], 4).await;
    has_left(2).await;
    tokio::time::sleep(QUIET).await;
    place.ended("Complete").await;
    place.release("trace").await;
    place.evicted(4).await;
    place.ended("Complete").await;
    tokio::time::sleep(QUIET).await;
    assert_eq!(place.evictions(4).len(), 4);
    let mut levels = place.levels(&place.name).await;
    levels.sort();
    assert_eq!(levels, ["none", "none", "trace", "trace"]);

    // Its author sees who goes without it.
    let mut status = Command::new(program());
    status.args(["status", &place.name, "-o", "json"]).env("KUBECONFIG", place.cluster.admin_kubeconfig_file());
    let output = spawn_blocking(move || status.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let opted_out = report["optedOut"].as_array().unwrap();
    let names: Vec<&str> = opted_out.iter().map(|pod| pod["name"].as_str().unwrap()).collect();
    assert!(names[0].starts_with("older-") && names[1].starts_with("younger-"), "{report:#}");
    assert!(opted_out.iter().all(|pod| pod["namespace"] == place.name.as_str() && pod["by"] == "Pod"), "{report:#}");
    assert_eq!((names.len(), &report["matchedPods"]), (2, &json!(2)), "{report:#}");
}
