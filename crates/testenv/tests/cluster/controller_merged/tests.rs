//! Merged ServiceAccounts on a real API server (MRG-1).
#![allow(clippy::ref_option, reason = "what is there is looked at as it was read")]

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::Role;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use pillion_controllers::merged::uninstall;
use pillion_testenv::faults::{Fault, Faults};
use pillion_testenv::until;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Controller, NAME, both, cluster, finalizers, is_marked, set, settings, uid, uninstalling};
use crate::support::namespace::TestNamespace;
use crate::support::{SOON, create};

/// Seconds for which an object must be unneeded before it is marked, and then marked before it is deleted.
const IDLE: i64 = 601;
const PENDING: i64 = 61;

#[tokio::test]
async fn mrg4_the_life_of_a_merged_account() {
    let (cluster, _turn) = cluster().await;
    let place = TestNamespace::create(cluster, "merged").await;
    let controller = Controller::admin(cluster, Faults::none()).await;
    place.deployment(0).await;
    place.ready(&both()).await;
    let requests = controller.faults.requests();
    let writes: Vec<String> =
        requests.iter().filter(|request| request.contains(&place.name)).map(|request| kind_of(request)).collect();
    let made = ["POST serviceaccounts", "PATCH serviceaccounts", "POST roles", "PATCH roles", "POST rolebindings"];
    assert_eq!(writes[..6], [&["GET pods"], &made[..]].concat(), "{writes:?}");
    let made = place.objects().await;
    assert_eq!(finalizers(made[0].as_ref()), json!(["sa.pillion.dev/a", "sa.pillion.dev/b"]));

    // Permissions are edited.
    let edited = settings(&[set("a", "watch"), set("b", "list")]);
    controller.settings.send_replace(edited.clone());
    place.ready(&edited).await;
    assert_eq!(uid(place.objects().await[1].as_ref()), uid(made[1].as_ref()));

    // One set is deleted while a Pod runs.
    place.pod("web").await;
    controller.settings.send_replace(settings(&[set("a", "watch")]));
    let is_released = |object: &Option<Value>| object.is_some() && finalizers(object.as_ref()).is_null();
    place.objects_that("finalizers being gone", |objects| objects.iter().all(is_released)).await;
    place.delete_deployment().await;
    controller.advance(IDLE);
    place.poke().await;
    let before = controller.faults.count();
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert!(!place.objects().await.iter().any(|object| is_marked(object.as_ref())));
    assert_eq!(controller.faults.requests()[before..], [""; 0], "a watch shows the Pod");

    // The Pod goes.
    place.delete_pod("web").await;
    until("the Pod being seen to go", SOON, async || {
        controller.advance(IDLE);
        place.poke().await;
        // On a slow machine, the objects may be gone by the next check, because the clock advances.
        place.objects().await.iter().all(|object| object.is_none() || is_marked(object.as_ref())).then_some(())
    })
    .await
    .unwrap();
    controller.advance(PENDING);
    place.poke().await;
    place.gone().await;
}

/// Returns the method and the resource of a request, such as `PATCH roles`.
fn kind_of(request: &str) -> String {
    let (method, target) = request.split_once(' ').unwrap();
    let path = target.split('?').next().unwrap();
    let kinds = ["serviceaccounts", "rolebindings", "roles", "pods", "events"];
    let kind = kinds.into_iter().find(|kind| path.contains(&format!("/{kind}"))).unwrap_or(path);
    format!("{method} {kind}")
}

#[tokio::test]
async fn nothing_is_asked_or_written_while_nothing_changes() {
    let (cluster, _turn) = cluster().await;
    let place = TestNamespace::create(cluster, "merged").await;
    let controller = Controller::admin(cluster, Faults::none()).await;
    place.deployment(0).await;
    place.ready(&both()).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let before = controller.faults.count();
    for _ in 0..5 {
        place.poke().await;
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    }
    place.delete_deployment().await;
    assert_eq!(controller.faults.requests()[before..], [""; 0]);
    controller.kill().await;
    uninstall(&uninstalling(&place.client)).await.unwrap();
    place.gone().await;
}

async fn is_stopped(faults: &Faults) -> bool {
    tokio::time::timeout(std::time::Duration::ZERO, faults.stopped()).await.is_ok()
}

/// A Pod is created at each moment of the collection, either as soon as the policy admits it or up to a minute later.
#[rstest]
#[case::asks_and_creates(false)]
#[case::asked_before(true)]
#[tokio::test]
async fn mrg11_no_account_is_collected_under_a_pod(#[case] asked_before: bool) {
    // A list, three marks, a list, three deletions.
    for step in 1..=8 {
        let (cluster, _turn) = cluster().await;
        let place = TestNamespace::create(cluster, "merged").await;
        let controller = Controller::admin(cluster, Faults::none()).await;
        place.deployment(0).await;
        place.ready(&both()).await;
        let account = uid(place.objects().await[0].as_ref());
        place.delete_deployment().await;
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        let first = controller.faults.count();
        controller.faults.plan(first + step, Fault::StopBefore);
        let is_stopped = async || is_stopped(&controller.faults).await;
        let collect = async || {
            controller.advance(if place.objects().await.iter().all(|object| is_marked(object.as_ref())) {
                PENDING
            } else {
                IDLE
            });
            place.poke().await;
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        };
        until("the request", SOON, async || {
            collect().await;
            is_stopped().await.then_some(())
        })
        .await
        .unwrap();
        let may_create = if asked_before { step <= 5 } else { place.is_ready(&both()).await.is_ok() };
        if may_create {
            place.pod("web").await;
        }
        controller.faults.resume();
        for _ in 0..4 {
            collect().await;
        }
        if may_create {
            let objects = place.objects().await;
            assert_eq!(uid(objects[0].as_ref()), account, "step {step}");
            place.ready(&both()).await;
            place.delete_pod("web").await;
        }
        let collected = async || {
            collect().await;
            place.objects().await.iter().all(Option::is_none).then_some(())
        };
        until("all being gone", SOON, collected).await.unwrap();
    }
}

#[tokio::test]
async fn mrg2_what_somebody_else_made_is_left_alone() {
    let (cluster, _turn) = cluster().await;
    let place = TestNamespace::create(cluster, "merged").await;
    let role = json!({
        "metadata": {"name": NAME}, "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    });
    let stored = create(&place.api::<Role>(), &role).await.unwrap();
    let controller = Controller::admin(cluster, Faults::none()).await;
    place.deployment(0).await;
    let note = place.noted("ForeignObject").await;
    assert!(note.contains(&format!("Role \"{NAME}\"")), "{note}");
    let [account, role, binding] = place.objects().await;
    assert_eq!(role.unwrap()["metadata"]["resourceVersion"], stored["metadata"]["resourceVersion"]);
    assert!(account.is_some() && binding.is_none());
    // The controller creates its Role as soon as the name is free.
    place.api::<Role>().delete(NAME, &DeleteParams::default()).await.unwrap();
    place.poke().await;
    place.ready(&both()).await;
    controller.kill().await;
    place.delete_deployment().await;
    uninstall(&uninstalling(&place.client)).await.unwrap();
}

#[tokio::test]
async fn mrg13_what_is_changed_or_deleted_is_repaired_but_no_account_under_a_pod() {
    let (cluster, _turn) = cluster().await;
    let place = TestNamespace::create(cluster, "merged").await;
    let controller = Controller::admin(cluster, Faults::none()).await;
    place.deployment(0).await;
    place.ready(&both()).await;
    let before = place.objects().await;
    let wider = json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    let roles = place.api::<Role>();
    roles.patch(NAME, &PatchParams::default(), &Patch::Merge(&wider)).await.unwrap();
    place.ready(&both()).await;
    roles.delete(NAME, &DeleteParams::default()).await.unwrap();
    let is_new =
        |objects: &[Option<Value>; 3]| objects[1].is_some() && uid(objects[1].as_ref()) != uid(before[1].as_ref());
    place.objects_that("the Role being made anew", is_new).await;
    place.ready(&both()).await;

    place.pod("web").await;
    place.api::<ServiceAccount>().delete(NAME, &DeleteParams::default()).await.unwrap();
    place.noted("MergedAccountLost").await;
    assert_eq!(uid(place.objects().await[0].as_ref()), uid(before[0].as_ref()));
    place.delete_pod("web").await;
    let is_new =
        |objects: &[Option<Value>; 3]| objects[0].is_some() && uid(objects[0].as_ref()) != uid(before[0].as_ref());
    place.objects_that("the account being made anew", is_new).await;
    place.ready(&both()).await;
    controller.kill().await;
    place.delete_deployment().await;
    uninstall(&uninstalling(&place.client)).await.unwrap();
    place.gone().await;
}

#[tokio::test]
async fn mrg9_no_namespace_is_kept_from_going() {
    let (cluster, _turn) = cluster().await;
    let namespaces: Api<Namespace> = Api::all(cluster.admin().await.unwrap());
    let is_gone = async |name: &str| namespaces.get_opt(name).await.unwrap().is_none().then_some(());

    let place = TestNamespace::create(cluster, "merged").await;
    let controller = Controller::admin(cluster, Faults::none()).await;
    place.deployment(0).await;
    place.ready(&both()).await;
    namespaces.delete(&place.name, &DeleteParams::default()).await.unwrap();
    until("the namespace being gone", SOON, async || is_gone(&place.name).await).await.unwrap();

    // If the controller is uninstalled, the objects that a Pod uses stay.
    let place = TestNamespace::create(cluster, "merged").await;
    place.deployment(0).await;
    place.ready(&both()).await;
    place.pod("web").await;
    controller.kill().await;
    let done = uninstall(&uninstalling(&place.client)).await.unwrap();
    assert_eq!((done.released, done.deleted, done.in_use), (3, 0, 3));
    namespaces.delete(&place.name, &DeleteParams::default()).await.unwrap();
    place.delete_pod("web").await;
    until("the namespace being gone", SOON, async || is_gone(&place.name).await).await.unwrap();
}
