//! `serviceaccount` (ACC-1) and `root-ca-publisher` (RUN-6).

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use pillion_testenv::faults::Faults;
use pillion_testenv::until;
use serde_json::{Value, json};

use super::{Fixture, SOON, fixture, settled};

const ROOT: &str = "kube-root-ca.crt";

async fn default_account(fixture: &Fixture, namespace: &str, not: Option<&str>) -> ServiceAccount {
    let accounts = fixture.accounts(namespace);
    let there = async || accounts.get("default").await.ok().filter(|account| account.metadata.uid.as_deref() != not);
    until("a ServiceAccount \"default\"", SOON, there).await.unwrap()
}

async fn root(fixture: &Fixture, namespace: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let maps = fixture.maps(namespace);
    let there = async || serde_json::to_value(maps.get(ROOT).await.ok()?).ok().filter(|map| is_wanted(map));
    until("the certificates", SOON, there).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn acc1_every_active_namespace_has_a_default_account() {
    let fixture = fixture().await;
    let before = fixture.namespace("before").await;
    let faults = Faults::none();
    let running = fixture.start(&faults).await;
    let after = fixture.namespace("after").await;

    let made = default_account(&fixture, &before, None).await;
    default_account(&fixture, &after, None).await;
    assert_eq!((made.metadata.labels, made.metadata.annotations, made.secrets), (None, None, None), "c1_3");

    // ACC-4: changes by other clients stay.
    let accounts = fixture.accounts(&after);
    let patch = Patch::Merge(json!({"automountServiceAccountToken": false, "metadata": {"labels": {"a": "b"}}}));
    accounts.patch("default", &PatchParams::default(), &patch).await.unwrap();
    // ACC-2: a deleted account is recreated.
    fixture.accounts(&before).delete("default", &DeleteParams::default()).await.unwrap();
    default_account(&fixture, &before, made.metadata.uid.as_deref()).await;
    let namespaces = Api::<Namespace>::all(fixture.client.clone());
    let label = Patch::Merge(json!({"metadata": {"labels": {"c": "d"}}}));
    namespaces.patch(&after, &PatchParams::default(), &label).await.unwrap();
    settled(&faults).await;
    let kept = accounts.get("default").await.unwrap();
    assert_eq!(kept.automount_service_account_token, Some(false));
    running.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acc5_a_terminating_namespace_is_left_alone() {
    let fixture = fixture().await;
    let (going, staying) = (fixture.namespace("going").await, fixture.namespace("staying").await);
    let faults = Faults::none();
    let running = fixture.start(&faults).await;
    let account = default_account(&fixture, &going, None).await;
    root(&fixture, &going, |_| true).await;
    // No controller empties the namespace here, so it stays Terminating.
    let namespaces = Api::<Namespace>::all(fixture.client.clone());
    namespaces.delete(&going, &DeleteParams::default()).await.unwrap();
    settled(&faults).await;
    let before = faults.count();

    fixture.accounts(&going).delete("default", &DeleteParams::default()).await.unwrap();
    fixture.maps(&going).delete(ROOT, &DeleteParams::default()).await.unwrap();
    // The controller recreates this account after it has looked at the other namespace.
    let other = default_account(&fixture, &staying, None).await;
    fixture.accounts(&staying).delete("default", &DeleteParams::default()).await.unwrap();
    default_account(&fixture, &staying, other.metadata.uid.as_deref()).await;
    settled(&faults).await;

    assert!(account.metadata.uid.is_some());
    assert!(fixture.accounts(&going).get_opt("default").await.unwrap().is_none());
    assert!(fixture.maps(&going).get_opt(ROOT).await.unwrap().is_none());
    assert!(faults.requests()[before..].iter().all(|request| !request.contains(&going)), "{:?}", faults.requests());
    running.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run6_the_certificates_are_in_every_active_namespace_and_stay_right() {
    let fixture = fixture().await;
    let namespace = fixture.namespace("roots").await;
    let faults = Faults::none();
    let running = fixture.start(&faults).await;
    let authority = fixture.cluster.authority_certificate();
    let right = |map: &Value| map["data"] == json!({"ca.crt": authority});
    let made = root(&fixture, &namespace, right).await;
    assert!(!made["metadata"]["annotations"]["kubernetes.io/description"].as_str().unwrap().is_empty());

    let maps = fixture.maps(&namespace);
    let patch = Patch::Merge(json!({"data": {"ca.crt": "another", "more": "x"}, "metadata": {"labels": {"a": "b"}}}));
    maps.patch(ROOT, &PatchParams::default(), &patch).await.unwrap();
    let repaired = root(&fixture, &namespace, right).await;
    assert_eq!(repaired["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(repaired["metadata"]["labels"], json!({"a": "b"}), "what is not ours stays");

    maps.delete(ROOT, &DeleteParams::default()).await.unwrap();
    root(&fixture, &namespace, |map| right(map) && map["metadata"]["uid"] != made["metadata"]["uid"]).await;

    // Additions by other clients cause no write.
    let before = settled(&faults).await;
    let patch = Patch::Merge(json!({"metadata": {"labels": {"c": "d"}}}));
    maps.patch(ROOT, &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(settled(&faults).await, before, "{:?}", faults.requests());
    running.kill().await;
}
