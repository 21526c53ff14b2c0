//! What the controller asked of the API server, as the API server's audit log has it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::time::SystemTime;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// As RBAC calls it.
    pub verb: String,
    /// With its subresource: `pods`, `serviceaccounts/token`; a path for what is no object.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    /// Path and query.
    pub uri: String,
    pub status: u64,
    /// When it was answered.
    pub at: SystemTime,
}

impl Request {
    fn of(event: &Value) -> Option<Self> {
        let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let verb = text("/verb");
        // Both ends of a watch are written down.
        if verb == "watch" && text("/stage") != "ResponseStarted" {
            return None;
        }
        let uri = text("/requestURI");
        let resource = match (text("/objectRef/resource"), text("/objectRef/subresource")) {
            (resource, _) if resource.is_empty() => uri.clone(),
            (resource, sub) if sub.is_empty() => resource,
            (resource, sub) => format!("{resource}/{sub}"),
        };
        let at: Timestamp = text("/stageTimestamp").parse().ok()?;
        Some(Self {
            verb,
            resource,
            namespace: text("/objectRef/namespace"),
            name: text("/objectRef/name"),
            uri,
            status: event.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default(),
            at: at.into(),
        })
    }

    /// Whether it changes something.
    pub fn writes(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    /// Whether it comes from waiting alone: a watch that goes on, and the Lease.
    pub fn is_idle(&self) -> bool {
        self.verb == "watch" || self.resource == "leases"
    }

    /// Whether it is a list that the API server has to answer in one piece from its storage.
    pub fn is_unpaged_list(&self) -> bool {
        let query = self.uri.split_once('?').map_or("", |(_, query)| query);
        let has = |wanted: &str| query.split('&').any(|part| part.starts_with(wanted));
        self.verb == "list" && !has("limit=") && !query.split('&').any(|part| part == "resourceVersion=0")
    }
}

/// How many of each kind, for people.
pub fn count<'a>(requests: impl IntoIterator<Item = &'a Request>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for request in requests {
        *counts.entry(format!("{} {}", request.verb, request.resource)).or_default() += 1;
    }
    counts
}

/// The audit log, read as it grows.
#[derive(Clone)]
pub struct Log {
    file: PathBuf,
    read: u64,
    /// A line that is not complete yet.
    rest: String,
    pub requests: Vec<Request>,
}

impl Log {
    pub fn new(file: PathBuf) -> Self {
        Self { file, read: 0, rest: String::new(), requests: Vec::new() }
    }

    /// Reads what is new.
    pub fn update(&mut self) {
        // There is none before the first request.
        let Ok(mut file) = File::open(&self.file) else { return };
        file.seek(SeekFrom::Start(self.read)).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        self.read += bytes.len() as u64;
        self.rest.push_str(std::str::from_utf8(&bytes).unwrap());
        let Some((lines, rest)) = self.rest.rsplit_once('\n') else { return };
        let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        self.requests.extend(events.filter_map(|event| Request::of(&event)));
        self.rest = rest.to_owned();
    }

    /// Those since there were so many.
    pub fn since(&self, count: usize) -> &[Request] {
        &self.requests[count..]
    }
}
