//! Watches that belong to a single controller.

use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use futures_util::{TryStreamExt as _, pin_mut};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Config, Event, watcher as events_of};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::{Change, Changes, Cluster, Kept, Progress};
use crate::write::WriteProblem;

/// The maximum number of watches marked [`Watch::one_of_many`] that list at the same time. With hundreds of requests at
/// a time, the API server rejects some, including other requests of this process.
static LISTS: Semaphore = Semaphore::const_new(16);

/// The objects to watch.
pub struct Watch<K> {
    api: Api<K>,
    kind: &'static str,
    change: &'static str,
    config: Config,
    is_one_of_many: bool,
}

impl<K> Watch<K> {
    /// Watches all objects of an API, which are of this kind.
    pub fn new(api: Api<K>, kind: &'static str) -> Self {
        Self { api, kind, change: kind, config: Config::default(), is_one_of_many: false }
    }

    /// Restricts the watch to objects that match a label selector.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        self.config = self.config.labels(selector);
        self
    }

    /// Restricts the watch to objects that match a field selector.
    #[must_use]
    pub fn fields(mut self, selector: &str) -> Self {
        self.config = self.config.fields(selector);
        self
    }

    /// Sets the name of a [`Change`] of these objects, for kinds of which different controllers watch different
    /// objects.
    #[must_use]
    pub fn called(mut self, change: &'static str) -> Self {
        self.change = change;
        self
    }

    /// Marks the watch as one of many alike: its failure is reported but does not affect readiness.
    #[must_use]
    pub fn one_of_many(mut self) -> Self {
        self.is_one_of_many = true;
        self
    }
}

/// The objects that a watch has shown. The watch ends when this is dropped.
pub struct Own<T> {
    kept: Arc<Kept<T>>,
    task: AbortHandle,
}

impl<T> Deref for Own<T> {
    type Target = Kept<T>;

    fn deref(&self) -> &Kept<T> {
        &self.kept
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Cluster {
    /// Starts a watch for one controller and keeps the result of `see` for each object; objects for which `see` returns
    /// `None` are not kept. All subscribers receive the changes. The process is not ready until everything was listed,
    /// nor while the watch fails.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn keep<K, T>(&self, controller: &str, watch: Watch<K>, see: impl Fn(K) -> Option<T> + Send + 'static) -> Own<T>
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
        T: Send + Sync + 'static,
    {
        let kept = Arc::new(Kept::default());
        let place = watch.api.namespace().map(|namespace| format!(" of namespace \"{namespace}\"")).unwrap_or_default();
        let name = format!("{controller}: {}{place}", watch.kind);
        self.registry.add(name, watch.is_one_of_many, kept.progress());
        let task = tokio::spawn(keep(watch, Arc::clone(&kept), see, self.notify())).abort_handle();
        Own { kept, task }
    }

    /// Registers something else that a controller must see before the process is ready. It counts until the result is
    /// dropped.
    pub fn progress(&self, controller: &str, what: &str) -> Progress {
        let progress = Progress::default();
        self.registry.add(format!("{controller}: {what}"), false, &progress);
        progress
    }
}

/// Watches objects for as long as it is polled and keeps the result of `see` for each; objects for which `see` returns
/// `None` are not kept. Every write to an object is a change.
async fn keep<K, T>(watch: Watch<K>, kept: Arc<Kept<T>>, see: impl Fn(K) -> Option<T> + Send, changes: Changes)
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    T: Send + Sync,
{
    let change = watch.change;
    keep_telling(watch, kept, see, |_, _| Some(change), changes).await;
}

/// Does the same as [`keep`], but `tell` names the change from one version of an object to the next. If `tell` returns
/// `None`, the versions count as equal, and the first one is kept.
pub(super) async fn keep_telling<K, T>(
    watch: Watch<K>,
    kept: Arc<Kept<T>>,
    see: impl Fn(K) -> Option<T> + Send,
    tell: impl Fn(&T, &T) -> Option<&'static str> + Send,
    changes: Changes,
) where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    T: Send + Sync,
{
    let Watch { api, kind, change, config, is_one_of_many } = watch;
    // The semaphore is never closed, so this cannot fail.
    let mut turn = if is_one_of_many { LISTS.acquire().await.ok() } else { None };
    let rule = rule(api.resource_url());
    let all = api.namespace().map(str::to_owned);
    let events = events_of(api, config).default_backoff();
    pin_mut!(events);
    loop {
        let event = match events.try_next().await {
            Ok(Some(event)) => event,
            Ok(None) => return,
            Err(error) => {
                drop(turn.take());
                let problem = problem(&error, &rule);
                if kept.problem().as_ref() != Some(&problem) {
                    tracing::warn!(kind, problem, "watch");
                }
                kept.progress().fail_for_now(problem);
                continue;
            }
        };
        let place = |object: &K| (object.namespace().unwrap_or_default(), object.name_any());
        let (change, namespace) = match event {
            Event::Init => {
                kept.start_list();
                continue;
            }
            Event::InitApply(object) => {
                let (namespace, name) = place(&object);
                if let Some(seen) = see(object) {
                    kept.add_to_list(namespace, name, seen);
                }
                continue;
            }
            Event::InitDone => {
                drop(turn.take());
                kept.end_list();
                (change, all.clone())
            }
            Event::Apply(object) => {
                let (namespace, name) = place(&object);
                let told = match (kept.get(&namespace, &name), see(object)) {
                    (Some(before), Some(seen)) => {
                        let told = tell(&before, &seen);
                        if told.is_some() {
                            kept.put(namespace.clone(), name, seen);
                        }
                        told
                    }
                    (None, Some(seen)) => {
                        kept.put(namespace.clone(), name, seen);
                        Some(change)
                    }
                    (_, None) => kept.take(&namespace, &name).then_some(change),
                };
                kept.progress().works();
                let Some(change) = told else { continue };
                (change, Some(namespace))
            }
            Event::Delete(object) => {
                let (namespace, name) = place(&object);
                if !kept.take(&namespace, &name) {
                    continue;
                }
                (change, Some(namespace))
            }
        };
        // This fails only if there is no subscriber yet.
        let _ = changes.send(Change { kind: change, namespace: namespace.filter(|namespace| !namespace.is_empty()) });
    }
}

/// Returns the RBAC rule that a watch needs, from the URL of the watched resource.
pub(super) fn rule(url: &str) -> String {
    let mut segments = url.trim_start_matches('/').split('/');
    let group = if segments.next() == Some("apis") { segments.next() } else { None }.unwrap_or_default();
    let resource = segments.next_back().unwrap_or_default();
    format!("{{apiGroups: [\"{group}\"], resources: [\"{resource}\"], verbs: [\"list\", \"watch\"]}}")
}

/// Describes a failure of a watch for people, with the missing RBAC rule if there is one.
pub(super) fn problem(error: &watcher::Error, rule: &str) -> String {
    let cause = match error {
        watcher::Error::InitialListFailed(cause)
        | watcher::Error::WatchStartFailed(cause)
        | watcher::Error::WatchFailed(cause) => cause,
        watcher::Error::WatchError(_) | watcher::Error::NoResourceVersion => return error.to_string(),
    };
    match WriteProblem::of(cause) {
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
        #[case] told: &str,
    ) {
        let status = Status { code, ..Status::failure("no", reason) };
        let error = kube::Error::Api(Box::new(status));
        assert_eq!(problem(&watcher::Error::InitialListFailed(error), "{…}"), told);
    }
}
