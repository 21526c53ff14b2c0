//! The requests of the life of a Secret, and of two controllers at once.

use pillion_plan::sidecar_tokens::UNNEEDED_SINCE;
use pillion_testenv::faults::Faults;
use serde_json::Value;

use super::{Controller, QUIET, cluster, namespace};
use crate::support::namespace::TestNamespace;

/// The whole life of a Secret, with six requests: create it, request a token, fill it; mark it, list Pods, delete it.
async fn life(place: &TestNamespace, controller: &Controller) {
    place.account().await;
    place.deployment(1).await;
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
    let place = namespace().await;
    let controller = place.controller(Faults::none()).await;

    life(&place, &controller).await;

    let requests = controller.faults.requests();
    assert_eq!(requests.len(), LIFE, "{requests:#?}");
}

#[tokio::test]
async fn two_controllers_at_once_do_no_harm() {
    let (cluster, place) = (cluster().await, namespace().await);
    let controllers = [place.controller(Faults::none()).await, place.controller(Faults::none()).await];
    place.account().await;
    place.deployment(1).await;
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
