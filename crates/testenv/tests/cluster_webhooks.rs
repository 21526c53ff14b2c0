//! The API server asks webhooks that the test itself serves on 127.0.0.1.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::routing::post;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, ResourceExt};
use pillion_testenv::{Cluster, Hook, Options, until};
use rcgen::generate_simple_self_signed;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;

/// Labels what it is asked about, and refuses what is called `refused`.
async fn answer(request: Request) -> String {
    let review: Value = serde_json::from_slice(&to_bytes(request.into_body(), 1 << 20).await.unwrap()).unwrap();
    let asked = &review["request"];
    let patch = ByteString(br#"[{"op":"add","path":"/metadata/labels","value":{"seen":"yes"}}]"#.to_vec());
    let allowed = asked["object"]["metadata"]["name"] != "refused";
    let response = json!({
        "uid": asked["uid"],
        "allowed": allowed,
        "patchType": allowed.then_some("JSONPatch"),
        "patch": allowed.then_some(patch),
        "auditAnnotations": { "note": "seen" },
    });
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response }).to_string()
}

/// A webhook server, as long as the runtime of the test lasts: its URL and its certificate.
async fn server() -> (String, String) {
    let made = generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = made.signing_key.serialize_der().try_into().unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/mutate", listener.local_addr().unwrap());
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = TowerToHyperService::new(Router::new().route("/mutate", post(answer)));
                let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (url, made.cert.pem())
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
    let (url, certificate) = server().await;

    let hook = Hook::new("maps.test.pillion.dev", &url, &certificate).on("", "v1", "configmaps", &["CREATE"]);
    hook.create_mutating(&client).await.unwrap();

    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let labelled = async || maps.create(&dry, &map("a")).await.ok().filter(|map| map.labels().contains_key("seen"));
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
    let (_, certificate) = server().await;
    // Where somebody listened until now.
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
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let secret = serde_json::from_value(json!({ "metadata": { "name": "a" } })).unwrap();
    let refused = async || secrets.create(&dry, &secret).await.err();
    let refusal = until("the webhook being asked", Duration::from_secs(20), refused).await.unwrap().to_string();
    assert!(refusal.contains("failed calling webhook \"required.test.pillion.dev\""), "{refusal}");
    maps.create(&PostParams::default(), &map("a")).await.unwrap();
}
