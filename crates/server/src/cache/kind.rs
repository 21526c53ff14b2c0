//! One watched kind: the table of its objects, and whether it may answer look-ups.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube::api::{ApiResource, DynamicObject, TypeMeta};
use kube::runtime::watcher;
use kube::{Api, Client, Error};
use pillion_host::ResourceRequest;
use pillion_host::live::{self, Served};
use pillion_runtime::backoff::Backoff;
use pillion_runtime::store::{Facets, NoAnswer, Projection, Table, Watch, failed_request, keep, listening};
use tokio::time::sleep;

use super::{WatchStatus, Watched};

/// The delays between questions for the resource of a kind.
const ASK_AGAIN: Backoff = Backoff { first: Duration::from_millis(500), most: Duration::from_secs(30) };

/// An object as the JSON of a live read. Bytes need a tenth of the memory of parsed values.
#[derive(Debug)]
pub(super) struct Json(pub(super) Arc<[u8]>);

impl Projection for Json {
    fn differences(&self, _: &Self) -> Facets {
        // No change wakes anybody.
        Facets::empty()
    }
}

/// A watched kind.
pub(super) struct Kind {
    watched: Watched,
    /// Whether the kind is namespaced; set before the first list.
    pub(super) namespaced: OnceLock<bool>,
    pub(super) table: Arc<Table<Json>>,
    answered: AtomicU64,
    passed_on: AtomicU64,
}

impl Kind {
    pub(super) fn new(watched: Watched) -> Self {
        let (namespaced, table) = (OnceLock::new(), Arc::default());
        Self { watched, namespaced, table, answered: AtomicU64::new(0), passed_on: AtomicU64::new(0) }
    }

    /// Whether this watch covers a look-up.
    pub(super) fn watches(&self, request: &ResourceRequest) -> bool {
        let Watched { api_version, kind, namespace } = &self.watched;
        request.api_version == *api_version
            && request.kind == *kind
            && (namespace.is_none() || request.namespace == *namespace)
    }

    /// Answers a look-up from a fresh watch, and counts it. `None`: the object is not known, or the watch is not fresh,
    /// so it has to be read live.
    pub(super) fn answer(&self, request: &ResourceRequest, max_staleness: Duration) -> Option<Arc<[u8]>> {
        let namespace = match (self.namespaced.get()?, request.namespace.as_deref()) {
            // The live read reports the missing namespace.
            (true, namespace) => namespace?,
            // As in a live read, the namespace is ignored for a cluster-wide kind.
            (false, _) => "",
        };
        // First the age: the table only gets newer.
        if !self.is_fresh(max_staleness) {
            return None;
        }
        let found = self.table.get(namespace, &request.name)?;
        self.answered.fetch_add(1, Ordering::Relaxed);
        Some(Arc::clone(&found.0))
    }

    /// Counts a look-up that is read live.
    pub(super) fn pass_on(&self) {
        self.passed_on.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn status(&self, max_staleness: Duration) -> WatchStatus {
        WatchStatus {
            watched: self.watched.clone(),
            synced: self.is_fresh(max_staleness),
            age: self.table.progress().age(),
            objects: self.table.len(),
            bytes: self.table.all().iter().map(|object| object.0.len()).sum(),
            answered: self.answered.load(Ordering::Relaxed),
            passed_on: self.passed_on.load(Ordering::Relaxed),
            problem: self.table.problem(),
        }
    }

    fn is_fresh(&self, max_staleness: Duration) -> bool {
        self.table.progress().age().is_some_and(|age| age <= max_staleness)
    }

    /// Takes note of a failure. `lasts`: no retry ends it, so it is told at once.
    fn fails(&self, text: String, lasts: bool) {
        let warning = format!("{} is not watched, and read live: {text}", self.watched);
        self.table.progress().fail_told(text, lasts, &warning, format!("{} is watched again", self.watched));
    }

    /// Asks for the resource of the kind until the API server serves it.
    async fn discover(&self, client: &Client) -> Served {
        let mut failures = 0;
        loop {
            match live::discover(client, &self.watched.api_version, &self.watched.kind).await {
                Ok(served) => return served,
                // The text is complete as it is.
                Err(error) => self.fails(error.to_string(), false),
            }
            sleep(ASK_AGAIN.after(failures)).await;
            failures = failures.saturating_add(1);
        }
    }

    /// Takes note of a failure of the watch.
    fn watch_fails(&self, resource: &ApiResource, error: &watcher::Error) {
        match failed_request(error) {
            // The watch fell behind, and lists again.
            Some((_, Error::Api(status))) if status.code == 410 => {}
            None if matches!(error, watcher::Error::WatchError(status) if status.code == 410) => {}
            Some((verb, Error::Api(status))) if status.is_forbidden() => {
                let group = &resource.group;
                let dot = if group.is_empty() { "" } else { "." };
                let resource = format!("{}{dot}{group}", resource.plural);
                let text = format!(
                    "pillion may not {verb} {resource}: add the verbs \"get\", \"list\" and \"watch\" for \"{resource}\" \
                     to a role of its ServiceAccount"
                );
                self.fails(text, true);
            }
            Some((_, Error::Service(cause))) if cause.is::<NoAnswer>() => self.fails(cause.to_string(), false),
            Some((_, cause)) => self.fails(live::with_causes(cause), false),
            None => self.fails(error.to_string(), false),
        }
    }
}

/// Watches until the task is aborted.
pub(super) async fn watch(client: Client, kind: Arc<Kind>, max_staleness: Duration) {
    let client = listening(client, kind.table.progress().clone());
    let Served { resource, namespaced } = kind.discover(&client).await;
    // It is set only here.
    let _ = kind.namespaced.set(namespaced);
    let api = match &kind.watched.namespace {
        Some(namespace) if namespaced => Api::namespaced_with(client, namespace, &resource),
        _ => Api::all_with(client, &resource),
    };
    let types = TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() };
    let told = Arc::clone(&kind);
    let watch = Watch::new(api, kind.watched.kind.clone())
        .max_staleness(max_staleness)
        .telling(move |error| told.watch_fails(&resource, error));
    keep(watch, Arc::clone(&kind.table), move |object| kept(object, &types)).await;
}

/// Returns an object as a live read shows it, without the fields that only the API server and `kubectl apply` need.
fn kept(mut object: DynamicObject, types: &TypeMeta) -> Option<Json> {
    object.metadata.managed_fields = None;
    if let Some(annotations) = &mut object.metadata.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        if annotations.is_empty() {
            object.metadata.annotations = None;
        }
    }
    // Items of a list lack `apiVersion` and `kind`.
    object.types = Some(types.clone());
    serde_json::to_vec(&object).ok().map(|bytes| Json(bytes.into()))
}
