//! The observed state of the cluster. Watches list in pages and keep only the parts of objects that controllers need.
//!
//! [`Cluster`] has the objects that several controllers need. A controller watches other objects with
//! [`Cluster::keep`].

mod kept;
mod kinds;
mod own;
mod progress;
mod subject;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::Namespace;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch_kind};
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use crate::bundled::Bundled;
use crate::sets::Cached;
use progress::Registry;

pub use kept::Kept;
pub use own::{Own, Watch};
pub use progress::{Progress, Report};
pub use subject::Subject;
pub(crate) use subject::{PodObject, WorkloadObject};

/// The number of changes that a controller may lag behind before it must look at everything.
const BACKLOG: usize = 4096;
/// The kind of a change of a Namespace.
pub const NAMESPACE: &str = "Namespace";
/// The kind of a change of a SidecarSet.
pub const SIDECAR_SET: &str = "SidecarSet";
/// The kind of a change of a SidecarSet's status only, which does not affect Pods.
pub const SIDECAR_SET_STATUS: &str = "SidecarSetStatus";
/// The interval between checks for a kind that the API server does not serve.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// A change, and its location. The new state is in [`Cluster`] or in the controller's own watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The kind of the object.
    pub kind: &'static str,
    /// Its namespace; `None` if it has none, or if objects in any namespace may have changed.
    pub namespace: Option<String>,
}

/// The channel that announces changes to its subscribers.
pub type Changes = broadcast::Sender<Change>;

/// The objects to watch in addition to Namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// SidecarSets.
    pub sidecar_sets: bool,
    /// Pods and workloads.
    pub subjects: bool,
}

impl Wanted {
    /// Everything.
    pub const ALL: Self = Self { sidecar_sets: true, subjects: true };
}

/// The objects that several controllers need.
pub struct Cluster {
    /// The Namespaces, without `managedFields`.
    pub namespaces: Store<Namespace>,
    /// The SidecarSets in v1alpha1 if the API server serves that, otherwise in v1beta1. Whole objects without
    /// `managedFields`.
    pub sidecar_sets: Arc<Kept<Value>>,
    /// Workloads, by kind, with the Pods that they will create. Workloads that another workload controls are left out.
    pub workloads: Vec<Arc<Kept<Subject>>>,
    /// Pods.
    pub pods: Arc<Kept<Subject>>,
    /// The decoded SidecarSets of the cluster and the settings, decoded once for all controllers.
    pub sets: Cached,
    /// The SidecarSets of the bundle that this process keeps.
    pub bundled: Bundled,
    /// The progress of the watch on Namespaces.
    listed: Progress,
    registry: Registry,
    changes: Changes,
    _tasks: JoinSet<()>,
}

impl Cluster {
    /// Starts to watch Namespaces and the other `wanted` objects; kinds that are not wanted stay empty. The watches end
    /// when this is dropped.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn watch(client: &Client, wanted: Wanted) -> Self {
        let changes = Changes::new(BACKLOG);
        let mut tasks = JoinSet::new();
        let (namespaces, writer) = reflector::store();
        let (registry, listed) = (Registry::default(), Progress::default());
        let counts = |kind: &str, progress: &Progress| registry.add(kind.to_owned(), false, progress);
        counts("Namespace", &listed);
        tasks.spawn(keep_namespaces(client.clone(), writer, listed.clone(), changes.clone()));
        let sidecar_sets = Arc::new(Kept::default());
        if wanted.sidecar_sets {
            counts("SidecarSet", sidecar_sets.progress());
            tasks.spawn(kinds::sidecar_sets(client.clone(), Arc::clone(&sidecar_sets), changes.clone()));
        } else {
            sidecar_sets.end_list();
        }
        let (pods, mut workloads) = (Arc::new(Kept::default()), Vec::new());
        if wanted.subjects {
            counts("Pod", pods.progress());
            tasks.spawn(kinds::pods(client.clone(), Arc::clone(&pods), changes.clone()));
            for kind in kinds::WORKLOADS {
                let kept = Arc::new(Kept::default());
                counts(kind.kind, kept.progress());
                tasks.spawn(kinds::workloads(client.clone(), kind, Arc::clone(&kept), changes.clone()));
                workloads.push(kept);
            }
        } else {
            pods.end_list();
        }
        let (sets, bundled) = (Cached::default(), Bundled::default());
        Self { namespaces, sidecar_sets, workloads, pods, sets, bundled, listed, registry, changes, _tasks: tasks }
    }

    /// Subscribes to changes from now on.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// Returns the channel on which a controller's own watches announce changes, so that all changes arrive in one
    /// place.
    pub fn notify(&self) -> Changes {
        self.changes.clone()
    }

    /// Waits until all objects in here were listed once. Before that, the absence of an object proves nothing.
    pub async fn listed(&self) {
        self.listed.complete().await;
        self.sidecar_sets.listed().await;
        self.pods.listed().await;
        for workloads in &self.workloads {
            workloads.listed().await;
        }
    }

    /// Returns the Pods of a namespace, and those that its workloads will create.
    pub fn subjects(&self, namespace: &str) -> Vec<Arc<Subject>> {
        let workloads = self.workloads.iter().flat_map(|kept| kept.of(namespace));
        self.pods.of(namespace).into_iter().chain(workloads).collect()
    }

    /// Reports the watches that are incomplete or have failed, including the controllers' own watches.
    pub fn report(&self) -> Report {
        self.registry.report()
    }

    /// Returns the watches that have failed, each with the reason.
    pub fn failures(&self) -> Vec<String> {
        self.registry.failures()
    }
}

/// Returns the phase of a Namespace (`status.phase`), or `""` if it has none yet.
pub fn phase(namespace: &Namespace) -> &str {
    namespace.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

async fn keep_namespaces(client: Client, writer: Writer<Namespace>, listed: Progress, changes: Changes) {
    let api = Api::<Namespace>::all(client);
    let rule = own::rule(api.resource_url());
    let events = watch_kind(api, watcher::Config::default())
        .default_backoff()
        .modify(|namespace| namespace.metadata.managed_fields = None)
        .reflect(writer);
    pin_mut!(events);
    while let Some(event) = events.next().await {
        let namespace = match event {
            Ok(Event::Apply(namespace) | Event::Delete(namespace)) => {
                listed.works();
                Some(namespace.name_any())
            }
            Ok(Event::InitDone) => {
                listed.done();
                None
            }
            Ok(Event::Init | Event::InitApply(_)) => continue,
            Err(error) => {
                let problem = own::problem(&error, &rule);
                tracing::warn!(kind = NAMESPACE, problem, "watch");
                listed.fail_for_now(problem);
                continue;
            }
        };
        let _ = changes.send(Change { kind: NAMESPACE, namespace });
    }
}
