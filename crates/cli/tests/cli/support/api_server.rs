//! An API server on a loopback address: it serves a few objects, and takes JSON Patches, evictions of Pods, and dry runs
//! of both and of new Pods. It notes its requests, and fails as wanted. The controllers of evicted Pods create them anew
//! at once.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pillion_testkit::http::{self, Answer};
use serde_json::{Value, json};

/// The time of the server's clock.
pub const NOW: &str = "2026-01-02T03:04:05Z";
/// The time at which Pods are created anew.
const LATER: &str = "2026-01-02T03:04:06Z";
/// The resources whose lists may be empty.
const LISTED: [&str; 10] = [
    "namespaces",
    "pods",
    "poddisruptionbudgets",
    "roles",
    "rolebindings",
    "clusterroles",
    "clusterrolebindings",
    "controllerrevisions",
    "deployments",
    "mutatingwebhookconfigurations",
];

/// A request that is refused: how it starts (`PATCH`, `WATCH`, `GET /api/v1/`) or how its path ends; code, message.
type Refused = (&'static str, u16, &'static str);

/// What the server does besides serving its objects.
#[derive(Default)]
pub struct ServerState {
    /// Each with its path. Lists have this order.
    objects: Vec<(String, Value)>,
    /// Requests that are refused.
    pub refused: Vec<Refused>,
    /// The same, but each refuses one request.
    pub refused_once: Vec<Refused>,
    /// Answers to evictions by the name of the Pod, one after the other: code and message. Then the Pod is evicted.
    pub evictions: BTreeMap<String, VecDeque<(u16, &'static str)>>,
    /// Whether the Pods that are created anew become ready.
    pub never_ready: bool,
    /// Whether the server does not serve SidecarSets.
    pub has_no_definition: bool,
    /// Whether it is no API server, and answers everything with a page.
    pub is_a_page: bool,
    /// The part of a path that it answers late.
    pub late: Option<&'static str>,
    /// What each watch sees, one event after the other; then it ends. Without events, a watch is answered with the list.
    pub events: Vec<Value>,
    /// The container that admission adds to new Pods.
    pub sidecar: Option<&'static str>,
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
        let objects = objects.iter().map(|object| (object_path(object), object.clone())).collect();
        let mut state = ServerState { objects, ..ServerState::default() };
        edit(&mut state);
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let address = http::start(move |request, body| {
            shared.lock().answer(request, &serde_json::from_slice(body).unwrap_or_default())
        });
        Self { address, state }
    }

    /// Writes a kubeconfig for this server into a folder, with the contexts `here` (the current one) and `there`.
    pub fn kubeconfig(&self, folder: &Path) {
        write_kubeconfig(folder, &self.address);
    }

    pub fn object(&self, path: &str) -> Value {
        self.state.lock().object(path).cloned().unwrap_or_default()
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.state.lock().requests.clone()
    }

    /// Returns the requests that write.
    pub fn writes(&self) -> Vec<String> {
        self.requests().into_iter().filter(|request| !request.starts_with("GET ")).collect()
    }
}

/// Returns the edit of a server that forbids jane the paths with these ends.
pub fn forbidding(ends: &'static [&'static str]) -> impl FnOnce(&mut ServerState) {
    move |state| state.refused.extend(ends.iter().map(|end| (*end, 403, "User \"jane\" may not do that")))
}

/// Writes a kubeconfig for a server at this address into a folder.
pub fn write_kubeconfig(folder: &Path, address: &str) {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
            {"name": "there", "context": {"cluster": "c", "user": "u"}}
        ]
    });
    std::fs::write(folder.join("kubeconfig"), config.to_string()).unwrap();
}

/// Returns the path of an object.
fn object_path(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&object["apiVersion"]);
    let root = if version.contains('/') { "apis" } else { "api" };
    let namespace = match text(&object["metadata"]["namespace"]).as_str() {
        "" => String::new(),
        namespace => format!("/namespaces/{namespace}"),
    };
    let kind = text(&object["kind"]).to_ascii_lowercase();
    let resource = kind.strip_suffix('y').map_or(format!("{kind}s"), |start| format!("{start}ies"));
    format!("/{root}/{version}{namespace}/{resource}/{}", text(&object["metadata"]["name"]))
}

fn status(code: u16, message: &str, details: &Value) -> (u16, Value) {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        500 => "InternalError",
        _ => "",
    };
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message, "details": details,
    });
    (code, status)
}

impl ServerState {
    fn answer(&mut self, request: &str, body: &Value) -> Answer {
        let shown = if body.is_null() { request.to_owned() } else { format!("{request} {body}") };
        self.requests.push(shown);
        let (verb, target) = request.split_once(' ').unwrap();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let is_late = self.late.is_some_and(|late| path.contains(late));
        let answer = match self.refusal(request, path) {
            _ if self.is_a_page => Answer::text(200, "<html>Please log in.</html>"),
            Some((code, message)) => status(code, message, &json!({})).into(),
            None if query.contains("watch=true") && !self.events.is_empty() => Answer::watch(self.events.clone()),
            // As an API server answers about a group or a version that is missing.
            None if verb == "GET" && !self.serves(path) => Answer::text(404, "404 page not found\n"),
            None => self.carry_out(verb, path, query, body).into(),
        };
        answer.late(if is_late { Duration::from_millis(1300) } else { Duration::ZERO })
    }

    fn object(&mut self, path: &str) -> Option<&mut Value> {
        self.objects.iter_mut().find(|(known, _)| known == path).map(|(_, object)| object)
    }

    fn refusal(&mut self, request: &str, path: &str) -> Option<(u16, &'static str)> {
        let watch = request.replacen("GET", "WATCH", usize::from(request.contains("watch=true")));
        let concerns =
            |(text, ..): &Refused| request.starts_with(text) || watch.starts_with(text) || path.ends_with(text);
        let once = self.refused_once.iter().position(concerns).map(|index| self.refused_once.remove(index));
        once.or_else(|| self.refused.iter().find(|refused| concerns(refused)).copied())
            .map(|(_, code, text)| (code, text))
    }

    /// Whether the server has this version of SidecarSets: that of its SidecarSets, and every one if it has none.
    fn serves(&self, path: &str) -> bool {
        let Some(rest) = path.strip_prefix("/apis/apps.kruise.io/") else { return true };
        let version = rest.split('/').next().unwrap();
        let has = |start: &str| self.objects.iter().any(|(known, _)| known.starts_with(start));
        let is_version = || has(&format!("/apis/apps.kruise.io/{version}/")) || !has("/apis/apps.kruise.io/");
        !self.has_no_definition && is_version()
    }

    fn carry_out(&mut self, verb: &str, path: &str, query: &str, body: &Value) -> (u16, Value) {
        let is_dry = query.contains("dryRun=All");
        match verb {
            "GET" => self.read(path),
            "PATCH" => self.patch(path, is_dry, body),
            "POST" if path.ends_with("/pods") && is_dry => {
                let mut pod = body.clone();
                if let Some(name) = self.sidecar {
                    pod["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": name}));
                }
                (201, pod)
            }
            _ => self.evict(path.strip_suffix("/eviction").unwrap(), is_dry),
        }
    }

    fn read(&mut self, path: &str) -> (u16, Value) {
        if path == "/version" {
            return (200, json!({}));
        }
        if let Some(found) = self.object(path) {
            return (200, found.clone());
        }
        let (parent, kind) = path.rsplit_once('/').unwrap();
        // A list of all namespaces leaves the namespace out of its path.
        let is_in = |known: &str| {
            let (list, _) = known.rsplit_once('/').unwrap();
            let everywhere = list.split_once("/namespaces/").map(|(root, _)| root);
            list == path || (everywhere == Some(parent) && list.ends_with(&format!("/{kind}")))
        };
        let items: Vec<&Value> = self.objects.iter().filter(|(known, _)| is_in(known)).map(|(_, one)| one).collect();
        let may_be_empty = LISTED.contains(&kind) || path.starts_with("/apis/apps.kruise.io/") && kind == "sidecarsets";
        if items.is_empty() && !may_be_empty {
            return status(404, "the server could not find the requested resource", &json!({}));
        }
        (200, json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": items}))
    }

    fn patch(&mut self, path: &str, is_dry: bool, body: &Value) -> (u16, Value) {
        if let Some((path, edit)) = self.in_between.take() {
            let edit: json_patch::Patch = serde_json::from_value(edit).unwrap();
            json_patch::patch(self.object(&path).unwrap(), &edit).unwrap();
        }
        let Some(found) = self.object(path) else { return status(404, "not found", &json!({})) };
        let mut changed = found.clone();
        let operations: json_patch::Patch = serde_json::from_value(body.clone()).unwrap();
        if json_patch::patch(&mut changed, &operations).is_err() {
            return status(422, "the server rejected our request due to an error in our request", &json!({}));
        }
        // An object with notes about its owners gets another one, and a new version. Others stay comparable.
        if let Some(Value::Array(owners)) = changed.pointer_mut("/metadata/managedFields") {
            if !body.to_string().contains("managedFields") {
                owners.push(json!({"manager": "pillion-uninstall", "operation": "Update"}));
            }
            let version: u64 = changed["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
            changed["metadata"]["resourceVersion"] = (version + 1).to_string().into();
        }
        if !is_dry {
            found.clone_from(&changed);
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
        let Some(index) = self.objects.iter().position(|(known, _)| known == path) else {
            return status(404, "not found", &json!({}));
        };
        let (_, mut pod) = self.objects.remove(index);
        self.made += 1;
        pod["metadata"]["name"] = format!("{name}-anew").into();
        pod["metadata"]["uid"] = format!("anew-{}", self.made).into();
        pod["metadata"]["creationTimestamp"] = LATER.into();
        if self.never_ready {
            pod["status"]["conditions"] = json!([]);
        }
        self.objects.push((object_path(&pod), pod));
        (201, json!({"kind": "Status", "status": "Success"}))
    }
}
