//! Requests to the API server.

use anyhow::Context as _;
use http::{Method, Request, header};
use kube::Client;
use serde_json::Value;

/// The kinds of patches.
pub const MERGE: &str = "application/merge-patch+json";
/// The patch that kubelets use.
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON: &str = "application/json";

/// Reads an object or a list.
///
/// # Errors
/// The API server refuses it.
pub async fn get(client: &Client, path: &str) -> anyhow::Result<Value> {
    let request = Request::get(path).body(Vec::new())?;
    client.request(request).await.with_context(|| format!("get {path}"))
}

/// Creates an object.
///
/// # Errors
/// The API server refuses it.
pub async fn create(client: &Client, path: &str, object: &Value) -> anyhow::Result<Value> {
    send(client, Method::POST, path, JSON, object).await
}

/// Patches an object.
///
/// # Errors
/// The API server refuses it.
pub async fn patch(client: &Client, path: &str, media: &str, change: &Value) -> anyhow::Result<Value> {
    send(client, Method::PATCH, path, media, change).await
}

/// Deletes an object at once.
///
/// # Errors
/// The API server refuses it.
pub async fn delete(client: &Client, path: &str) -> anyhow::Result<Value> {
    send(client, Method::DELETE, path, JSON, &serde_json::json!({"gracePeriodSeconds": 0})).await
}

async fn send(client: &Client, method: Method, path: &str, media: &str, body: &Value) -> anyhow::Result<Value> {
    let request = Request::builder().method(&method).uri(path).header(header::CONTENT_TYPE, media);
    let request = request.body(body.to_string().into_bytes())?;
    client.request(request).await.with_context(|| format!("{method} {path}"))
}

/// Returns the path of a Pod.
pub fn pod_path(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods/{name}")
}
