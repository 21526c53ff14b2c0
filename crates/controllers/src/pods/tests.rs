use std::sync::Arc;

use pillion_kubernetes::time::Timestamp;
use pillion_runtime::context::Context;
use pillion_runtime::store::{Facets, Projection as _};
use pillion_simulation::{Simulation, Situation};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{KnownPod, of_identities, of_rollouts};

/// Returns a Pod that was injected with the SidecarSet `logs`.
fn pod() -> Value {
    let injected = json!([{"name": "IS_INJECTED", "value": "true"}]);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "1", "labels": {"app": "web"},
            "annotations": {
                "kruise.io/sidecarset-injected-list": "logs",
                "kruise.io/sidecarset-hash": "{\"logs\":{\"hash\":\"1\"}}"
            }
        },
        "spec": {
            "serviceAccountName": "default", "automountServiceAccountToken": false,
            "initContainers": [{"name": "init", "image": "i", "volumeMounts": [{"name": "vault", "mountPath": "/v"}]}],
            "containers": [
                {"name": "app", "image": "a", "volumeMounts": [{"name": "vault", "mountPath": "/v"}]},
                {"name": "logs", "image": "l:1", "env": injected, "resources": {"limits": {"cpu": "1"}}}
            ],
            "volumes": [
                {"name": "own", "secret": {"secretName": "sidecarset-token-b"}},
                {"name": "vault", "projected": {"sources": [{"serviceAccountToken": {"path": "vault"}}]}}
            ]
        },
        "status": {"phase": "Running"}
    })
}

fn for_identities(pod: &Value) -> KnownPod {
    KnownPod::for_identities(&serde_json::from_value(pod.clone()).unwrap(), None)
}

fn for_rollouts(pod: &Value) -> KnownPod {
    KnownPod::for_rollouts(serde_json::from_value(pod.clone()).unwrap(), None)
}

fn edited(path: &str, value: Value) -> Value {
    let mut pod = pod();
    let (parent, key) = path.rsplit_once('/').unwrap();
    pod.pointer_mut(parent).unwrap()[key] = value;
    pod
}

#[rstest]
#[case::as_it_is(pod())]
#[case::finished(edited("/status/phase", json!("Failed")))]
#[case::without_a_status(edited("/status", Value::Null))]
#[case::without_volumes(edited("/spec/volumes", Value::Null))]
#[case::without_mounts(edited("/spec/initContainers", json!([{"name": "init", "image": "i"}])))]
#[case::not_injected(edited("/metadata/annotations", Value::Null))]
fn tok0_whoever_reads_a_pod_sees_the_same_identities(#[case] pod: Value) {
    let (mut alone, both) = (for_identities(&pod).subject, for_rollouts(&pod).subject);
    // Readers make this hash of what they have read.
    Arc::make_mut(&mut alone).made_from = both.made_from;
    assert_eq!(alone, both);
}

#[test]
fn roll10_what_rollouts_depend_on_is_kept_of_injected_pods_alone() {
    let seen = for_rollouts(&pod());
    assert_eq!(seen.groups().into_iter().collect::<Vec<_>>(), ["logs"]);
    assert_eq!(seen.injected.unwrap().0.metadata.name, "web");
    assert!(for_rollouts(&edited("/metadata/annotations", json!({}))).injected.is_none());
    assert!(for_identities(&pod()).injected.is_none());
}

#[rstest]
#[case::nothing(pod(), Facets::empty())]
#[case::account(edited("/spec/serviceAccountName", json!("own")), Facets::IDENTITY)]
#[case::image(edited("/spec/containers/1/image", json!("l:2")), Facets::CONTENT)]
#[case::ready(edited("/status/conditions", json!([{"type": "Ready", "status": "True"}])), Facets::READINESS)]
#[case::amounts(edited("/spec/containers/1/resources", json!({"limits": {"cpu": "2"}})), Facets::RESOURCES)]
#[case::finished(edited("/status/phase", json!("Failed")), Facets::IDENTITY | Facets::READINESS)]
#[case::injected_no_more(
    edited("/metadata/annotations", json!({})),
    Facets::INJECTION | Facets::CONTENT | Facets::READINESS | Facets::RESOURCES
)]
fn each_controller_is_woken_by_what_concerns_it(#[case] next: Value, #[case] facets: Facets) {
    assert_eq!(for_rollouts(&pod()).differences(&for_rollouts(&next)), facets);
}

#[test]
fn what_a_status_does_not_change_is_kept_as_it_is() {
    let before = for_rollouts(&pod());
    let ready = edited("/status/conditions", json!([{"type": "Ready", "status": "True"}]));
    let after = KnownPod::for_rollouts(serde_json::from_value(ready).unwrap(), Some(&before));
    assert!(Arc::ptr_eq(&before.subject, &after.subject));
}

async fn context() -> Context {
    let situation = Situation { manifests: vec![pod()], ..Situation::default() };
    let simulation = Simulation::new(&situation, None, || Timestamp(0)).await.expect("a simulation");
    Context::new(simulation.client(), watch::channel(Arc::default()).1)
}

#[tokio::test]
async fn with_rollouts_all_controllers_share_one_watch() {
    let context = context().await;
    let pods = of_rollouts(&context);
    assert!(Arc::ptr_eq(&pods, &of_identities(&context)));
    pods.table().listed().await;
    assert_eq!(pods.subjects(&context.store, "shop").len(), 1);
    assert!(pods.injected("shop", "web").is_some());
    assert_eq!((pods.group("logs").len(), pods.groups()), (1, vec!["logs".to_owned()]));
}

#[tokio::test]
async fn controllers_of_identities_keep_nothing_for_rollouts() {
    let context = context().await;
    let pods = of_identities(&context);
    pods.table().listed().await;
    assert_eq!(pods.subjects(&context.store, "shop").len(), 1);
    assert!(pods.injected("shop", "web").is_none());
    // Rollouts that come later see all the same.
    let later = of_rollouts(&context);
    later.table().listed().await;
    assert!(later.injected("shop", "web").is_some());
}
