//! Lists and watches one kind.
//!
//! kube's own watcher does the same, but hides bookmarks and re-opened watches, which are needed here as signs of life.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt as _;
use kube::api::{DynamicObject, ListParams, TypeMeta, WatchEvent, WatchParams};
use kube::{Api, Client, Error, ResourceExt as _};
use pillion_host::live::{self, Served};

use super::store::{Kind, Objects, key};

/// Objects per page of a list, as in client-go.
const PAGE: u32 = 500;
/// Timeout for one answer of the API server: discovery, a page of a list, the opening of a watch.
const PATIENCE: Duration = Duration::from_secs(10);
/// A watch is considered dead this long after its requested end.
const SILENCE: Duration = Duration::from_secs(2);
/// The first and the longest pause after failures; each pause doubles.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// After a watch that was shorter than this, there is a pause before the next one.
const TOO_SHORT: Duration = Duration::from_secs(1);

/// Why a watch fails.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(
        "pillion may not {verb} {resource}: add the verbs \"get\", \"list\" and \"watch\" for \"{resource}\" to a role \
         of its ServiceAccount"
    )]
    Forbidden { verb: &'static str, resource: String },
    #[error("{0}")]
    Failed(String),
    #[error("the API server did not answer within {} s", PATIENCE.as_secs())]
    Slow,
    /// The API server no longer has the history since the listed version.
    #[error("the watch fell behind")]
    Gone,
}

/// Watches until the task is aborted.
pub(super) async fn run(client: Client, kind: Arc<Kind>, max_staleness: Duration) {
    let period = period(max_staleness);
    let mut watcher = Watcher { client, kind, period, version: None, failures: 0, reported: None };
    loop {
        match watcher.once().await {
            Ok(()) => {}
            Err(Trouble::Gone) => {
                watcher.version = None;
                tokio::time::sleep(TOO_SHORT).await;
            }
            Err(trouble) => {
                watcher.tell(&trouble);
                let pause = PAUSE.0 * 2_u32.saturating_pow(watcher.failures);
                watcher.failures = watcher.failures.saturating_add(1);
                tokio::time::sleep(pause.min(PAUSE.1)).await;
            }
        }
    }
}

/// Returns the duration of one watch, in seconds: two thirds of the bound, so that opening it again keeps the bound,
/// and at most what the client allows.
fn period(max_staleness: Duration) -> u32 {
    u32::try_from((max_staleness * 2 / 3).as_secs()).unwrap_or(u32::MAX).clamp(1, 290)
}

struct Watcher {
    client: Client,
    kind: Arc<Kind>,
    period: u32,
    /// The served resource and the last known resource version; `None` requires a list.
    version: Option<(Served, String)>,
    /// Failures since a watch was last opened.
    failures: u32,
    /// The last failure in the log.
    reported: Option<String>,
}

impl Watcher {
    /// Lists if necessary, then watches once.
    async fn once(&mut self) -> Result<(), Trouble> {
        let watched = &self.kind.watched;
        let (served, mut version) = if let Some(known) = self.version.take() {
            known
        } else {
            let served = in_time(live::discover(&self.client, &watched.api_version, &watched.kind)).await?;
            // The text of a discovery error is complete as it is.
            let served = served.map_err(|error| Trouble::Failed(error.to_string()))?;
            let version = self.list(&served).await?;
            (served, version)
        };
        let opened = Instant::now();
        let result = self.watch(&served, &mut version).await;
        self.version = Some((served, version));
        result?;
        if opened.elapsed() < TOO_SHORT {
            tokio::time::sleep(TOO_SHORT).await;
        }
        Ok(())
    }

    /// Lists everything and returns the resource version from which to watch.
    async fn list(&mut self, served: &Served) -> Result<String, Trouble> {
        let at = Instant::now();
        let api = self.api(served);
        let mut objects = Objects::new();
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = in_time(api.list(&params)).await?;
            let page = page.map_err(|error| trouble("list", served, &error))?;
            for object in page.items {
                let (key, object) = kept(object, served)?;
                objects.insert(key, object);
            }
            if let Some(next) = page.metadata.continue_.filter(|next| !next.is_empty()) {
                params.continue_token = Some(next);
                continue;
            }
            let version = page.metadata.resource_version.filter(|version| !version.is_empty());
            let version = version.ok_or_else(|| Trouble::Failed("a list has no resourceVersion".to_owned()))?;
            objects.shrink_to_fit();
            self.kind.replace(objects, served.namespaced, at);
            return Ok(version);
        }
    }

    /// Watches from `version` until the API server ends the watch, and keeps `version` up to date.
    async fn watch(&mut self, served: &Served, version: &mut String) -> Result<(), Trouble> {
        let at = Instant::now();
        let params = WatchParams::default().timeout(self.period);
        let api = self.api(served);
        let stream = in_time(api.watch(&params, version)).await?.map_err(|error| trouble("watch", served, &error))?;
        self.kind.sign_of_life(at);
        self.kind.note(None);
        self.failures = 0;
        if self.reported.take().is_some() {
            tracing::info!("{} is watched again", self.kind.watched);
        }
        let mut stream = pin!(stream);
        let end = Duration::from_secs(self.period.into()) + SILENCE;
        loop {
            let left = end.saturating_sub(at.elapsed());
            let next = match tokio::time::timeout(left, stream.try_next()).await {
                Err(_) | Ok(Ok(None)) => return Ok(()),
                Ok(Ok(Some(event))) => event,
                Ok(Err(error)) => return Err(trouble("watch", served, &error)),
            };
            let now = Instant::now();
            match next {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    *version = object.resource_version().unwrap_or_default();
                    let (key, object) = kept(object, served)?;
                    self.kind.change(key, Some(object), now);
                }
                WatchEvent::Deleted(object) => {
                    *version = object.resource_version().unwrap_or_default();
                    let key = key(object.metadata.namespace.as_deref().unwrap_or_default(), &object.name_any());
                    self.kind.change(key, None, now);
                }
                WatchEvent::Bookmark(bookmark) => {
                    *version = bookmark.metadata.resource_version;
                    self.kind.sign_of_life(now);
                }
                WatchEvent::Error(status) => return Err(trouble("watch", served, &Error::Api(status))),
            }
            if version.is_empty() {
                // Without a version, the watch cannot be resumed.
                return Err(Trouble::Gone);
            }
        }
    }

    /// Records a failure. The log gets each failure once, and only if a retry also fails (or a permission is missing):
    /// connections break every day.
    fn tell(&mut self, trouble: &Trouble) {
        let text = trouble.to_string();
        let lasts = self.failures > 0 || matches!(trouble, Trouble::Forbidden { .. });
        if lasts && self.reported.as_ref() != Some(&text) {
            tracing::warn!("{} is not watched, and read live: {text}", self.kind.watched);
            self.reported = Some(text.clone());
        }
        self.kind.note(Some(text));
    }

    fn api(&self, served: &Served) -> Api<DynamicObject> {
        match &self.kind.watched.namespace {
            Some(namespace) if served.namespaced => {
                Api::namespaced_with(self.client.clone(), namespace, &served.resource)
            }
            _ => Api::all_with(self.client.clone(), &served.resource),
        }
    }
}

async fn in_time<T>(question: impl Future<Output = T>) -> Result<T, Trouble> {
    tokio::time::timeout(PATIENCE, question).await.map_err(|_| Trouble::Slow)
}

/// Returns the key and the JSON of an object as in a live read, without the fields that only the API server and
/// `kubectl apply` need.
fn kept(mut object: DynamicObject, served: &Served) -> Result<(Box<str>, Arc<[u8]>), Trouble> {
    let key = key(object.metadata.namespace.as_deref().unwrap_or_default(), &object.name_any());
    object.metadata.managed_fields = None;
    if let Some(annotations) = &mut object.metadata.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        if annotations.is_empty() {
            object.metadata.annotations = None;
        }
    }
    // Items of a list lack `apiVersion` and `kind`.
    let (api_version, kind) = (served.resource.api_version.clone(), served.resource.kind.clone());
    object.types = Some(TypeMeta { api_version, kind });
    let bytes = serde_json::to_vec(&object).map_err(|error| Trouble::Failed(error.to_string()))?;
    Ok((key, bytes.into()))
}

fn trouble(verb: &'static str, served: &Served, error: &Error) -> Trouble {
    match error {
        Error::Api(status) if status.code == 410 || status.reason == "Expired" => Trouble::Gone,
        Error::Api(status) if status.is_forbidden() => {
            let group = &served.resource.group;
            let dot = if group.is_empty() { "" } else { "." };
            Trouble::Forbidden { verb, resource: format!("{}{dot}{group}", served.resource.plural) }
        }
        error => Trouble::Failed(live::with_causes(error)),
    }
}
