//! A webhook server that the test runs itself.

use std::future::pending;
use std::sync::Arc;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::routing::post;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use k8s_openapi::ByteString;
use rcgen::generate_simple_self_signed;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;

/// Computes the response to an `AdmissionRequest`: `allowed`, `patch` (a JSON patch, not encoded) and so on. Null means
/// that the server never answers.
pub type Answer = fn(&Value) -> Value;

async fn respond(answer: Answer, request: Request) -> String {
    let review: Value = serde_json::from_slice(&to_bytes(request.into_body(), 1 << 20).await.unwrap()).unwrap();
    let mut response = answer(&review["request"]);
    if response.is_null() {
        pending::<()>().await;
    }
    response["uid"] = review["request"]["uid"].clone();
    if response["patch"].is_array() {
        response["patch"] = json!(ByteString(response["patch"].to_string().into_bytes()));
        response["patchType"] = "JSONPatch".into();
    }
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response }).to_string()
}

/// Starts a webhook server that lasts as long as the test's runtime. Returns the URL of its only path, and its
/// certificate.
pub async fn server(answer: Answer) -> (String, String) {
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
    let router = Router::new().route("/mutate", post(async move |request| respond(answer, request).await));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, router) = (acceptor.clone(), router.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = TowerToHyperService::new(router);
                let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (url, made.cert.pem())
}
