//! What is seen of the cluster: by watches that list in pages, and of each object only what controllers need.
//!
//! [`Cluster`] has what several controllers look at. What only one looks at it watches itself, with [`keep`].

mod kept;
mod kinds;
mod subject;

#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::Namespace;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch_kind};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use crate::sets::Cached;

pub use kept::Kept;
pub(crate) use subject::PodObject;
pub use subject::Subject;

/// How many changes a controller may be behind before it has to look at everything.
const BACKLOG: usize = 4096;
/// A change of a Namespace.
pub const NAMESPACE: &str = "Namespace";
/// A change of a SidecarSet.
pub const SIDECAR_SET: &str = "SidecarSet";
/// A change of what its status counts and says, which is nothing to Pods.
pub const SIDECAR_SET_STATUS: &str = "SidecarSetStatus";
/// How often a kind is looked for that the API server does not serve.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// Something has changed, and this is where. What it was is seen by looking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The kind of the object.
    pub kind: &'static str,
    /// Its namespace; `None` where it has none, or where it may be any.
    pub namespace: Option<String>,
}

/// Who wants to know of changes.
pub type Changes = broadcast::Sender<Change>;

/// What is watched beside Namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// SidecarSets.
    pub sidecar_sets: bool,
    /// Pods and workloads.
    pub subjects: bool,
}

/// What several controllers look at.
pub struct Cluster {
    /// The Namespaces, without `managedFields`.
    pub namespaces: Store<Namespace>,
    /// The SidecarSets, as the API server has them in v1alpha1 where it serves that, else in v1beta1; whole objects
    /// without `managedFields`.
    pub sidecar_sets: Arc<Kept<Value>>,
    /// Workloads, by kind, with the Pods that they will make. Those that belong to another workload are left out.
    pub workloads: Vec<Arc<Kept<Subject>>>,
    /// Pods.
    pub pods: Arc<Kept<Subject>>,
    /// What the SidecarSets of the cluster and of the settings say, read once for all who ask.
    pub sets: Cached,
    changes: Changes,
    tasks: std::sync::Mutex<JoinSet<()>>,
}

impl Cluster {
    /// Starts to watch everything. It ends when this is dropped.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn watch(client: &Client) -> Self {
        Self::watch_only(client, Wanted { sidecar_sets: true, subjects: true })
    }

    /// Starts to watch Namespaces, and what else is wanted; of the rest there is nothing. It ends when this is dropped.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn watch_only(client: &Client, wanted: Wanted) -> Self {
        let changes = Changes::new(BACKLOG);
        let mut tasks = JoinSet::new();
        let (namespaces, writer) = reflector::store();
        tasks.spawn(keep_namespaces(client.clone(), writer, changes.clone()));
        let sidecar_sets = Arc::new(Kept::default());
        if wanted.sidecar_sets {
            tasks.spawn(kinds::sidecar_sets(client.clone(), Arc::clone(&sidecar_sets), changes.clone()));
        } else {
            sidecar_sets.end_list();
        }
        let (pods, mut workloads) = (Arc::new(Kept::default()), Vec::new());
        if wanted.subjects {
            tasks.spawn(kinds::pods(client.clone(), Arc::clone(&pods), changes.clone()));
            for kind in kinds::WORKLOADS {
                let kept = Arc::new(Kept::default());
                tasks.spawn(kinds::workloads(client.clone(), kind, Arc::clone(&kept), changes.clone()));
                workloads.push(kept);
            }
        } else {
            pods.end_list();
        }
        let (sets, tasks) = (Cached::default(), std::sync::Mutex::new(tasks));
        Self { namespaces, sidecar_sets, workloads, pods, sets, changes, tasks }
    }

    /// Changes from now on.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// Where watches of a controller's own say what they saw, so that it has all changes in one place.
    pub fn notify(&self) -> Changes {
        self.changes.clone()
    }

    /// A watch of a controller's own, which ends with the others.
    pub fn also(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.lock().unwrap_or_else(std::sync::PoisonError::into_inner).spawn(task);
    }

    /// Waits until everything was listed once: before that, nothing may be concluded from what is not there.
    pub async fn listed(&self) {
        // It can only fail where the writer is gone, and then nothing is concluded any more.
        let _ = self.namespaces.wait_until_ready().await;
        self.sidecar_sets.listed().await;
        self.pods.listed().await;
        for workloads in &self.workloads {
            workloads.listed().await;
        }
    }

    /// Whether everything was listed once.
    pub fn is_listed(&self) -> bool {
        // Nobody knows that of the Namespaces without waiting, but there always are some.
        !self.namespaces.is_empty()
            && self.sidecar_sets.is_listed()
            && self.pods.is_listed()
            && self.workloads.iter().all(|kept| kept.is_listed())
    }

    /// The Pods of a namespace, and those that workloads there will make.
    pub fn subjects(&self, namespace: &str) -> Vec<Arc<Subject>> {
        let workloads = self.workloads.iter().flat_map(|kept| kept.of(namespace));
        self.pods.of(namespace).into_iter().chain(workloads).collect()
    }

    /// What keeps watches from showing anything, for readiness.
    pub fn problems(&self) -> Vec<String> {
        let kept = [&self.pods].into_iter().chain(&self.workloads).filter_map(|kept| kept.problem());
        kept.chain(self.sidecar_sets.problem()).collect()
    }
}

/// The phase of a Namespace (`status.phase`), or `""` where it has none yet.
pub fn phase(namespace: &Namespace) -> &str {
    namespace.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

async fn keep_namespaces(client: Client, writer: reflector::store::Writer<Namespace>, changes: Changes) {
    let events = watch_kind(Api::<Namespace>::all(client), watcher::Config::default())
        .default_backoff()
        .modify(|namespace| namespace.metadata.managed_fields = None)
        .reflect(writer);
    pin_mut!(events);
    while let Some(event) = events.next().await {
        let namespace = match event {
            Ok(Event::Apply(namespace) | Event::Delete(namespace)) => Some(namespace.name_any()),
            Ok(Event::InitDone) => None,
            Ok(Event::Init | Event::InitApply(_)) => continue,
            Err(error) => {
                tracing::warn!(kind = NAMESPACE, %error, "watch");
                continue;
            }
        };
        let _ = changes.send(Change { kind: NAMESPACE, namespace });
    }
}

/// Watches objects of one kind for as long as it is polled, and keeps what `see` makes of them; what it answers `None`
/// for is not kept. Whatever is written to one of them is a change.
pub async fn keep<K, T>(
    api: Api<K>,
    config: watcher::Config,
    kind: &'static str,
    kept: Arc<Kept<T>>,
    see: impl Fn(K) -> Option<T> + Send,
    changes: Changes,
) where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    T: Send + Sync,
{
    keep_telling(api, config, kind, kept, see, |_, _| Some(kind), changes).await;
}

/// As [`keep`]. `tell` says of which kind the change from one version of an object to the next is; `None` where they are
/// the same to everybody who looks here, and then the first stays.
async fn keep_telling<K, T>(
    api: Api<K>,
    config: watcher::Config,
    kind: &'static str,
    kept: Arc<Kept<T>>,
    see: impl Fn(K) -> Option<T> + Send,
    tell: impl Fn(&T, &T) -> Option<&'static str> + Send,
    changes: Changes,
) where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    T: Send + Sync,
{
    let events = watch_kind(api, config).default_backoff();
    pin_mut!(events);
    loop {
        let event = match events.try_next().await {
            Ok(Some(event)) => event,
            Ok(None) => return,
            Err(error) => {
                let problem = format!("{kind}: {error}");
                if kept.problem().as_ref() != Some(&problem) {
                    tracing::warn!(kind, %error, "watch");
                }
                kept.set_problem(Some(problem));
                continue;
            }
        };
        let place = |object: &K| (object.namespace().unwrap_or_default(), object.name_any());
        let (kind, namespace) = match event {
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
                kept.end_list();
                (kind, String::new())
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
                        Some(kind)
                    }
                    (_, None) => kept.take(&namespace, &name).then_some(kind),
                };
                kept.set_problem(None);
                let Some(kind) = told else { continue };
                (kind, namespace)
            }
            Event::Delete(object) => {
                let (namespace, name) = place(&object);
                kept.set_problem(None);
                if !kept.take(&namespace, &name) {
                    continue;
                }
                (kind, namespace)
            }
        };
        // Nobody may be listening yet.
        let _ = changes.send(Change { kind, namespace: (!namespace.is_empty()).then_some(namespace) });
    }
}
