//! Look-ups answered from watches, with live reads behind them.
//!
//! # What is answered from here
//!
//! `get_resource` for the kinds that are watched ([`Options::watched`]), of objects that are there. Everything else
//! goes to the cluster behind this one: other kinds, lists, `SubjectAccessReview`s (rights that were taken away a
//! second ago are none), objects that the watch does not know (a namespace is often used right after it was made), and
//! everything while a watch is not known to be fresh.
//!
//! # How old an answer can be
//!
//! At most [`Options::max_staleness`], counted from the last sign of life of the watch: an event, a bookmark, a list,
//! or the answer with which the API server opened the watch. It delivers in order, so what happened before a sign of
//! life is known here. Usually an answer is some milliseconds old; the bound is for connections that are dead without
//! anybody having said so. Bookmarks alone would not do: an API server sends one a minute, and none while nothing in
//! the whole resource has changed since the watch was opened (`cacher/cache_watcher.go` of kube-apiserver 1.34). So
//! each watch is asked for two thirds of the bound only and opened again where it ended, at the price of one request a
//! watch in that time.
//!
//! Not in the bound is how far the API server's own watch cache is behind its store. Its admission plugins read the
//! same cache in the same way: ServiceAccounts in the plugin of that name, Namespaces where it matches a webhook's
//! `namespaceSelector`; both from the watch when the object is there, live when it is not.
//!
//! `disable_cache`, which the policy sets on all of its look-ups, is about the policy server's cache: answers that are
//! five seconds old even when all is well, and one lock over all of them. It does not keep a fresh watch from
//! answering. A bound of zero does: then there is no watch, and every look-up is a live read.
//!
//! # When the API server is away
//!
//! Nothing is answered beyond the bound: labels of namespaces and identities decide about security. Look-ups go to the
//! cluster behind, and fail as it fails. A missing permission to `list` or `watch` is no failure: look-ups are live
//! reads, and the log says once what is missing.

mod store;
#[cfg(test)]
mod tests;
mod watch;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use tokio::task::JoinHandle;

use self::store::{Kind, Verdict};
use crate::cluster::{AccessRequest, Cluster, ClusterError, ListRequest, ResourceRequest};

/// The shortest bound that can be held: the API server counts in seconds.
pub const MIN_STALENESS: Duration = Duration::from_secs(3);

/// A kind of object that is watched, everywhere or in one namespace.
///
/// Written `v1/Namespace`, `apps/v1/ControllerRevision@kruise-system`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Watched {
    /// `v1`, `apps/v1`, ...
    pub api_version: String,
    /// `Namespace`, ...
    pub kind: String,
    /// The namespace; all of them where absent.
    pub namespace: Option<String>,
}

/// A text that names no kind.
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

/// What is watched, and how old answers may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What is watched.
    pub watched: Vec<Watched>,
    /// How old an answer may be; at least [`MIN_STALENESS`], or zero for no cache at all.
    pub max_staleness: Duration,
}

impl Default for Options {
    /// Namespaces and ServiceAccounts, half a minute.
    fn default() -> Self {
        let watched = |kind: &str| Watched { api_version: "v1".to_owned(), kind: kind.to_owned(), namespace: None };
        Self { watched: vec![watched("Namespace"), watched("ServiceAccount")], max_staleness: Duration::from_secs(30) }
    }
}

/// A bound that cannot be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("answers cannot be held to {} ms of age: allow at least {} s, or 0 for no cache", .0.as_millis(), MIN_STALENESS.as_secs())]
pub struct StalenessError(Duration);

/// What there is to tell of a kind that is watched, for metrics and readiness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchStatus {
    /// What is watched.
    pub watched: Watched,
    /// Whether look-ups are answered from the watch now.
    pub synced: bool,
    /// The time since its last sign of life; nothing before the first list.
    pub age: Option<Duration>,
    /// How many objects it knows.
    pub objects: usize,
    /// The memory of their names and contents, in bytes.
    pub bytes: usize,
    /// Look-ups that were answered from the watch so far.
    pub answered: u64,
    /// Look-ups of this kind that went to the API server so far.
    pub passed_on: u64,
    /// Why the watch does not get on; nothing where it does.
    pub problem: Option<String>,
}

/// A cluster whose look-ups are answered from watches where they can be.
#[derive(Debug)]
pub struct Cache {
    live: Live,
    kinds: Vec<Arc<Kind>>,
    max_staleness: Duration,
    tasks: Vec<JoinHandle<()>>,
}

/// The cluster behind; it shows nothing of itself.
struct Live(Arc<dyn Cluster>);

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Live")
    }
}

impl Cache {
    /// Starts to watch, on the current runtime; look-ups that cannot be answered from a watch go to `live`.
    ///
    /// Returns at once: until the first list is there, everything is read live. `client` must be one that lets an
    /// answer take as long as a watch does ([`Live::watching_client`](crate::Live::watching_client)).
    ///
    /// # Errors
    /// [`StalenessError`] where the bound cannot be held.
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
        let task = |kind: &Arc<Kind>| tokio::spawn(watch::run(client.clone(), Arc::clone(kind), max_staleness));
        let tasks = kinds.iter().map(task).collect();
        Ok(Self { live: Live(live), kinds, max_staleness, tasks })
    }

    /// What there is to tell of each kind that is watched.
    pub fn status(&self) -> Vec<WatchStatus> {
        let now = Instant::now();
        self.kinds.iter().map(|kind| kind.status(now, self.max_staleness)).collect()
    }

    /// Stops watching; returns when nothing runs any more. Look-ups are live reads once the watches are too old.
    pub async fn stop(&mut self) {
        for task in self.tasks.drain(..) {
            task.abort();
            // Cancelled is what it should be; a panic was printed.
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
        let verdict = self.kind(request).map(|kind| kind.answer(request, Instant::now(), self.max_staleness));
        match verdict {
            Some(Verdict::Found(bytes)) => match &request.field_masks {
                None => Ok(bytes),
                Some(masks) => crate::live::masked(&bytes, masks),
            },
            Some(Verdict::Ask) | None => self.live.0.get(request),
        }
    }

    fn list(&self, request: &ListRequest) -> Result<Vec<u8>, ClusterError> {
        self.live.0.list(request)
    }

    fn can_i(&self, request: &AccessRequest) -> Result<Vec<u8>, ClusterError> {
        self.live.0.can_i(request)
    }
}
