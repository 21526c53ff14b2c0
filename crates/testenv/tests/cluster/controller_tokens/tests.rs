//! The tokens of isolated sidecars on a real API server (TOK-5 to TOK-7).

use k8s_openapi::api::core::v1::{Namespace, Pod, Secret, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use pillion_identity::names::token_secret;
use pillion_plan::sidecar_tokens::{CHECKSUM, UNNEEDED_SINCE};
use pillion_testenv::faults::{Fault, Faults};
use pillion_testenv::{Cluster, Options, until};
use rstest::rstest;
use serde_json::{Value, json};

use super::{Controller, QUIET, REVOKED, cluster, decoded, namespace, namespace_in, settings, sidecar_set, token, uid};
use crate::support::{Installation, SOON, create, dynamic};

/// User story 1: from `kubectl apply` of SidecarSet and Deployment to a token of the sidecar's ServiceAccount, with the
/// policy, kube-controller-manager, and a controller for the whole cluster.
#[tokio::test]
async fn tok5_what_is_applied_ends_in_a_token_of_the_right_account() {
    let cluster = Cluster::start(Options::new().controller_manager()).await.unwrap();
    let [of_settings, of_resource] = [namespace_in(&cluster).await, namespace_in(&cluster).await];
    let settings = settings(&[sidecar_set("of-settings", &of_settings.name)]);
    let _installation = Installation::start(&cluster, &settings, &[], &["--cache-max-staleness=0s"]).await;
    let config = cluster.as_admin().config().await.unwrap();
    let _controller = Controller::start(config, Faults::none(), settings, None, 0);

    let sets = dynamic(&of_resource.client, "apps.kruise.io/v1beta1", "SidecarSet", "sidecarsets");
    create(&sets, &sidecar_set("of-resource", &of_resource.name)).await.unwrap();
    for place in [&of_settings, &of_resource] {
        place.account().await;
        place.deployment(1).await;
        let secret = place.filled().await;
        assert_eq!(place.bearer(&cluster, &secret).await.unwrap(), place.username());
    }

    // The Pod that kube-controller-manager creates has the token in the sidecar, and nowhere else.
    let pods: Api<Pod> = of_settings.api();
    let first = async || pods.list(&ListParams::default()).await.unwrap().items.pop();
    let pod = serde_json::to_value(until("the Pod of the Deployment", SOON, first).await.unwrap()).unwrap();
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    let volume = volumes.iter().find(|volume| volume.to_string().contains(&token_secret("logs"))).unwrap();
    let containers = pod["spec"]["containers"].as_array().unwrap();
    let mounting = containers.iter().filter(|container| {
        let mounts = container["volumeMounts"].as_array().cloned().unwrap_or_default();
        mounts.iter().any(|mount| mount["name"] == volume["name"])
    });
    assert_eq!(mounting.map(|container| container["name"].clone()).collect::<Vec<_>>(), ["of-settings-agent"]);
    assert_eq!(pod["spec"]["serviceAccountName"], "default");
}

#[tokio::test]
async fn tok6_a_deleted_secret_ends_its_token_and_there_is_a_new_one() {
    let (cluster, place) = (cluster().await, namespace().await);
    place.account().await;
    place.deployment(1).await;
    let _controller = place.controller(Faults::none()).await;
    let first = place.filled().await;

    place.api::<Secret>().delete(&token_secret("logs"), &DeleteParams::default()).await.unwrap();

    let second = place
        .secret_that("a token in a new Secret", |secret| uid(secret) != uid(&first) && !token(secret).is_empty())
        .await;
    assert_eq!(place.bearer(cluster, &second).await.unwrap(), place.username());
    let revoked = async || place.bearer(cluster, &first).await.err();
    until("the old token being refused", REVOKED, revoked).await.unwrap();
}

#[tokio::test]
async fn tok7_a_recreated_account_gets_a_token_at_once() {
    let (cluster, place) = (cluster().await, namespace().await);
    place.account().await;
    place.deployment(1).await;
    let _controller = place.controller(Faults::none()).await;
    let first = place.filled().await;

    place.api::<ServiceAccount>().delete("logs", &DeleteParams::default()).await.unwrap();
    place.event_note("Deployment", "ServiceAccountMissing").await;
    place.account().await;

    let second = place.secret_that("another token", |secret| token(secret) != token(&first)).await;
    assert_eq!(uid(&second), uid(&first));
    assert_eq!(place.bearer(cluster, &second).await.unwrap(), place.username());
    let revoked = async || place.bearer(cluster, &first).await.err();
    until("the token of the old account being refused", REVOKED, revoked).await.unwrap();
}

#[tokio::test]
async fn sap11_without_its_account_there_is_no_token_until_there_is_one() {
    let (cluster, place) = (cluster().await, namespace().await);
    place.deployment(1).await;
    let _controller = place.controller(Faults::none()).await;

    let note = place.event_note("Deployment", "ServiceAccountMissing").await;

    assert!(note.contains("\"logs\""), "{note}");
    assert_eq!(place.secret().await, None);
    place.account().await;
    let secret = place.filled().await;
    assert_eq!(place.bearer(cluster, &secret).await.unwrap(), place.username());
    let events = place.events().await.len();
    place.poke().await;
    tokio::time::sleep(QUIET).await;
    assert_eq!(place.events().await.len(), events, "{:?}", place.events().await);
}

/// In a steady state, no requests are sent. A rotation is one TokenRequest and one write, and afterwards both tokens
/// are valid.
#[tokio::test]
async fn tok7_a_rotation_is_two_requests_and_nothing_else_is_sent() {
    let (cluster, place) = (cluster().await, namespace().await);
    place.account().await;
    place.deployment(1).await;
    let controller = place.controller(Faults::none()).await;
    let first = place.filled().await;
    for _ in 0..4 {
        place.poke().await;
        tokio::time::sleep(QUIET / 4).await;
    }
    assert_eq!(controller.faults.count(), 3, "{:?}", controller.faults.requests());

    // A token of ten minutes is due after 420 to 480 seconds (TOK-7). The test itself takes some of them.
    controller.set_ahead(360);
    place.poke().await;
    tokio::time::sleep(QUIET).await;
    assert_eq!(controller.faults.count(), 3, "{:?}", controller.faults.requests());
    controller.set_ahead(481);
    let other = async || place.secret().await.filter(|secret| token(secret) != token(&first));
    let second = place.poke_until("another token", other).await;
    place.poke().await;
    tokio::time::sleep(QUIET).await;

    assert_eq!(controller.faults.count(), 5, "{:?}", controller.faults.requests());
    assert_eq!(uid(&first), uid(&second));
    for secret in [&first, &second] {
        assert_eq!(place.bearer(cluster, secret).await.unwrap(), place.username());
    }
}

#[rstest]
#[case::emptied(json!({"data": {"token": null}}))]
#[case::another_token(json!({"data": {"token": "b3RoZXI="}}))]
#[case::annotations_taken_away(json!({"metadata": {"annotations": {CHECKSUM: null}}}))]
#[tokio::test]
async fn tok5_what_somebody_edited_is_repaired(#[case] edit: Value) {
    let (cluster, place) = (cluster().await, namespace().await);
    place.account().await;
    place.deployment(1).await;
    let _controller = place.controller(Faults::none()).await;
    let first = place.filled().await;

    place.api::<Secret>().patch(&token_secret("logs"), &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();

    let repaired = place
        .secret_that("another token", |secret| {
            let edited = ["", &token(&first), "other"];
            !edited.contains(&token(secret).as_str()) && secret["metadata"]["annotations"][CHECKSUM].is_string()
        })
        .await;
    assert_eq!(place.bearer(cluster, &repaired).await.unwrap(), place.username());
}

/// A Secret that a Pod mounts stays, and its token is renewed, although no SidecarSet requires it any more.
#[tokio::test]
async fn mrg10_what_a_living_pod_mounts_is_kept_until_it_is_gone() {
    let (cluster, place) = (cluster().await, namespace().await);
    place.account().await;
    place.mounting_pod("web").await;
    let controller = place.controller(Faults::none()).await;
    let first = place.filled().await;

    controller.settings.send_replace(decoded(settings(&[])));
    controller.set_ahead(1000);
    let other = async || place.secret().await.filter(|secret| token(secret) != token(&first));
    let second = place.poke_until("another token", other).await;

    assert_eq!(place.bearer(cluster, &second).await.unwrap(), place.username());
    assert!(!second["metadata"]["annotations"][UNNEEDED_SINCE].is_string());
    place.api::<Pod>().delete("web", &DeleteParams::default().grace_period(0)).await.unwrap();
    place.secret_that("the mark", |secret| secret["metadata"]["annotations"][UNNEEDED_SINCE].is_string()).await;
    controller.set_ahead(1601);
    place.poke_until("the Secret being deleted", async || place.secret().await.is_none().then_some(())).await;
}

/// Before a deletion the controller asks the API server once more, so a Pod that was just created keeps its Secret.
#[tokio::test]
async fn mrg10_a_pod_that_comes_at_the_last_moment_keeps_the_secret() {
    let place = namespace().await;
    place.account().await;
    place.deployment(1).await;
    let controller = place.controller(Faults::at(5, Fault::StopBefore)).await;
    let first = place.filled().await;
    place.delete_deployment().await;
    place.secret_that("the mark", |secret| secret["metadata"]["annotations"][UNNEEDED_SINCE].is_string()).await;
    controller.set_ahead(601);
    place.poke_until("the list of Pods", async || (controller.faults.count() == 5).then_some(())).await;
    controller.faults.stopped().await;

    place.mounting_pod("late").await;
    controller.faults.resume();

    let kept = |secret: &Value| !secret["metadata"]["annotations"][UNNEEDED_SINCE].is_string();
    let secret = place.secret_that("the mark being gone", kept).await;
    assert_eq!(uid(&secret), uid(&first));
    assert!(controller.faults.requests().iter().all(|request| !request.starts_with("DELETE")));
}

#[tokio::test]
async fn mrg9_a_namespace_that_is_being_deleted_gets_nothing() {
    let place = namespace().await;
    place.account().await;
    // No controller completes the deletion here, so the namespace stays Terminating.
    let namespaces: Api<Namespace> = Api::all(place.client.clone());
    place.deployment(1).await;
    namespaces.delete(&place.name, &DeleteParams::default()).await.unwrap();
    let controller = place.controller(Faults::none()).await;

    tokio::time::sleep(QUIET).await;

    assert_eq!(controller.faults.count(), 0, "{:?}", controller.faults.requests());
    assert_eq!(place.secret().await, None);
}
