//! An API server on a loopback address that serves a few objects. It answers only reads.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};

/// What the server serves.
#[derive(Default)]
pub struct Contents {
    pub objects: Vec<Value>,
    /// Whether it has the definition of SidecarSets.
    pub has_definition: bool,
    /// The ends of the paths that it forbids.
    pub forbidden: &'static [&'static str],
    /// Whether it is no API server, and answers everything with a page.
    pub is_a_page: bool,
    /// The part of a path that it answers late.
    pub late: Option<&'static str>,
    /// What each watch sees, one event after the other; then it ends.
    pub events: Vec<Value>,
    /// How many watches fail before the first one that does not.
    pub failing_watches: AtomicUsize,
}

pub struct ApiServer {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl ApiServer {
    /// Starts a server, which ends with the test.
    pub fn start(contents: Contents) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (contents, requests) = (Arc::new(contents), Arc::new(Mutex::default()));
        let log = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (contents, log) = (Arc::clone(&contents), Arc::clone(&log));
                std::thread::spawn(move || serve(&stream.unwrap(), &contents, &log));
            }
        });
        Self { address, requests }
    }

    /// Writes a kubeconfig for this server into a folder, with the contexts `here` (the current one) and `there`.
    pub fn kubeconfig(&self, folder: &Path) {
        write_kubeconfig(folder, &self.address);
    }

    /// Returns the requests so far, as `GET /path?query`.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().clone()
    }
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

fn serve(stream: &TcpStream, contents: &Contents, log: &Mutex<Vec<String>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut first = String::new();
        reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
        let mut header = String::new();
        while reader.read_line(&mut header).ok()? > 2 {
            header.clear();
        }
        let request = first.trim_end().trim_end_matches(" HTTP/1.1");
        log.lock().push(request.to_owned());
        let path = request.strip_prefix("GET ")?.split('?').next()?;
        if contents.late.is_some_and(|late| path.contains(late)) {
            std::thread::sleep(Duration::from_millis(1300));
        }
        let is_watch = request.contains("watch=true") && !contents.events.is_empty();
        let is_failing = is_watch && contents.is_watch_failing();
        if is_watch && !is_failing {
            return watch(stream, &contents.events);
        }
        let (status, body) =
            if is_failing { (500, status(500, "InternalError", "etcd is gone")) } else { contents.answer(path) };
        let page = || (200, "<html>Please log in.</html>".to_owned());
        let is_unknown_kind = !contents.has_definition && path.starts_with("/apis/apps.kruise.io/") && status == 404;
        let (status, body) = match (contents.is_a_page, is_unknown_kind) {
            (true, _) => page(),
            // As an API server answers about the group of a definition that is missing.
            (false, true) => (404, "404 page not found\n".to_owned()),
            (false, false) => (status, body.to_string()),
        };
        let head =
            format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        (&*stream).write_all([head, body].concat().as_bytes()).ok()?;
    }
}

fn watch(mut stream: &TcpStream, events: &[Value]) -> Option<()> {
    stream.write_all(b"HTTP/1.1 200 X\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n").ok()?;
    for event in events {
        stream.write_all(format!("{event}\n").as_bytes()).ok()?;
        std::thread::sleep(Duration::from_millis(50));
    }
    Some(())
}

impl Contents {
    fn is_watch_failing(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        self.failing_watches.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn answer(&self, path: &str) -> (u16, Value) {
        if self.forbidden.iter().any(|end| path.ends_with(end)) {
            return (403, status(403, "Forbidden", "User \"jane\" may not do that"));
        }
        if let Some(found) = self.objects.iter().find(|object| object_path(object) == path) {
            return (200, found.clone());
        }
        let below = format!("{path}/");
        let of_namespaces = |object: &Value| {
            // A list of all namespaces leaves the namespace out of its path.
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            object_path(object).replace(&format!("/namespaces/{namespace}/"), "/")
        };
        let is_in = |object: &&Value| {
            let paths = [object_path(object), of_namespaces(object)];
            paths.iter().any(|path| path.strip_prefix(&below).is_some_and(|name| !name.contains('/')))
        };
        let items: Vec<Value> = self.objects.iter().filter(is_in).cloned().collect();
        let lists = [
            "namespaces",
            "pods",
            "poddisruptionbudgets",
            "roles",
            "rolebindings",
            "clusterroles",
            "clusterrolebindings",
            "controllerrevisions",
            "deployments",
        ];
        let kind = path.rsplit('/').next().unwrap_or_default();
        // `/api/v1/namespaces/shop` is no list.
        let is_of_sets = path.starts_with("/apis/apps.kruise.io/") && kind == "sidecarsets";
        let is_list = lists.contains(&kind) || (is_of_sets && self.has_definition);
        if !items.is_empty() || is_list {
            return (
                200,
                json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": items}),
            );
        }
        (404, status(404, "NotFound", "the server could not find the requested resource"))
    }
}

/// Returns the path of an object.
pub fn object_path(object: &Value) -> String {
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

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message
    })
}
