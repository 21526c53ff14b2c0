//! The rights that `pillion manifest controller` renders are enough for the controllers.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use pillion_install::rendering::options::Controller;
use pillion_install::rendering::{controller, document};
use pillion_kubernetes::time::Timestamp;
use pillion_runtime::Clock;
use pillion_service_accounts::legacy_token_cleaner;
use pillion_testenv::faults::Faults;
use pillion_testenv::{apply, until};
use serde_json::json;

use super::{SOON, context, fixture, settled, start};
use crate::support::options;

const LOOPS: &str = "serviceaccount,serviceaccount-token,root-ca-publisher,legacy-token-cleaner";

/// Returns the manifest of the controllers' ServiceAccount and its rights.
fn manifest() -> String {
    let options: Controller = options(&["--controllers", LOOPS]);
    let mut documents = controller::render(&json!({}), &options).unwrap().documents;
    documents.retain(|document| {
        let kind = document.object["kind"].as_str().unwrap();
        kind.contains("Role") || ["Namespace", "ServiceAccount"].contains(&kind)
    });
    document::to_yaml(&documents).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn run7_the_rendered_rights_are_enough() {
    let fixture = fixture().await;
    apply(&fixture.client, &manifest(), "test").await.unwrap();
    let identity = fixture.cluster.as_service_account("pillion-system", "pillion-controller").await.unwrap();
    let config = identity.config().await.unwrap();
    let faults = Faults::none();
    let namespace = fixture.namespace("work").await;
    fixture.account(&namespace, "bot", &["bot-token-x2b4z", "s"]).await;
    fixture.secret(&namespace, "s", "bot").await;
    fixture.secret(&namespace, "orphan", "missing").await;

    let running = start(config.clone(), fixture.cluster, &faults, Clock::system());

    fixture.token(&namespace, "s", |_| true).await;
    fixture.gone(&fixture.secrets(&namespace), "orphan").await;
    let named = async || Some(fixture.named(&namespace, "bot").await).filter(|named| named == &["s"]);
    until("the name being gone", SOON, named).await.unwrap();
    let accounts = fixture.accounts(&namespace);
    until("the ServiceAccount", SOON, async || accounts.get("default").await.ok()).await.unwrap();
    let maps = fixture.maps(&namespace);
    until("the certificates", SOON, async || maps.get("kube-root-ca.crt").await.ok()).await.unwrap();
    let more = Patch::Merge(json!({"data": {"more": "x"}}));
    maps.patch("kube-root-ca.crt", &PatchParams::default(), &more).await.unwrap();
    let repaired = async || maps.get("kube-root-ca.crt").await.ok()?.data.filter(|data| data.len() == 1);
    until("the certificates being repaired", SOON, repaired).await.unwrap();
    settled(&faults).await;
    running.kill().await;

    let maps = Api::<ConfigMap>::namespaced(fixture.client.clone(), "kube-system");
    let tracking = "kube-apiserver-legacy-service-account-token-tracking";
    until("the ConfigMap of the API server", SOON, async || maps.get(tracking).await.ok()).await.unwrap();
    let (system, later) = (Clock::system(), 800 * 24 * 60 * 60);
    let clock = Clock::new(move || Timestamp(system.now().0 + later));
    let context = context(config, &Faults::none(), clock);
    let period = legacy_token_cleaner::Options::default().period;
    legacy_token_cleaner::clean(&context, period).await.unwrap();
    let secret = fixture.secrets(&namespace).get("s").await.unwrap();
    let labels = secret.metadata.labels.unwrap_or_default();
    assert!(labels.contains_key("kubernetes.io/legacy-token-invalid-since"), "{labels:?}");
    fixture.secrets(&namespace).delete("s", &DeleteParams::default()).await.unwrap();
}
