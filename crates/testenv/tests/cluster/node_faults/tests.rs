use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client};
use pillion_testenv::{NodeProgram, until};
use rstest::rstest;

use super::installation::processes;
use super::scene::turn;
use crate::processes::{lives, signal};
use crate::support::controllers::NAMESPACE;
use crate::support::node::STARTED;

#[rstest]
#[case::the_kubelet(NodeProgram::Kubelet)]
#[case::the_runtime(NodeProgram::Containerd)]
#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_ends_after_a_program_of_a_node_was_killed(#[case] program: NodeProgram) {
    let mut turn = turn().await;
    let node = turn.scene.node(0);
    node.kill(program).await.unwrap();
    turn.release().await;
    turn.until_stuck(&node).await;

    node.start(program).await.unwrap();

    turn.ends().await;
}

/// Two of four Pods are on the node. Three may be unavailable, so one other Pod at a time is upgraded.
#[tokio::test(flavor = "multi_thread")]
async fn roll35_pods_of_a_node_that_is_gone_wait_and_are_upgraded_when_it_is_back() {
    let mut turn = turn().await;
    let node = turn.scene.node(0);
    turn.allow(3).await;
    node.freeze(NodeProgram::Kubelet).await.unwrap();
    turn.scene.until_node(&node, false).await;
    turn.release().await;

    let stored = turn.scene.until_reason("PodsAbsent").await;
    assert_eq!(stored["status"]["updatedReadyPods"], 2);
    node.thaw(NodeProgram::Kubelet).await.unwrap();

    turn.ends().await;
}

/// All containers of the node end in the middle of a rollout, and start again with the node.
#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_ends_after_a_node_was_off() {
    let mut turn = turn().await;
    let node = turn.scene.node(0);
    turn.allow(1).await;
    node.power_off().await.unwrap();
    turn.release().await;
    turn.until_stuck(&node).await;

    node.power_on().await.unwrap();
    node.ready().await.unwrap();

    turn.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_ends_after_the_api_server_was_restarted() {
    let mut turn = turn().await;
    turn.allow(1).await;
    turn.release().await;
    turn.until_begun().await;

    turn.scene.cluster.stop_api_server().await.unwrap();
    turn.scene.cluster.start_api_server().await.unwrap();

    turn.ends().await;
}

/// Returns who holds the Lease, since when, and when it was renewed.
async fn lease(client: &Client) -> (String, Timestamp, Timestamp) {
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let spec = leases.get("pillion-controller-rollout").await.unwrap().spec.unwrap();
    (spec.holder_identity.unwrap(), spec.acquire_time.unwrap().0, spec.renew_time.unwrap().0)
}

/// The container that the kubelet starts again is who its predecessor was, so it need not wait for the Lease.
#[tokio::test(flavor = "multi_thread")]
async fn controllers_that_are_killed_go_on_at_once_where_they_were() {
    let mut turn = turn().await;
    turn.allow(1).await;
    turn.release().await;
    turn.until_begun().await;
    let client = turn.scene.cluster.admin().await.unwrap();

    let killed = processes(turn.scene.cluster);
    assert_eq!(killed.len(), 2);
    for (process, _) in &killed {
        signal("-KILL", &process.to_string());
    }
    until("the controllers' end", STARTED, async || (!killed.iter().any(lives)).then_some(())).await.unwrap();
    let (holder, since, renewed) = lease(&client).await;
    let holds_again = async || {
        let (holder, since, now) = lease(&client).await;
        (now > renewed).then_some((holder, since))
    };
    let again = until("the Lease being renewed", STARTED, holds_again).await.unwrap();

    // Whoever waits for the end of a Lease holds it since then.
    assert_eq!(again, (holder, since));
    let restarted = async || (turn.scene.restarts_of_controllers().await == [1, 1]).then_some(());
    until("the controllers having restarted", STARTED, restarted).await.unwrap();
    turn.ends().await;
}
