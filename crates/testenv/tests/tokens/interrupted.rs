//! Requests that fail, and controllers that are killed or run beside others: the result is always the same.

use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use pillion_plan::sidecar_tokens::UNNEEDED_SINCE;
use pillion_testenv::faults::{Fault, Faults};
use pillion_testenv::until;
use rstest::rstest;
use serde_json::Value;

use super::{Controller, Place, QUIET, cluster};
use crate::support::SOON;

/// The whole life of a Secret, with six requests: create it, request a token, fill it; mark it, list Pods, delete it.
async fn life(place: &Place, controller: &Controller) {
    place.account().await;
    place.deployment().await;
    let secret = place.filled().await;
    assert_eq!(place.bearer(cluster().await, &secret).await.unwrap(), place.username());
    place.delete_deployment().await;
    let marked = |secret: &Value| secret["metadata"]["annotations"][UNNEEDED_SINCE].is_string();
    place.secret_that("the Secret being marked", marked).await;
    controller.set_ahead(601);
    place.poke_until("the Secret being deleted", async || place.secret().await.is_none().then_some(())).await;
}

const LIFE: usize = 6;

#[tokio::test]
async fn the_life_of_a_secret_takes_six_requests() {
    let place = Place::new().await;
    let controller = place.controller(Faults::none()).await;

    life(&place, &controller).await;

    let requests = controller.faults.requests();
    assert_eq!(requests.len(), LIFE, "{requests:#?}");
}

/// Whichever request fails once, the result is the same; a Pod that exists meanwhile gets its token.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn each_request_may_fail_once(
    #[values(Fault::Refused(500), Fault::Refused(409), Fault::Refused(429), Fault::AnswerLost)] fault: Fault,
) {
    let lives = (1..=LIFE).map(|number| async move {
        let place = Place::new().await;
        let controller = place.controller(Faults::at(number, fault)).await;
        life(&place, &controller).await;
        let requests = controller.faults.requests();
        assert!(requests.len() <= LIFE + 4, "request {number}: {requests:#?}");
    });
    futures_util::future::join_all(lives).await;
}

/// If a controller is killed before or after any request, the next controller completes its work.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn each_request_may_be_the_last(#[values(Fault::StopBefore, Fault::StopAfter)] fault: Fault) {
    let lives = (1..=LIFE).map(|number| async move {
        let place = Place::new().await;
        let first = place.controller(Faults::at(number, fault)).await;
        let faults = first.faults.clone();
        place.account().await;
        place.deployment().await;
        if number > 3 {
            place.filled().await;
            place.delete_deployment().await;
            if number > 4 {
                let marked = |secret: &Value| secret["metadata"]["annotations"][UNNEEDED_SINCE].is_string();
                place.secret_that("the Secret being marked", marked).await;
                first.set_ahead(601);
                place.poke_until("the request", async || (faults.count() >= number).then_some(())).await;
            }
        }
        faults.stopped().await;
        first.kill().await;

        let second = place.controller(Faults::none()).await;
        if number <= 3 {
            let secret = place.filled().await;
            assert_eq!(place.bearer(cluster().await, &secret).await.unwrap(), place.username());
            place.delete_deployment().await;
        }
        let marked = async || match place.secret().await {
            Some(secret) if !secret["metadata"]["annotations"][UNNEEDED_SINCE].is_string() => None,
            _ => Some(()),
        };
        until("the Secret being marked", SOON, marked).await.unwrap();
        second.set_ahead(3000);
        place.poke_until("the Secret being deleted", async || place.secret().await.is_none().then_some(())).await;
        let secrets = place.api::<Secret>().list(&ListParams::default()).await.unwrap();
        assert_eq!(secrets.items, []);
    });
    futures_util::future::join_all(lives).await;
}

#[tokio::test]
async fn two_controllers_at_once_do_no_harm() {
    let (cluster, place) = (cluster().await, Place::new().await);
    let controllers = [place.controller(Faults::none()).await, place.controller(Faults::none()).await];
    place.account().await;
    place.deployment().await;
    place.filled().await;
    tokio::time::sleep(QUIET).await;
    let secret = place.filled().await;
    let sent = controllers.each_ref().map(|controller| controller.faults.count());
    place.poke().await;
    tokio::time::sleep(QUIET).await;

    assert_eq!(controllers.each_ref().map(|controller| controller.faults.count()), sent);
    assert_eq!(place.bearer(cluster, &secret).await.unwrap(), place.username());
    place.delete_deployment().await;
    place.secret_that("the mark", |secret| secret["metadata"]["annotations"][UNNEEDED_SINCE].is_string()).await;
    for controller in &controllers {
        controller.set_ahead(601);
    }
    place.poke_until("the Secret being deleted", async || place.secret().await.is_none().then_some(())).await;
}
