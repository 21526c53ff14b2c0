//! The watch of one kind of objects.

use std::borrow::Cow;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::{TryStreamExt as _, pin_mut};
use kube::runtime::utils::Backoff as _;
use kube::runtime::watcher::{self, Config, DefaultBackoff, Event, watcher as events_of};
use kube::{Api, Resource};
use pillion_kubernetes::json;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use super::change::Projection;
use super::table::{ObjectPlace, Table, Version};
use crate::problem::{WriteProblem, classify};

/// The maximum number of watches marked [`Watch::one_of_many`] that list at the same time. With hundreds of requests at
/// a time, the API server rejects some, including other requests of this process.
static LISTS: Semaphore = Semaphore::const_new(16);

/// Called with a failure of a watch.
type Tell = dyn Fn(&watcher::Error) + Send + Sync;

/// The objects to watch.
pub struct Watch<K> {
    pub(super) api: Api<K>,
    pub(super) kind: Cow<'static, str>,
    pub(super) is_one_of_many: bool,
    labels: Vec<(String, Option<String>)>,
    fields: Vec<(String, String)>,
    max_staleness: Option<Duration>,
    tell: Option<Box<Tell>>,
}

impl<K> Watch<K> {
    /// Watches all objects of an API, which are of this kind.
    pub fn new(api: Api<K>, kind: impl Into<Cow<'static, str>>) -> Self {
        let (labels, fields) = (Vec::new(), Vec::new());
        Self { api, kind: kind.into(), is_one_of_many: false, labels, fields, max_staleness: None, tell: None }
    }

    /// Restricts the watch to objects with a label, or with a label of this value.
    #[must_use]
    pub fn label(mut self, key: &str, value: Option<&str>) -> Self {
        self.labels.push((key.to_owned(), value.map(str::to_owned)));
        self
    }

    /// Restricts the watch to objects with this value in a field, such as `metadata.name`.
    #[must_use]
    pub fn field(mut self, path: &str, value: &str) -> Self {
        self.fields.push((path.to_owned(), value.to_owned()));
        self
    }

    /// Marks the watch as one of many alike: its failure is reported but does not affect readiness.
    #[must_use]
    pub fn one_of_many(mut self) -> Self {
        self.is_one_of_many = true;
        self
    }

    /// Opens the watch again in time for a table whose age must not exceed this bound, at least two seconds. The API must
    /// have a client that listens for signs of life ([`listening`](super::listening)), and this process must not write
    /// such objects.
    #[must_use]
    pub fn max_staleness(mut self, bound: Duration) -> Self {
        self.max_staleness = Some(bound);
        self
    }

    /// Calls this function with each failure, in place of a line in the log and a report to [`Progress`](super::Progress).
    #[must_use]
    pub fn telling(mut self, tell: impl Fn(&watcher::Error) + Send + Sync + 'static) -> Self {
        self.tell = Some(Box::new(tell));
        self
    }

    fn config(&self) -> Config {
        let mut config = Config { timeout: self.max_staleness.map(period), ..Config::default() };
        if !self.labels.is_empty() {
            let terms = self.labels.iter().map(|(key, value)| match value {
                Some(value) => format!("{key}={value}"),
                None => key.clone(),
            });
            config = config.labels(&terms.collect::<Vec<_>>().join(","));
        }
        if !self.fields.is_empty() {
            let terms = self.fields.iter().map(|(path, value)| format!("{path}={value}"));
            config = config.fields(&terms.collect::<Vec<_>>().join(","));
        }
        config
    }

    /// Returns the selection of this watch, for objects that do not come from it.
    pub(super) fn selection(&self) -> Selection
    where
        K: Resource,
    {
        Selection {
            url: self.api.resource_url().to_owned(),
            kind: self.kind.clone(),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
        }
    }
}

/// Returns the duration of one watch, in seconds: two thirds of the bound, so that opening it again keeps the bound, and at
/// most what the client allows. An API server sends a bookmark a minute, and none while nothing in the whole resource has
/// changed since the watch was opened (`cacher/cache_watcher.go` of kube-apiserver 1.34).
fn period(max_staleness: Duration) -> u32 {
    u32::try_from((max_staleness * 2 / 3).as_secs()).unwrap_or(u32::MAX).clamp(1, 290)
}

/// Which objects a watch shows.
pub(super) struct Selection {
    /// The path of the objects at the API server, with the namespace if the watch is limited to one.
    url: String,
    kind: Cow<'static, str>,
    labels: Vec<(String, Option<String>)>,
    fields: Vec<(String, String)>,
}

impl Selection {
    /// Whether the watch shows objects of this kind, API version and namespace.
    fn is_of_kind(&self, object: &Value) -> bool {
        let text = |path: &[&str]| json::text(object, path);
        let api_version = text(&["apiVersion"]);
        let root = if api_version.contains('/') { "/apis/" } else { "/api/" };
        let Some(rest) = self.url.strip_prefix(root).and_then(|rest| rest.strip_prefix(api_version)) else {
            return false;
        };
        let namespace = rest.strip_prefix("/namespaces/").and_then(|rest| rest.split_once('/'));
        self.kind == text(&["kind"])
            && namespace.is_none_or(|(namespace, _)| namespace == text(&["metadata", "namespace"]))
    }

    /// Whether the watch shows this object.
    fn takes(&self, object: &Value) -> bool {
        let text = |path: &str| json::text(object, &path.split('.').collect::<Vec<_>>());
        self.is_of_kind(object)
            && self.labels.iter().all(|(key, value)| {
                let label = json::at(object, &["metadata", "labels", key]).and_then(Value::as_str);
                label.is_some() && (value.is_none() || label == value.as_deref())
            })
            && self.fields.iter().all(|(path, value)| text(path) == value)
    }
}

/// The objects that a watch shows. The watch ends when this is dropped.
pub struct Watched<T> {
    table: Arc<Table<T>>,
    task: AbortHandle,
}

impl<T> Watched<T> {
    pub(super) fn new(table: Arc<Table<T>>, task: AbortHandle) -> Self {
        Self { table, task }
    }
}

impl<T> Deref for Watched<T> {
    type Target = Table<T>;

    fn deref(&self) -> &Table<T> {
        &self.table
    }
}

impl<T> Drop for Watched<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A table that takes objects from answers to writes. Its functions return false if the table is gone.
pub(super) trait Absorb: Send + Sync {
    /// Takes the object after a write.
    fn written(&self, object: &Value) -> bool;
    /// Takes note that an object was deleted.
    fn deleted(&self, object: &Value) -> bool;
    /// Whether the table still exists.
    fn is_there(&self) -> bool;
}

/// The table of a watch, with the projection of the watch.
pub(super) struct Absorbing<K, T, See> {
    pub(super) table: Weak<Table<T>>,
    pub(super) selection: Selection,
    pub(super) see: Arc<See>,
    pub(super) kind: PhantomData<fn() -> K>,
}

impl<K, T, See> Absorb for Absorbing<K, T, See>
where
    K: Resource + DeserializeOwned,
    T: Projection,
    See: Fn(K) -> Option<T> + Send + Sync,
{
    fn written(&self, object: &Value) -> bool {
        let Some(table) = self.table.upgrade() else { return false };
        if self.selection.takes(object)
            && let Ok(object) = K::deserialize(object)
        {
            take(&table, Version::from_metadata(object.meta()), object, &*self.see);
        }
        true
    }

    fn deleted(&self, object: &Value) -> bool {
        let Some(table) = self.table.upgrade() else { return false };
        if self.selection.is_of_kind(object) {
            let text = |key| json::text(object, &["metadata", key]);
            table.remove(&ObjectPlace::new(text("namespace"), text("name")), text("uid"));
        }
        true
    }

    fn is_there(&self) -> bool {
        self.table.strong_count() > 0
    }
}

/// Takes an object that a watch or a write has shown.
fn take<K: Resource, T: Projection>(table: &Table<T>, version: Version, object: K, see: impl Fn(K) -> Option<T>) {
    let place = ObjectPlace::from_object(&object);
    match see(object) {
        Some(seen) => table.put(&place, version, seen),
        None => table.leave(&place, &version.uid),
    }
}

impl<K: Resource> Watch<K> {
    /// Returns the version with which the table compares an object.
    fn version(&self, object: &K) -> Version {
        match self.max_staleness {
            None => Version::from_metadata(object.meta()),
            // Nothing but the watch writes into this table, so the order counts in which objects arrive. Versions are
            // lower than before if somebody has restored a backup of the cluster.
            Some(_) => Version::default(),
        }
    }

    /// Writes an event into the table. Returns whether the table was listed before or is now.
    fn show<T: Projection>(&self, event: Event<K>, table: &Table<T>, see: impl Fn(K) -> Option<T>) -> bool {
        match event {
            Event::Init => table.start_list(),
            Event::InitApply(object) => {
                let (place, version) = (ObjectPlace::from_object(&object), self.version(&object));
                if let Some(seen) = see(object) {
                    table.add_to_list(place, version, seen);
                }
            }
            Event::InitDone => {
                table.end_list();
                return true;
            }
            Event::Apply(object) => {
                table.progress().works();
                take(table, self.version(&object), object, see);
                return true;
            }
            Event::Delete(object) => {
                table.progress().works();
                table.remove(&ObjectPlace::from_object(&object), &self.version(&object).uid);
                return true;
            }
        }
        false
    }
}

/// Watches objects for as long as it is polled and keeps the result of `see` for each; objects for which `see` returns
/// `None` are not kept.
pub async fn keep<K, T>(watch: Watch<K>, table: Arc<Table<T>>, see: impl Fn(K) -> Option<T> + Send)
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    T: Projection,
{
    // The semaphore is never closed, so this cannot fail.
    let mut turn = if watch.is_one_of_many { LISTS.acquire().await.ok() } else { None };
    let rule = rule(watch.api.resource_url());
    let (mut backoff, mut failed) = (DefaultBackoff::default(), Instant::now());
    loop {
        let events = events_of(watch.api.clone(), watch.config());
        pin_mut!(events);
        loop {
            let error = match events.try_next().await {
                Ok(Some(event)) => {
                    if watch.show(event, &table, &see) {
                        drop(turn.take());
                        backoff.reset();
                    }
                    continue;
                }
                Ok(None) => return,
                Err(error) => error,
            };
            drop(turn.take());
            if table.progress().is_alive_since(failed) {
                backoff.reset();
            }
            failed = Instant::now();
            let delay = backoff.next().unwrap_or_default();
            match &watch.tell {
                Some(tell) => tell(&error),
                None => note_broken_watch(&table, &watch.kind, problem(&error, &rule), delay),
            }
            sleep(delay).await;
            if has_lost_events(&error) {
                break;
            }
        }
    }
}

/// Whether the watcher of kube would go on after this error without events that the API server has sent, or would send if
/// the watch were opened from an earlier version. A new watcher lists everything.
fn has_lost_events(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => status.code == 410,
        watcher::Error::WatchFailed(kube::Error::SerdeError(_)) | watcher::Error::WatchError(_) => true,
        _ => false,
    }
}

/// Takes note that a watch broke. The table keeps its objects, and the process is not ready for as long as the watch
/// fails. It starts again after a delay.
fn note_broken_watch<T: Projection>(table: &Table<T>, kind: &str, problem: String, next_attempt: Duration) {
    if table.problem().as_ref() != Some(&problem) {
        tracing::warn!(kind, problem, "watch");
    }
    table.progress().fail_for_now(problem, next_attempt);
}

/// Returns the RBAC rule that a watch needs, from the URL of the watched resource.
pub(super) fn rule(url: &str) -> String {
    let mut segments = url.trim_start_matches('/').split('/');
    let group = if segments.next() == Some("apis") { segments.next() } else { None }.unwrap_or_default();
    let resource = segments.next_back().unwrap_or_default();
    format!("{{apiGroups: [\"{group}\"], resources: [\"{resource}\"], verbs: [\"list\", \"watch\"]}}")
}

/// Returns the verb of the request that failed, and why it failed; `None` if the failure is in an answer.
pub fn failed_request(error: &watcher::Error) -> Option<(&'static str, &kube::Error)> {
    match error {
        watcher::Error::InitialListFailed(cause) => Some(("list", cause)),
        watcher::Error::WatchStartFailed(cause) | watcher::Error::WatchFailed(cause) => Some(("watch", cause)),
        watcher::Error::WatchError(_) | watcher::Error::NoResourceVersion => None,
    }
}

/// Describes a failure of a watch for people, with the missing RBAC rule if there is one.
pub(super) fn problem(error: &watcher::Error, rule: &str) -> String {
    let Some((_, cause)) = failed_request(error) else { return error.to_string() };
    match classify(cause) {
        WriteProblem::Forbidden(message) => format!("{message}; it needs the rule {rule}"),
        WriteProblem::NotFound => "the API server does not serve it".to_owned(),
        problem => problem.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::core("/api/v1/namespaces/shop/secrets", "", "secrets")]
    #[case::of_a_group("/apis/rbac.authorization.k8s.io/v1/rolebindings", "rbac.authorization.k8s.io", "rolebindings")]
    #[case::cluster_scoped("/api/v1/namespaces", "", "namespaces")]
    fn esc6_a_watch_needs_list_and_watch(#[case] url: &str, #[case] group: &str, #[case] resource: &str) {
        let expected =
            format!("{{apiGroups: [\"{group}\"], resources: [\"{resource}\"], verbs: [\"list\", \"watch\"]}}");
        assert_eq!(rule(url), expected);
    }

    #[rstest]
    #[case::forbidden(403, "Forbidden", "no; it needs the rule {…}")]
    #[case::not_served(404, "NotFound", "the API server does not serve it")]
    #[case::overloaded(429, "TooManyRequests", "no")]
    fn esc6_a_missing_right_is_told_with_the_rule_that_gives_it(
        #[case] code: u16,
        #[case] reason: &str,
        #[case] expected: &str,
    ) {
        let status = Status { code, ..Status::failure("no", reason) };
        let error = kube::Error::Api(Box::new(status));
        assert_eq!(problem(&watcher::Error::InitialListFailed(error), "{…}"), expected);
    }
}
