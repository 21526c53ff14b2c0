//! The controller's requests to the API server, read from its audit log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::time::SystemTime;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The verb, as RBAC names it.
    pub verb: String,
    /// The resource with its subresource: `pods`, `serviceaccounts/token`; a path if the request is not about an
    /// object.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    /// Path and query.
    pub uri: String,
    pub status: u64,
    /// The time of the answer.
    pub at: SystemTime,
}

impl Request {
    fn parse(event: &Value) -> Option<Self> {
        let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let verb = text("/verb");
        // The log has both the start and the end of a watch.
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

    /// Whether the request changes something.
    pub fn writes(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    /// Whether the request comes only from waiting: a watch, or the Lease.
    pub fn is_idle(&self) -> bool {
        self.verb == "watch" || self.resource == "leases"
    }

    /// Whether the request is a list that the API server must answer in one piece from its storage.
    pub fn is_unpaged_list(&self) -> bool {
        let query = self.uri.split_once('?').map_or("", |(_, query)| query);
        let has = |wanted: &str| query.split('&').any(|part| part.starts_with(wanted));
        self.verb == "list" && !has("limit=") && !query.split('&').any(|part| part == "resourceVersion=0")
    }
}

/// Returns the number of requests by verb and resource.
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
    /// The beginning of an incomplete line.
    rest: String,
    pub requests: Vec<Request>,
}

impl Log {
    pub fn new(file: PathBuf) -> Self {
        Self { file, read: 0, rest: String::new(), requests: Vec::new() }
    }

    /// Reads the new lines.
    pub fn update(&mut self) {
        // The log does not exist before the first request.
        let Ok(mut file) = File::open(&self.file) else { return };
        file.seek(SeekFrom::Start(self.read)).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        self.read += bytes.len() as u64;
        self.rest.push_str(std::str::from_utf8(&bytes).unwrap());
        let Some((lines, rest)) = self.rest.rsplit_once('\n') else { return };
        let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        self.requests.extend(events.filter_map(|event| Request::parse(&event)));
        self.rest = rest.to_owned();
    }

    /// Returns the requests after the first `count`.
    pub fn since(&self, count: usize) -> &[Request] {
        &self.requests[count..]
    }
}
