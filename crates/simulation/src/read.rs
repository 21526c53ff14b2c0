//! Reads of a simulation: the cluster, with the objects of the manifests and the writes over it.

use http::{Request, Response, StatusCode};
use kube::client::Body;
use pillion_kubernetes::json;
use serde_json::{Value, json};

use super::answer::{Refusal, answer};
use super::cluster::{ask, get, path};
use super::objects::{KINDS, Key, group, resource};
use super::request::Selection;
use super::world::{Known, World};

/// What a list asks for.
pub(super) struct List {
    pub(super) api_version: String,
    pub(super) resource: String,
    pub(super) namespace: Option<String>,
    pub(super) selection: Selection,
    /// Whether this is the first page.
    pub(super) is_first: bool,
}

impl World {
    /// Returns an object as it is now.
    pub(super) async fn current(&self, api_version: &str, key: &Key) -> Result<Option<Value>, Refusal> {
        match self.known(key) {
            Known::There(object) => Ok(Some(Value::clone(&object))),
            Known::Gone => Ok(None),
            Known::Unknown => {
                let Some(cluster) = &self.cluster else { return Ok(None) };
                match ask(cluster, get(&path(api_version, key))).await {
                    Ok((StatusCode::OK, object)) => Ok(Some(object)),
                    Ok((StatusCode::NOT_FOUND, _)) => Ok(None),
                    Ok((status, body)) => {
                        let text = json::text(&body, &["message"]).to_owned();
                        Err(Refusal::bad_request(format!("the cluster answered {status}: {text}")))
                    }
                    Err(error) => Err(Refusal::unreachable(&error)),
                }
            }
        }
    }

    /// Returns the cluster's list with the known objects in the place of its own.
    pub(super) async fn list(&self, request: Request<Body>, list: List) -> Response<Body> {
        let List { api_version, resource, namespace, selection, is_first } = list;
        let of = |key: &Key| {
            key.group == group(&api_version)
                && key.resource == resource
                && namespace.as_ref().is_none_or(|namespace| key.namespace == *namespace)
        };
        let empty = || json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": []});
        let mut listed = match &self.cluster {
            None => empty(),
            Some(cluster) => match ask(cluster, request).await {
                Ok((StatusCode::OK, list)) => list,
                // The cluster does not serve this kind, but the manifests may have objects of it.
                Ok((StatusCode::NOT_FOUND, _)) => empty(),
                Ok((status, body)) => return answer(status, &body),
                Err(error) => return Refusal::unreachable(&error).answer(),
            },
        };
        let (own, hidden) = self.selected(of);
        if let Some(items) = listed.as_object_mut().and_then(|list| json::list_mut(list, "items")) {
            items.retain(|item| {
                let text = |key| json::text(item, &["metadata", key]);
                !hidden
                    .iter()
                    .any(|key| (key.namespace.as_str(), key.name.as_str()) == (text("namespace"), text("name")))
            });
            if is_first {
                items.extend(own.iter().filter(|object| selection.takes(object)).map(|object| Value::clone(object)));
            }
        }
        answer(StatusCode::OK, &listed)
    }

    /// Returns the resources of a group and version: those of the cluster and those that are known; without a cluster,
    /// all kinds.
    pub(super) async fn resources(&self, request: Request<Body>, api_version: &str) -> Response<Body> {
        let mut list = match &self.cluster {
            None => json!({}),
            Some(cluster) => match ask(cluster, request).await {
                Ok((StatusCode::OK, list)) => list,
                Ok((StatusCode::NOT_FOUND, _)) => json!({}),
                Ok((status, body)) => return answer(status, &body),
                Err(error) => return Refusal::unreachable(&error).answer(),
            },
        };
        let named = |list: &Value, kind: &str| {
            json::items(list, &["resources"]).iter().any(|resource| json::text(resource, &["kind"]) == kind)
        };
        for kind in KINDS.iter().filter(|kind| kind.api_versions.contains(&api_version)) {
            let plural = resource(kind.name);
            let is_known = || !self.selected(|key| key.group == kind.group() && key.resource == plural).0.is_empty();
            if !named(&list, kind.name) && (self.cluster.is_none() || is_known()) {
                let more = json!({
                    "name": plural, "singularName": "", "namespaced": kind.is_namespaced, "kind": kind.name,
                    "verbs": ["get", "list"]
                });
                if let Some(resources) = list.as_object_mut().and_then(|list| json::list_mut(list, "resources")) {
                    resources.push(more);
                }
            }
        }
        if json::items(&list, &["resources"]).is_empty() {
            return Refusal::not_found(api_version).answer();
        }
        if let Some(list) = list.as_object_mut() {
            list.insert("groupVersion".to_owned(), api_version.into());
        }
        answer(StatusCode::OK, &list)
    }
}
