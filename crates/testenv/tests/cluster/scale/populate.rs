//! Creates objects concurrently.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use http::Request;
use kube::Client;
use serde_json::Value;
use tokio::time::sleep;

/// Maximum number of concurrent requests.
const AT_ONCE: usize = 16;
/// Maximum number of attempts: a busy API server asks clients to retry.
const TRIES: usize = 20;

/// Returns the path at which objects of a kind are created.
pub fn path(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("/apiVersion"), text("/kind"));
    let root = if api_version.contains('/') { "apis" } else { "api" };
    let plural = format!("{}s", kind.to_lowercase());
    match text("/metadata/namespace") {
        "" => format!("/{root}/{api_version}/{plural}"),
        namespace => format!("/{root}/{api_version}/namespaces/{namespace}/{plural}"),
    }
}

/// Sends a request, and returns the answer.
pub async fn send(client: &Client, method: &str, path: &str, media: &str, body: &Value) -> Value {
    for _ in 0..TRIES {
        let request = Request::builder().method(method).uri(path).header("content-type", media);
        match client.request::<Value>(request.body(body.to_string().into_bytes()).unwrap()).await {
            Ok(answer) => return answer,
            Err(kube::Error::Api(status)) if matches!(status.code, 429 | 500..) => {}
            Err(kube::Error::Api(status)) => panic!("{method} {path}: {status:?}: {body}"),
            Err(_) => {}
        }
        sleep(Duration::from_millis(200)).await;
    }
    panic!("{method} {path}: not answered");
}

/// Creates these objects, in no particular order.
pub async fn create_all(client: &Client, objects: impl IntoIterator<Item = Value>) -> usize {
    let create = |object: Value| async move {
        send(client, "POST", &path(&object), "application/json", &object).await;
    };
    stream::iter(objects).map(create).buffer_unordered(AT_ONCE).count().await
}

/// Merges a patch into each of these objects (`application/merge-patch+json`).
pub async fn patch_all(client: &Client, paths: impl IntoIterator<Item = String>, patch: &Value) -> usize {
    let patch = |path: String| async move {
        send(client, "PATCH", &path, "application/merge-patch+json", patch).await;
    };
    stream::iter(paths).map(patch).buffer_unordered(AT_ONCE).count().await
}

/// Writes the status of each of these objects (`application/merge-patch+json`).
pub async fn write_statuses(client: &Client, statuses: impl IntoIterator<Item = (String, Value)>) -> usize {
    let write = |(path, status): (String, Value)| async move {
        send(client, "PATCH", &format!("{path}/status"), "application/merge-patch+json", &status).await;
    };
    stream::iter(statuses).map(write).buffer_unordered(AT_ONCE).count().await
}

/// Deletes these objects at once, as the kubelet does with a Pod that has ended.
pub async fn delete_all(client: &Client, paths: impl IntoIterator<Item = String>) -> usize {
    let now = serde_json::json!({"gracePeriodSeconds": 0});
    let now = &now;
    let delete = |path: String| async move {
        send(client, "DELETE", &path, "application/json", now).await;
    };
    stream::iter(paths).map(delete).buffer_unordered(AT_ONCE).count().await
}
