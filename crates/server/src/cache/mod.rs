//! Answers look-ups from watches, and from live reads otherwise.
//!
//! # Which look-ups the cache answers
//!
//! `get_resource` of watched kinds ([`Options::watched`]), if the object is known. Everything else goes to the live
//! cluster: other kinds, lists, `SubjectAccessReview`s (a right may have been revoked a second ago), objects that the
//! watch does not know (a namespace is often used right after its creation), and all look-ups while the watch may be
//! stale.
//!
//! # How old an answer can be
//!
//! At most [`Options::max_staleness`], counted from the last sign of life of the watch: an event, a bookmark, a list,
//! or the response that opens the watch. A watch delivers events in order, so all changes before a sign of life are
//! known. Usually an answer is some milliseconds old; the bound matters for connections that break without an error.
//! Bookmarks alone are not enough, since an API server sends one a minute at most. Therefore each watch is opened for only
//! two thirds of the bound and then opened again, which costs one request per watch in that time.
//!
//! The bound does not include how far the API server's own watch cache is behind its store. The API server's admission
//! plugins read the same cache in the same way: ServiceAccounts in the plugin of that name, Namespaces to match a
//! webhook's `namespaceSelector`. Both read from the watch if the object is there, and live otherwise.
//!
//! The policy sets `disable_cache` on all of its look-ups because of the policy server's cache: its answers are five
//! seconds old even in normal operation, and one lock protects all of them. `disable_cache` does not bypass a fresh
//! watch here. A bound of zero does: then there are no watches, and every look-up is a live read.
//!
//! # When the API server is unreachable
//!
//! The cache never answers beyond the bound, because labels of namespaces and identities decide about security.
//! Look-ups go to the live cluster and fail as it fails. A missing permission to `list` or `watch` is not a failure:
//! look-ups become live reads, and the log says once which permission is missing.

mod kind;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use pillion_host::{AccessRequest, Cluster, ClusterError, ListRequest, ResourceRequest};
use tokio::task::JoinHandle;

use self::kind::Kind;

/// The shortest possible bound: the API server counts the duration of watches in seconds.
pub const MIN_STALENESS: Duration = Duration::from_secs(3);

/// A watched kind of object, in all namespaces or in one.
///
/// Written `v1/Namespace`, `apps/v1/ControllerRevision@kruise-system`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Watched {
    /// `v1`, `apps/v1`, ...
    pub api_version: String,
    /// `Namespace`, ...
    pub kind: String,
    /// The namespace; all namespaces if absent.
    pub namespace: Option<String>,
}

/// A text that does not name a kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no kind to watch: write it as \"v1/Namespace\" or \"apps/v1/ControllerRevision@kruise-system\"")]
pub struct WatchedError(String);

impl FromStr for Watched {
    type Err = WatchedError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || WatchedError(text.to_owned());
        let (kind, namespace) = match text.split_once('@') {
            Some((kind, namespace)) => (kind, Some(namespace.to_owned())),
            None => (text, None),
        };
        let (api_version, kind) = kind.rsplit_once('/').ok_or_else(error)?;
        let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
        let is_name = |name: &str| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
        };
        let named = [group, version, kind].into_iter().chain(namespace.as_deref()).all(is_name);
        if !named || !kind.starts_with(|letter: char| letter.is_ascii_uppercase()) {
            return Err(error());
        }
        Ok(Self { api_version: api_version.to_owned(), kind: kind.to_owned(), namespace })
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.api_version, self.kind)?;
        self.namespace.as_ref().map_or(Ok(()), |namespace| write!(f, "@{namespace}"))
    }
}

/// The watched kinds and the maximum age of answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The kinds to watch.
    pub watched: Vec<Watched>,
    /// The maximum age of an answer: at least [`MIN_STALENESS`], or zero for no cache at all.
    pub max_staleness: Duration,
}

impl Default for Options {
    /// Watches Namespaces and ServiceAccounts, with a bound of 30 seconds.
    fn default() -> Self {
        let watched = |kind: &str| Watched { api_version: "v1".to_owned(), kind: kind.to_owned(), namespace: None };
        Self { watched: vec![watched("Namespace"), watched("ServiceAccount")], max_staleness: Duration::from_secs(30) }
    }
}

/// A bound that is too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("answers cannot be held to {} ms of age: allow at least {} s, or 0 for no cache", .0.as_millis(), MIN_STALENESS.as_secs())]
pub struct StalenessError(Duration);

/// The status of a watched kind, for metrics and readiness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchStatus {
    /// The watched kind.
    pub watched: Watched,
    /// Whether the watch currently answers look-ups.
    pub synced: bool,
    /// The time since the last sign of life; `None` before the first list.
    pub age: Option<Duration>,
    /// The number of known objects.
    pub objects: usize,
    /// The memory of their contents, in bytes.
    pub bytes: usize,
    /// The number of look-ups that the watch answered.
    pub answered: u64,
    /// The number of look-ups of this kind that went to the API server.
    pub passed_on: u64,
    /// Why the watch fails; `None` if it works.
    pub problem: Option<String>,
}

/// A cluster that answers look-ups from watches if possible.
pub struct Cache {
    live: Arc<dyn Cluster>,
    kinds: Vec<Arc<Kind>>,
    max_staleness: Duration,
    tasks: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Cache {
    /// Starts the watches on the current runtime. Look-ups that no watch can answer go to `live`.
    ///
    /// Returns at once: until the first list arrives, everything is read live. `client` must not time out during a
    /// watch: use [`Live::watching_client`](pillion_host::Live::watching_client).
    ///
    /// # Errors
    /// [`StalenessError`] if the bound is too short.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(client: &Client, live: Arc<dyn Cluster>, options: Options) -> Result<Self, StalenessError> {
        let Options { watched, max_staleness } = options;
        let kinds: Vec<Arc<Kind>> = if max_staleness.is_zero() {
            Vec::new()
        } else if max_staleness < MIN_STALENESS {
            return Err(StalenessError(max_staleness));
        } else {
            watched.into_iter().map(|watched| Arc::new(Kind::new(watched))).collect()
        };
        let task = |kind: &Arc<Kind>| tokio::spawn(kind::watch(client.clone(), Arc::clone(kind), max_staleness));
        let tasks = kinds.iter().map(task).collect();
        Ok(Self { live, kinds, max_staleness, tasks })
    }

    /// Returns the status of each watched kind.
    pub fn status(&self) -> Vec<WatchStatus> {
        self.kinds.iter().map(|kind| kind.status(self.max_staleness)).collect()
    }

    /// Stops the watches and returns when all their tasks have ended. Once the known objects exceed the bound, look-ups
    /// are live reads.
    pub async fn stop(&mut self) {
        for task in self.tasks.drain(..) {
            task.abort();
            // The expected result is "cancelled"; a panic has already been printed.
            let _ = task.await;
        }
    }

    fn kind(&self, request: &ResourceRequest) -> Option<&Kind> {
        let is_it = |kind: &&Arc<Kind>| kind.watches(request);
        self.kinds.iter().find(is_it).map(Arc::as_ref)
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Cluster for Cache {
    fn get(&self, request: &ResourceRequest) -> Result<Vec<u8>, ClusterError> {
        if let Some(known) = self.get_at_once(request) {
            return known.map(|object| object.to_vec());
        }
        if let Some(kind) = self.kind(request) {
            kind.pass_on();
        }
        self.live.get(request)
    }

    fn get_at_once(&self, request: &ResourceRequest) -> Option<Result<Arc<[u8]>, ClusterError>> {
        let bytes = self.kind(request)?.answer(request, self.max_staleness)?;
        Some(match &request.field_masks {
            None => Ok(bytes),
            Some(masks) => pillion_host::live::masked(&bytes, masks).map(Arc::from),
        })
    }

    fn list(&self, request: &ListRequest) -> Result<Vec<u8>, ClusterError> {
        self.live.list(request)
    }

    fn can_i(&self, request: &AccessRequest) -> Result<Vec<u8>, ClusterError> {
        self.live.can_i(request)
    }
}
