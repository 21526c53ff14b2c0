//! What is seen of the cluster: by watches that list in pages, and of each object only what controllers need.
//!
//! [`Cluster`] has what several controllers look at. What only one looks at it watches itself, with [`Cluster::keep`].

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

impl Wanted {
    /// Everything.
    pub const ALL: Self = Self { sidecar_sets: true, subjects: true };
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
    /// The SidecarSets of the bundle that this process keeps.
    pub bundled: Bundled,
    /// How far the Namespaces have come.
    listed: Progress,
    registry: Registry,
    changes: Changes,
    _tasks: JoinSet<()>,
}

impl Cluster {
    /// Starts to watch Namespaces, and what else is wanted; of the rest there is nothing. It ends when this is dropped.
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

    /// Changes from now on.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// Where watches of a controller's own say what they saw, so that it has all changes in one place.
    pub fn notify(&self) -> Changes {
        self.changes.clone()
    }

    /// Waits until what is in here was listed once: before that, nothing may be concluded from what is not there.
    pub async fn listed(&self) {
        self.listed.complete().await;
        self.sidecar_sets.listed().await;
        self.pods.listed().await;
        for workloads in &self.workloads {
            workloads.listed().await;
        }
    }

    /// The Pods of a namespace, and those that workloads there will make.
    pub fn subjects(&self, namespace: &str) -> Vec<Arc<Subject>> {
        let workloads = self.workloads.iter().flat_map(|kept| kept.of(namespace));
        self.pods.of(namespace).into_iter().chain(workloads).collect()
    }

    /// Which watches have not shown everything yet, or show nothing any more: these, and those of controllers' own.
    pub fn report(&self) -> Report {
        self.registry.report()
    }

    /// The watches that show nothing, each with the reason.
    pub fn failures(&self) -> Vec<String> {
        self.registry.failures()
    }
}

/// The phase of a Namespace (`status.phase`), or `""` where it has none yet.
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
