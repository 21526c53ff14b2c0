//! The API server calls webhooks that the test itself serves on 127.0.0.1.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, ResourceExt};
use pillion_testenv::{Cluster, Hook, Options, until};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::{dry_run, webhook};

/// Adds a label to objects, and refuses those called `refused`.
fn answer(asked: &Value) -> Value {
    if asked["object"]["metadata"]["name"] == "refused" {
        return json!({"allowed": false});
    }
    let patch = json!([{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]);
    json!({"allowed": true, "patch": patch, "auditAnnotations": {"note": "seen"}})
}

fn map(name: &str) -> ConfigMap {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    ConfigMap { metadata, ..ConfigMap::default() }
}

#[tokio::test]
async fn a_webhook_on_this_machine_changes_refuses_and_annotates() {
    let cluster = Cluster::start(Options::new().audit_log()).await.unwrap();
    let namespace = cluster.namespace("webhook").await.unwrap();
    let client = cluster.admin().await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let (url, certificate) = webhook::server(answer).await;

    let hook = Hook::new("maps.test.pillion.dev", &url, &certificate).on("", "v1", "configmaps", &["CREATE"]);
    hook.create_mutating(&client).await.unwrap();

    let labelled =
        async || maps.create(&dry_run(), &map("a")).await.ok().filter(|map| map.labels().contains_key("seen"));
    until("the webhook being asked", Duration::from_secs(20), labelled).await.unwrap();
    let stored = maps.create(&PostParams::default(), &map("a")).await.unwrap();
    assert_eq!(stored.labels()["seen"], "yes");
    let refusal = maps.create(&PostParams::default(), &map("refused")).await.unwrap_err();
    assert!(refusal.to_string().contains("maps.test.pillion.dev"), "{refusal}");
    let noted = |event: &Value| event["annotations"]["maps.test.pillion.dev/note"] == "seen";
    let noted = async || cluster.audit_log().into_iter().find(noted);
    let event = until("the note in the audit log", Duration::from_secs(20), noted).await.unwrap();
    assert_eq!(event["objectRef"]["namespace"], namespace);
}

#[tokio::test]
async fn objects_wait_for_no_webhook_that_is_down_where_its_failures_are_ignored() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let namespace = cluster.namespace("webhook-down").await.unwrap();
    let client = cluster.admin().await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let (_, certificate) = webhook::server(answer).await;
    // An address at which no server listens any more.
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let down = |name: &str| Hook::new(name, &format!("https://{nobody}/"), &certificate).timeout(1);

    down("ignored.test.pillion.dev")
        .on("", "v1", "configmaps", &["CREATE"])
        .ignore_failures()
        .create_validating(&client)
        .await
        .unwrap();
    down("required.test.pillion.dev").on("", "v1", "secrets", &["CREATE"]).create_validating(&client).await.unwrap();

    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(client, &namespace);
    let secret = serde_json::from_value(json!({ "metadata": { "name": "a" } })).unwrap();
    let refused = async || secrets.create(&dry_run(), &secret).await.err();
    let refusal = until("the webhook being asked", Duration::from_secs(20), refused).await.unwrap().to_string();
    assert!(refusal.contains("failed calling webhook \"required.test.pillion.dev\""), "{refusal}");
    maps.create(&PostParams::default(), &map("a")).await.unwrap();
}
