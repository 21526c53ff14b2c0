//! Requests to the cluster below a simulation. They only read.

use std::time::Duration;

use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::objects::Key;

/// The time limit for one answer.
const PATIENCE: Duration = Duration::from_mins(2);

/// Returns the path of an object at the API server.
pub(super) fn path(api_version: &str, key: &Key) -> String {
    let Key { namespace, resource, name, .. } = key;
    let root = if api_version.contains('/') { "apis" } else { "api" };
    if namespace.is_empty() {
        format!("/{root}/{api_version}/{resource}/{name}")
    } else {
        format!("/{root}/{api_version}/namespaces/{namespace}/{resource}/{name}")
    }
}

/// Returns the request for a path.
pub(super) fn get(path: &str) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    // A name that is not valid in a path matches no object.
    *request.uri_mut() = path.parse().unwrap_or_default();
    request
}

/// Sends a request to the cluster and reads the whole answer.
pub(super) async fn ask(cluster: &Client, request: Request<Body>) -> Result<(StatusCode, Value), kube::Error> {
    let answer = tokio::time::timeout(PATIENCE, cluster.send(request)).await;
    let answer = answer.map_err(|elapsed| kube::Error::Service(elapsed.into()))??;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    match serde_json::from_slice(&body) {
        Ok(value) => Ok((status, value)),
        // About a kind that it does not serve, an API server answers "404 page not found", as plain text.
        Err(_) if status == StatusCode::NOT_FOUND => Ok((status, not_served())),
        Err(error) => Err(kube::Error::SerdeError(error)),
    }
}

/// Returns the answer of an API server about a kind that it does not serve, as an object.
fn not_served() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "code": StatusCode::NOT_FOUND.as_u16(), "reason": "NotFound",
        "message": "the server could not find the requested resource",
    })
}
