//! Requests to the cluster below a simulation. They only read.

use std::time::Duration;

use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::Value;

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
    Ok((status, serde_json::from_slice(&body).map_err(kube::Error::SerdeError)?))
}
