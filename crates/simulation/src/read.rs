//! Reads of a simulation: the cluster, with the objects of the manifests and the writes over it.

use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use pillion_kubernetes::json;
use serde_json::{Value, json};

use super::answer::{AnswerBody, Refusal, answer, text};
use super::cluster::{ask, get, path};
use super::objects::{KINDS, Key, resource};
use super::place::{Place, Text};
use super::request::{Query, Selection};
use super::world::{Known, World};

/// What a list asks for.
pub(super) struct List {
    pub(super) place: Place,
    pub(super) selection: Selection,
    /// The last object of the page before; `None` for the first page.
    pub(super) after: Option<Key>,
    /// The most objects in a page.
    pub(super) limit: Option<u64>,
}

impl List {
    /// Reads what a list of these objects asks for.
    pub(super) fn new(place: Place, query: &Query) -> Self {
        let last = query.text("continue");
        let after = last.split_once('/').map(|(namespace, name)| Key {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..place.start()
        });
        let limit = query.number("limit").filter(|limit| *limit > 0);
        Self { place, selection: query.selection(), after, limit }
    }
}

impl World {
    /// Returns an object as it is now.
    pub(super) async fn current(&self, api_version: &str, key: &Key) -> Result<Option<Value>, Refusal> {
        match self.known(key) {
            Known::There(object) => value(&object).map(Some),
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

    /// Returns a list: without a cluster, a page of the known objects.
    pub(super) async fn list(&self, request: Request<Body>, list: List) -> Result<Response<AnswerBody>, Refusal> {
        match &self.cluster {
            Some(cluster) => self.list_of(cluster, request, &list).await,
            None => Ok(self.own_list(&list)),
        }
    }

    /// The objects are texts already: they are put together as they are.
    fn own_list(&self, list: &List) -> Response<AnswerBody> {
        let limit = list.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let page = self.page(&list.place, list.after.clone(), limit, |object| list.selection.takes_text(object));
        let next = page.last.as_ref().map(|last| format!("{}/{}", last.namespace, last.name)).unwrap_or_default();
        let metadata = json!({"resourceVersion": page.version.to_string(), "continue": next});
        let items: Vec<&str> = page.objects.iter().map(|object| &**object).collect();
        let items = items.join(",");
        text(StatusCode::OK, format!(r#"{{"apiVersion":"v1","kind":"List","metadata":{metadata},"items":[{items}]}}"#))
    }

    /// Returns the cluster's list with the known objects in the place of its own.
    async fn list_of(
        &self,
        cluster: &Client,
        request: Request<Body>,
        list: &List,
    ) -> Result<Response<AnswerBody>, Refusal> {
        let mut listed = match ask(cluster, request).await {
            Ok((StatusCode::OK, list)) => list,
            // The cluster does not serve this kind, but the manifests may have objects of it.
            Ok((StatusCode::NOT_FOUND, _)) => {
                json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": []})
            }
            Ok((status, body)) => return Ok(answer(status, &body)),
            Err(error) => return Err(Refusal::unreachable(&error)),
        };
        let (own, hidden) = self.selected(&list.place);
        if let Some(items) = listed.as_object_mut().and_then(|list| json::list_mut(list, "items")) {
            items.retain(|item| {
                let text = |key| json::text(item, &["metadata", key]);
                !hidden
                    .iter()
                    .any(|key| (key.namespace.as_str(), key.name.as_str()) == (text("namespace"), text("name")))
            });
            if list.after.is_none() {
                let own = own.iter().map(value).collect::<Result<Vec<Value>, _>>()?;
                items.extend(own.into_iter().filter(|object| list.selection.takes(object)));
            }
        }
        Ok(answer(StatusCode::OK, &listed))
    }

    /// Returns the resources of a group and version: those of the cluster and those that are known; without a cluster,
    /// all kinds.
    pub(super) async fn resources(&self, request: Request<Body>, api_version: &str) -> Response<AnswerBody> {
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
            let place = Place { group: kind.group().to_owned(), resource: plural.clone(), namespace: None };
            let is_known = || !self.page(&place, None, 1, |_| true).objects.is_empty();
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

/// Reads the text of an object.
fn value(object: &Text) -> Result<Value, Refusal> {
    serde_json::from_str(object).map_err(|error| Refusal::bad_request(error.to_string()))
}
