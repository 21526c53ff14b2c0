//! An API server on a loopback address that takes writes: JSON Patches, evictions of Pods, dry runs of both. The
//! controllers of evicted Pods create them anew at once.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::api_server::object_path;

/// The time of the server's clock.
pub const NOW: &str = "2026-01-02T03:04:05Z";
/// The time at which Pods are created anew.
const LATER: &str = "2026-01-02T03:04:06Z";

/// What the server does besides serving its objects.
#[derive(Default)]
pub struct ServerState {
    /// By path.
    pub objects: BTreeMap<String, Value>,
    /// Requests that are refused: how they start, code, message.
    pub refused: Vec<(&'static str, u16, &'static str)>,
    /// Answers to evictions by the name of the Pod, one after the other: code and message. Then the Pod is evicted.
    pub evictions: BTreeMap<String, VecDeque<(u16, &'static str)>>,
    /// Whether the Pods that are created anew become ready.
    pub never_ready: bool,
    /// Whether the server does not serve SidecarSets.
    pub has_no_definition: bool,
    /// An edit by another client before the next patch: path and a JSON Patch.
    pub in_between: Option<(String, Value)>,
    /// The requests, as `PATCH /path?query`, those of writes with their body.
    pub requests: Vec<String>,
    made: usize,
}

pub struct ApiServer {
    address: String,
    pub state: Arc<Mutex<ServerState>>,
}

impl ApiServer {
    /// Starts a server with these objects, which ends with the test.
    pub fn start(objects: &[Value], edit: impl FnOnce(&mut ServerState)) -> Self {
        let mut state = ServerState::default();
        for object in objects {
            state.objects.insert(object_path(object), object.clone());
        }
        edit(&mut state);
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let address = super::http::start(move |request, body| {
            let body: Value = serde_json::from_slice(body).unwrap_or_default();
            shared.lock().answer(request, &body)
        });
        Self { address, state }
    }

    pub fn kubeconfig(&self, folder: &Path) {
        super::api_server::write_kubeconfig(folder, &self.address);
    }

    pub fn object(&self, path: &str) -> Value {
        self.state.lock().objects.get(path).cloned().unwrap_or_default()
    }

    /// Returns the requests that write.
    pub fn writes(&self) -> Vec<String> {
        let state = self.state.lock();
        state.requests.iter().filter(|request| !request.starts_with("GET ")).cloned().collect()
    }
}

fn status(code: u16, message: &str, details: &Value) -> (u16, Value) {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "code": code, "reason": "", "message": message, "details": details,
    });
    (code, status)
}

impl ServerState {
    fn answer(&mut self, request: &str, body: &Value) -> (u16, Value) {
        let shown = if body.is_null() { request.to_owned() } else { format!("{request} {body}") };
        self.requests.push(shown);
        let (verb, target) = request.split_once(' ').unwrap();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = path.trim_end_matches('?').to_owned();
        let refused = self.refused.iter().find(|(start, ..)| request.starts_with(start));
        if let Some((_, code, message)) = refused {
            return status(*code, message, &json!({}));
        }
        let is_dry = query.contains("dryRun=All");
        match verb {
            "GET" => self.read(&path),
            "PATCH" => self.patch(&path, body, is_dry),
            "POST" if path.ends_with("/pods") && is_dry => (201, body.clone()),
            _ => self.evict(path.strip_suffix("/eviction").unwrap(), is_dry),
        }
    }

    fn read(&self, path: &str) -> (u16, Value) {
        if path == "/version" {
            return (200, json!({}));
        }
        if let Some(found) = self.objects.get(path) {
            return (200, found.clone());
        }
        let kind = path.rsplit('/').next().unwrap();
        // The versions that it serves are those of its SidecarSets, and all if it has none.
        let has_sets = |start: &str| self.objects.keys().any(|known| known.starts_with(start));
        let is_of_version = has_sets(path) || !has_sets("/apis/apps.kruise.io/");
        let is_of_sets = kind == "sidecarsets" && !self.has_no_definition && is_of_version;
        if !is_of_sets
            && !["pods", "namespaces", "controllerrevisions", "deployments", "mutatingwebhookconfigurations"]
                .contains(&kind)
        {
            return status(404, "the server could not find the requested resource", &json!({}));
        }
        let is_in = |known: &str| {
            let root = known.split("/namespaces/").next().unwrap();
            known.strip_prefix(&format!("{path}/")).is_some_and(|name| !name.contains('/'))
                || (path == format!("{root}/{kind}") && known.contains(&format!("/{kind}/")))
        };
        let items: Vec<&Value> = self.objects.iter().filter(|(known, _)| is_in(known)).map(|(_, one)| one).collect();
        (200, json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}))
    }

    fn patch(&mut self, path: &str, body: &Value, is_dry: bool) -> (u16, Value) {
        if let Some((path, edit)) = self.in_between.take() {
            let edit: json_patch::Patch = serde_json::from_value(edit).unwrap();
            json_patch::patch(self.objects.get_mut(&path).unwrap(), &edit).unwrap();
        }
        let Some(found) = self.objects.get(path) else { return status(404, "not found", &json!({})) };
        let mut changed = found.clone();
        let operations: json_patch::Patch = serde_json::from_value(body.clone()).unwrap();
        if json_patch::patch(&mut changed, &operations).is_err() {
            return status(422, "the server rejected our request due to an error in our request", &json!({}));
        }
        if !is_dry {
            self.objects.insert(path.to_owned(), changed.clone());
        }
        (200, changed)
    }

    fn evict(&mut self, path: &str, is_dry: bool) -> (u16, Value) {
        let name = path.rsplit('/').next().unwrap();
        if let Some((code, message)) = self.evictions.get_mut(name).and_then(VecDeque::pop_front) {
            return status(code, message, &json!({"retryAfterSeconds": 1}));
        }
        if is_dry {
            return (201, json!({"kind": "Status", "status": "Success"}));
        }
        let Some(mut pod) = self.objects.remove(path) else { return status(404, "not found", &json!({})) };
        self.made += 1;
        pod["metadata"]["name"] = format!("{name}-anew").into();
        pod["metadata"]["uid"] = format!("anew-{}", self.made).into();
        pod["metadata"]["creationTimestamp"] = LATER.into();
        if self.never_ready {
            pod["status"]["conditions"] = json!([]);
        }
        self.objects.insert(object_path(&pod), pod);
        (201, json!({"kind": "Status", "status": "Success"}))
    }
}
