//! A simulated API server that serves reads and refuses writes.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use pillion_kubernetes::json;
use serde_json::{Value, json};
use tower::service_fn;

use super::objects::{KINDS, Key, Object, Situation, group, resource};
use super::{PATIENCE, PreviewError};

/// The number of objects that are looked up in the cluster at the same time.
const AT_ONCE: usize = 8;
/// The metadata that an existing object in the cluster has and its manifest lacks.
const OF_THE_CLUSTER: [&str; 7] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "finalizers",
];

/// Returns a client that sees the cluster as it would be with these manifests; without a cluster, it sees only the
/// manifests. It cannot write: every write is refused with 405. A watch shows its initial list and then nothing more.
///
/// # Errors
/// The cluster cannot be asked.
pub async fn client(situation: &Situation, cluster: Option<Client>) -> Result<Client, PreviewError> {
    let objects = situation.objects();
    let objects = match &cluster {
        None => objects,
        Some(cluster) => {
            let on = |object: Object| on(object, cluster);
            let all: Vec<Option<Object>> = stream::iter(objects).map(on).buffered(AT_ONCE).try_collect().await?;
            all.into_iter().flatten().collect()
        }
    };
    let server = Arc::new(Server { objects, cluster });
    let service = service_fn(move |request: Request<Body>| {
        let server = Arc::clone(&server);
        async move { Ok::<_, Infallible>(server.answer(request).await) }
    });
    Ok(Client::new(service, situation.namespace.clone()))
}

/// Completes an object with the data that the cluster has about it. Returns `None` if the object is only assumed and
/// the cluster has one.
async fn on(mut object: Object, cluster: &Client) -> Result<Option<Object>, PreviewError> {
    let there = match ask(cluster, get(&object.path())).await {
        Ok((StatusCode::OK, there)) => there,
        Ok((StatusCode::NOT_FOUND, _)) => return Ok(Some(object)),
        Ok((_, status)) => return Err(PreviewError::Unreadable(json::text(&status, &["message"]).to_owned())),
        Err(error) => return Err(PreviewError::Unreadable(error.to_string())),
    };
    if object.is_implied {
        return Ok(None);
    }
    if let Some(fields) = object.value.as_object_mut() {
        if let Some(status) = there.get("status") {
            fields.insert("status".to_owned(), status.clone());
        }
        if let (Some(metadata), Some(known)) =
            (json::object_mut(fields, "metadata"), json::object(&there, &["metadata"]))
        {
            for key in OF_THE_CLUSTER {
                if let Some(value) = known.get(key) {
                    metadata.insert(key.to_owned(), value.clone());
                }
            }
        }
    }
    Ok(Some(object))
}

struct Server {
    objects: Vec<Object>,
    cluster: Option<Client>,
}

impl Server {
    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        if request.method() != Method::GET {
            return refused(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", "a preview writes nothing");
        }
        let query = request.uri().query().unwrap_or_default().to_owned();
        let parameter = |name: &str| {
            let mut all = form_urlencoded::parse(query.as_bytes());
            all.find(|(key, _)| key == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
        };
        if matches!(parameter("watch").as_str(), "true" | "1") {
            return pending().await;
        }
        let Some(asked) = Asked::of(request.uri().path()) else { return self.pass_on(request).await };
        match asked {
            Asked::Resources { api_version } => self.resources(request, &api_version).await,
            Asked::One(key) => match self.objects.iter().find(|object| object.key == key) {
                Some(object) => answer(StatusCode::OK, &object.value),
                None => self.pass_on(request).await,
            },
            Asked::List { api_version, resource, namespace } => {
                let of = |key: &Key| {
                    key.group == group(&api_version)
                        && key.resource == resource
                        && namespace.as_ref().is_none_or(|namespace| key.namespace == *namespace)
                };
                let own = self.objects.iter().filter(|object| of(&object.key));
                let selects = Selection { labels: parameter("labelSelector"), fields: parameter("fieldSelector") };
                let selected = own.clone().filter(|object| selects.takes(&object.value)).map(|object| &object.value);
                let is_first = parameter("continue").is_empty();
                self.list(request, own.map(|object| &object.key), selected, is_first).await
            }
        }
    }

    /// Returns the cluster's list with these objects added, and without those that they replace.
    async fn list<'a>(
        &self,
        request: Request<Body>,
        own: impl Iterator<Item = &'a Key>,
        selected: impl Iterator<Item = &'a Value>,
        is_first: bool,
    ) -> Response<Body> {
        let empty = || json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": []});
        let mut list = match &self.cluster {
            None => empty(),
            Some(cluster) => match ask(cluster, request).await {
                Ok((StatusCode::OK, list)) => list,
                // The cluster does not serve this kind, but the manifests may have objects of it.
                Ok((StatusCode::NOT_FOUND, _)) => empty(),
                Ok((status, body)) => return answer(status, &body),
                Err(error) => return unreachable(&error),
            },
        };
        let own: Vec<(&str, &str)> = own.map(|key| (key.namespace.as_str(), key.name.as_str())).collect();
        let place = |item: &Value| {
            let text = |key| json::text(item, &["metadata", key]).to_owned();
            (text("namespace"), text("name"))
        };
        if let Some(items) = list.as_object_mut().and_then(|list| json::list_mut(list, "items")) {
            items.retain(|item| {
                let (namespace, name) = place(item);
                !own.contains(&(namespace.as_str(), name.as_str()))
            });
            if is_first {
                items.extend(selected.cloned());
            }
        }
        answer(StatusCode::OK, &list)
    }

    /// Returns the resources of a group and version: those of the cluster and those in the manifests; without a
    /// cluster, all kinds that manifests can have.
    async fn resources(&self, request: Request<Body>, api_version: &str) -> Response<Body> {
        let is_of = |kind: &str| self.objects.iter().any(|object| object.key.resource == resource(kind));
        let mut list = match &self.cluster {
            None => json!({}),
            Some(cluster) => match ask(cluster, request).await {
                Ok((StatusCode::OK, list)) => list,
                Ok((StatusCode::NOT_FOUND, _)) => json!({}),
                Ok((status, body)) => return answer(status, &body),
                Err(error) => return unreachable(&error),
            },
        };
        let named = |list: &Value, kind: &str| {
            json::items(list, &["resources"]).iter().any(|resource| json::text(resource, &["kind"]) == kind)
        };
        for (_, kind, namespaced) in KINDS.into_iter().filter(|known| known.0 == group(api_version)) {
            if (self.cluster.is_none() || is_of(kind)) && !named(&list, kind) {
                let plural = resource(kind);
                let more = json!({
                    "name": plural, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get", "list"]
                });
                if let Some(resources) = list.as_object_mut().and_then(|list| json::list_mut(list, "resources")) {
                    resources.push(more);
                }
            }
        }
        if json::items(&list, &["resources"]).is_empty() {
            return not_found();
        }
        if let Some(list) = list.as_object_mut() {
            list.insert("groupVersion".to_owned(), api_version.into());
        }
        answer(StatusCode::OK, &list)
    }

    async fn pass_on(&self, request: Request<Body>) -> Response<Body> {
        let Some(cluster) = &self.cluster else { return not_found() };
        match cluster.send(request).await {
            Ok(answer) => answer,
            Err(error) => unreachable(&error),
        }
    }
}

/// The request that a path stands for.
#[derive(Debug, PartialEq)]
enum Asked {
    Resources { api_version: String },
    List { api_version: String, resource: String, namespace: Option<String> },
    One(Key),
}

impl Asked {
    /// Parses a path; `None` for paths that manifests cannot answer.
    fn of(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (api_version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ((*version).to_owned(), rest),
            ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
            _ => return None,
        };
        let key = |resource: &str, namespace: &str, name: &str| Key {
            group: group(&api_version).to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let list = |resource: &str, namespace: Option<&str>| Self::List {
            api_version: api_version.clone(),
            resource: resource.to_owned(),
            namespace: namespace.map(str::to_owned),
        };
        match *rest {
            [] => Some(Self::Resources { api_version }),
            [resource] => Some(list(resource, None)),
            ["namespaces", namespace, resource] => Some(list(resource, Some(namespace))),
            ["namespaces", namespace, resource, name] => Some(Self::One(key(resource, namespace, name))),
            [resource, name] => Some(Self::One(key(resource, "", name))),
            _ => None,
        }
    }
}

impl Object {
    /// Returns the path of the object at the API server.
    fn path(&self) -> String {
        path(json::text(&self.value, &["apiVersion"]), &self.key)
    }
}

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

/// The selectors of a list. Only the forms that controllers use are supported: `key=value` and `key`, for fields also
/// `key!=value`.
struct Selection {
    labels: String,
    fields: String,
}

impl Selection {
    fn takes(&self, object: &Value) -> bool {
        let terms = |text: &str| text.split(',').filter(|term| !term.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        let labelled = terms(&self.labels).iter().all(|term| {
            let (key, value) = term.split_once('=').map_or((term.as_str(), None), |(key, value)| (key, Some(value)));
            let label = json::at(object, &["metadata", "labels", key]).and_then(Value::as_str);
            label.is_some() && (value.is_none() || label == value)
        });
        let has_fields = terms(&self.fields).iter().all(|term| {
            let (path, value) = term.split_once('=').unwrap_or((term, ""));
            let (path, is_wanted) = path.strip_suffix('!').map_or((path, true), |path| (path, false));
            (json::text(object, &path.split('.').collect::<Vec<_>>()) == value) == is_wanted
        });
        labelled && has_fields
    }
}

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

fn answer(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string().into_bytes()));
    *response.status_mut() = status;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

fn refused(code: StatusCode, reason: &str, message: &str) -> Response<Body> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "code": code.as_u16(), "reason": reason, "message": message
    });
    answer(code, &status)
}

fn not_found() -> Response<Body> {
    refused(StatusCode::NOT_FOUND, "NotFound", "it is in no manifest")
}

fn unreachable(error: &kube::Error) -> Response<Body> {
    refused(StatusCode::BAD_GATEWAY, "BadGateway", &error.to_string())
}
