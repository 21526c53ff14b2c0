//! A stand-in API server: a service in the process of the test. It supports lists, watches, optimistic concurrency and
//! JSON patches, and fails on request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use futures_util::stream;
use hyper::{Method, Request, Response};
use kube::Client;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::watch;

/// The served resources: group and version, plural, kind, whether namespaced.
const SERVED: [(&str, &str, &str, bool); 5] = [
    ("/api/v1", "secrets", "Secret", true),
    ("/api/v1", "namespaces", "Namespace", false),
    ("/api/v1", "serviceaccounts", "ServiceAccount", true),
    ("/apis/admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", false),
    ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", false),
];

/// Faults to inject.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Forbids requests that start like this (`GET /api/v1/secrets`, `WATCH /api/v1/namespaces`).
    pub forbidden: Vec<String>,
    /// Connections fail.
    pub down: bool,
    /// No request is answered any more; connections stay open.
    pub frozen: bool,
    /// Versions before this one are forgotten.
    pub oldest: u64,
    /// Watches send no bookmarks, as those of an API server while nothing changes.
    pub no_bookmarks: bool,
    /// How often other tasks run before a request is handled: each request takes a few bits of this number.
    pub chance: u64,
}

/// A change of an object.
type Edit = fn(&mut Value);

#[derive(Debug, Default)]
struct ApiServerState {
    objects: BTreeMap<String, Value>,
    version: u64,
    /// Version, type of the event, path of the object, object.
    events: Vec<(u64, &'static str, String, Value)>,
    requests: Vec<String>,
    conflicts: usize,
    /// An edit by another client, applied right before the next patch of the object.
    in_between: Option<(&'static str, Edit)>,
    faults: Faults,
}

/// A stand-in for kube-apiserver and etcd.
#[derive(Clone)]
pub struct ApiServer {
    state: Arc<Mutex<ApiServerState>>,
    /// Counts changes. Watches wait for the next one.
    changed: Arc<watch::Sender<u64>>,
    /// Counts how often all connections were cut.
    cuts: Arc<watch::Sender<u64>>,
}

impl Default for ApiServer {
    fn default() -> Self {
        let state = ApiServerState { version: 1, ..ApiServerState::default() };
        Self {
            state: Arc::new(Mutex::new(state)),
            changed: Arc::new(watch::channel(0).0),
            cuts: Arc::new(watch::channel(0).0),
        }
    }
}

impl ApiServer {
    /// Creates a server without objects.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a client of this server.
    pub fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let server = server.clone();
            async move { server.answer(request).await }
        });
        Client::new(service, "default")
    }

    fn state(&self) -> MutexGuard<'_, ApiServerState> {
        self.state.lock()
    }

    /// Creates or overwrites an object, as another client would.
    pub fn put(&self, path: &str, object: Value) {
        self.state().store(path, object);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Returns the object at a path.
    pub fn object(&self, path: &str) -> Option<Value> {
        self.state().objects.get(path).cloned()
    }

    /// Changes an object if it exists.
    pub fn edit(&self, path: &str, change: impl FnOnce(&mut Value)) {
        if let Some(mut object) = self.object(path) {
            change(&mut object);
            self.put(path, object);
        }
    }

    /// Deletes an object if it exists, as another client would.
    pub fn delete(&self, path: &str) {
        let mut state = self.state();
        if let Some(mut object) = state.objects.remove(path) {
            state.version += 1;
            let version = state.version;
            object["metadata"]["resourceVersion"] = json!(version.to_string());
            state.events.push((version, "DELETED", path.to_owned(), object));
        }
        drop(state);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Breaks all connections.
    pub fn cut(&self) {
        self.cuts.send_modify(|count| *count += 1);
    }

    /// Changes the injected faults.
    pub fn fail(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.state().faults);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Returns the requests so far, as `GET /path?query`, or `WATCH /path?query` for watches.
    pub fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    /// Returns the number of requests so far that start like this.
    pub fn count(&self, start: &str) -> usize {
        self.state().requests.iter().filter(|request| request.starts_with(start)).count()
    }

    /// Makes another client change an object right before the next patch of it.
    pub fn come_in_between(&self, path: &'static str, change: Edit) {
        self.state().in_between = Some((path, change));
    }

    /// Returns the number of conflicting writes so far.
    pub fn conflicts(&self) -> usize {
        self.state().conflicts
    }

    async fn answer(&self, request: Request<kube::client::Body>) -> Result<Response<Body>, std::io::Error> {
        let (head, body) = request.into_parts();
        let body = axum::body::to_bytes(Body::new(body), usize::MAX).await.unwrap();
        let query: BTreeMap<String, String> = head
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let watches = query.contains_key("watch");
        let verb = if watches { "WATCH".to_owned() } else { head.method.to_string() };
        let shown = format!("{verb} {}", head.uri);
        let faults = {
            let mut state = self.state();
            state.requests.push(shown.clone());
            let faults = state.faults.clone();
            state.faults.chance = faults.chance.rotate_right(3);
            faults
        };
        for _ in 0..(faults.chance & 7) {
            tokio::task::yield_now().await;
        }
        if faults.down {
            return Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
        }
        if faults.frozen {
            std::future::pending::<()>().await;
        }
        if faults.forbidden.iter().any(|start| shown.starts_with(start)) {
            return Ok(status(403, "Forbidden", &format!("{shown} is forbidden")));
        }
        let path = head.uri.path();
        if watches {
            return Ok(self.watch(path, &query));
        }
        let in_between = if head.method == Method::PATCH { self.state().in_between.take() } else { None };
        if let Some((path, change)) = in_between {
            self.edit(path, change);
        }
        let (code, answer) = {
            let mut state = self.state();
            let (code, answer) = state.handle(&head.method, path, &query, &body);
            state.conflicts += usize::from(code == 409);
            (code, answer)
        };
        self.changed.send_modify(|count| *count += 1);
        Ok(response(code, &answer))
    }

    fn watch(&self, path: &str, query: &BTreeMap<String, String>) -> Response<Body> {
        let from: u64 = query["resourceVersion"].parse().unwrap();
        if from < self.state().faults.oldest {
            return status(410, "Expired", "too old resource version");
        }
        let timeout = Duration::from_secs(query["timeoutSeconds"].parse().unwrap());
        let end = tokio::time::Instant::now() + timeout;
        let place = (self.clone(), path.to_owned(), from, end, self.changed.subscribe(), self.cuts.subscribe());
        let lines = stream::unfold(Some(place), |place| async {
            let (server, path, from, end, mut changed, mut cuts) = place?;
            loop {
                changed.borrow_and_update();
                let (next, frozen, oldest) = {
                    let state = server.state();
                    let is_next = |event: &&(u64, &str, String, Value)| event.0 > from && is_in(&event.2, &path);
                    (state.events.iter().find(is_next).cloned(), state.faults.frozen, state.faults.oldest)
                };
                if frozen {
                    std::future::pending::<()>().await;
                }
                if from < oldest {
                    let gone = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410,
                        "reason": "Expired", "message": "too old resource version"});
                    return Some((Ok(format!("{}\n", json!({"type": "ERROR", "object": gone}))), None));
                }
                if let Some((version, kind, _, object)) = next {
                    let line = format!("{}\n", json!({"type": kind, "object": object}));
                    return Some((Ok(line), Some((server, path, version, end, changed, cuts))));
                }
                tokio::select! {
                    _ = changed.changed() => {}
                    _ = cuts.changed() => {
                        return Some((Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)), None));
                    }
                    () = tokio::time::sleep_until(end) => {
                        let (version, silent) = { let state = server.state(); (state.version, state.faults.no_bookmarks) };
                        let mark = json!({"apiVersion": "v1", "kind": "X", "metadata": {"resourceVersion": version.to_string()}});
                        let line = format!("{}\n", json!({"type": "BOOKMARK", "object": mark}));
                        return (!silent).then_some((Ok(line), None));
                    }
                }
            }
        });
        Response::builder().status(200).body(Body::from_stream(lines)).unwrap()
    }
}

impl ApiServerState {
    /// Stores an object under the next version.
    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let is_new = self.objects.insert(path.to_owned(), object.clone()).is_none();
        // Only items of lists lack the types.
        let mut event = object.clone();
        if let Some((group, _, kind, _)) = SERVED.iter().find(|it| path.contains(&format!("/{}/", it.1))) {
            event["apiVersion"] = json!(group.trim_start_matches("/apis/").trim_start_matches("/api/"));
            event["kind"] = json!(kind);
        }
        self.events.push((self.version, if is_new { "ADDED" } else { "MODIFIED" }, path.to_owned(), event));
        object
    }

    fn handle(&mut self, method: &Method, path: &str, query: &BTreeMap<String, String>, body: &[u8]) -> (u16, Value) {
        if SERVED.iter().any(|it| it.0 == path) {
            let served = SERVED.iter().filter(|it| it.0 == path);
            let resources = served.map(|(_, plural, kind, namespaced)| {
                json!({"name": plural, "singularName": "", "kind": kind, "namespaced": namespaced, "verbs": []})
            });
            let resources: Vec<_> = resources.collect();
            return (200, json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": resources}));
        }
        let last = path.rsplit('/').next().unwrap_or_default();
        let is_collection = SERVED.iter().any(|it| it.1 == last);
        let body = || serde_json::from_slice::<Value>(body).unwrap();
        let not_found = || (404, failure(404, "NotFound", &format!("{path} not found")));
        let conflict = || (409, failure(409, "Conflict", "the object has been modified"));
        match (method, is_collection) {
            (&Method::GET, true) => (200, self.list(path, query)),
            (&Method::GET, false) => self.objects.get(path).map_or_else(not_found, |object| (200, object.clone())),
            (&Method::POST, true) => {
                let object = body();
                let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
                if self.objects.contains_key(&path) {
                    return (409, failure(409, "AlreadyExists", "it already exists"));
                }
                (201, self.store(&path, object))
            }
            (&Method::PUT | &Method::PATCH, false) => {
                let Some(before) = self.objects.get(path).cloned() else { return not_found() };
                let after = if method == Method::PUT {
                    body()
                } else {
                    let changes: json_patch::Patch = serde_json::from_value(body()).unwrap();
                    let mut object = before.clone();
                    json_patch::patch(&mut object, &changes).unwrap();
                    object
                };
                if after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"] {
                    return conflict();
                }
                (200, self.store(path, after))
            }
            _ => (405, failure(405, "MethodNotAllowed", "not here")),
        }
    }

    fn list(&self, path: &str, query: &BTreeMap<String, String>) -> Value {
        let skip: usize = query.get("continue").map_or(0, |text| text.parse().unwrap());
        let limit: usize = query.get("limit").map_or(usize::MAX, |text| text.parse().unwrap());
        let all = self.objects.iter().filter(|(object, _)| is_in(object, path));
        let items: Vec<&Value> = all.clone().skip(skip).take(limit).map(|(_, object)| object).collect();
        let more = (all.count() > skip + items.len()).then(|| (skip + items.len()).to_string());
        json!({"apiVersion": "v1", "kind": "List", "items": items,
            "metadata": {"resourceVersion": self.version.to_string(), "continue": more}})
    }
}

/// Whether an object belongs to a collection, of its namespace or of all namespaces.
fn is_in(object: &str, collection: &str) -> bool {
    let Some((parent, _)) = object.rsplit_once('/') else { return false };
    let plural = collection.rsplit('/').next().unwrap_or_default();
    parent == collection || (parent.ends_with(&format!("/{plural}")) && collection.matches('/').count() == 3)
}

fn failure(code: u16, reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": message, "metadata": {}})
}

fn status(code: u16, reason: &str, message: &str) -> Response<Body> {
    response(code, &failure(code, reason, message))
}

fn response(code: u16, body: &Value) -> Response<Body> {
    let built = Response::builder().status(code).header("content-type", "application/json");
    built.body(Body::from(body.to_string())).unwrap()
}

/// Waits up to ten seconds until a condition holds.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not within ten seconds: {what}");
}
