//! The Pods of the cluster, which the controllers read once for all of them: the identities that they need, and how far
//! rollouts are.

pub(crate) mod injected;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use k8s_openapi::api::core::v1::Pod as PodKind;
use kube::Api;
use kube::core::ApiResource;
use pillion_rollout::pod::Status;
use pillion_runtime::context::Context;
use pillion_runtime::store::{Facets, PodObject as IdentityObject, Projection, Store, Subject, Table, Watch, Watched};
use pillion_runtime::wakes::{Wakes, its_namespace};

use self::injected::{InjectedPod, PodObject};

const POD: &str = "Pod";

/// A Pod as controllers see it.
#[derive(Clone, Debug)]
pub(crate) struct KnownPod {
    /// The fields of the Pod that decide about its identities.
    pub(crate) subject: Arc<Subject>,
    /// The fields of the Pod that rollouts read. `None` if no SidecarSet was injected, or if no rollouts run.
    pub(crate) injected: Option<Arc<InjectedPod>>,
}

impl KnownPod {
    /// Reads the part for identities. `earlier` is an earlier version of the Pod.
    fn for_identities(object: &IdentityObject, earlier: Option<&Self>) -> Self {
        Self { subject: Subject::of_pod(object, earlier.map(|earlier| &earlier.subject)), injected: None }
    }

    /// Reads both parts.
    fn for_rollouts(mut object: PodObject, earlier: Option<&Self>) -> Self {
        let identity = object.spec.take_identity();
        let phase = object.status.as_ref().map(Status::phase).unwrap_or_default();
        let earlier = earlier.map(|earlier| &earlier.subject);
        let subject = Subject::of_parts(&object.metadata, &identity, phase, earlier);
        Self { subject, injected: InjectedPod::from_object(object).map(Arc::new) }
    }
}

impl Projection for KnownPod {
    fn differences(&self, next: &Self) -> Facets {
        let of_rollouts = match (&self.injected, &next.injected) {
            (None, None) => Facets::empty(),
            (Some(before), Some(now)) => before.differences(now),
            _ => InjectedPod::FACETS,
        };
        self.subject.differences(&next.subject) | of_rollouts
    }

    fn groups(&self) -> BTreeSet<String> {
        self.injected.as_ref().map(|injected| injected.groups()).unwrap_or_default()
    }
}

/// The Pods of the cluster.
pub(crate) struct Pods(Watched<KnownPod>);

/// The Pods that the controllers of a process share. There is one watch of them if whoever runs the controllers says first
/// that there are rollouts ([`of_rollouts`]).
#[derive(Default)]
struct SharedPods {
    for_identities: OnceLock<Arc<Pods>>,
    for_rollouts: OnceLock<Arc<Pods>>,
}

/// Returns the Pods for controllers of identities.
///
/// # Panics
/// Outside a tokio runtime.
pub(crate) fn of_identities(context: &Context) -> Arc<Pods> {
    let shared = context.store.shared(SharedPods::default);
    let known = shared.for_rollouts.get().unwrap_or_else(|| {
        shared.for_identities.get_or_init(|| {
            let api = Api::<IdentityObject>::all_with(context.client.clone(), &ApiResource::erase::<PodKind>(&()));
            let see = |object: IdentityObject, earlier: Option<&_>| Some(KnownPod::for_identities(&object, earlier));
            Arc::new(Pods(context.store.keep_shared_with_earlier(Watch::new(api, POD), see)))
        })
    });
    Arc::clone(known)
}

/// Returns the Pods with what rollouts depend on.
///
/// # Panics
/// Outside a tokio runtime.
pub(crate) fn of_rollouts(context: &Context) -> Arc<Pods> {
    let shared = context.store.shared(SharedPods::default);
    let known = shared.for_rollouts.get_or_init(|| {
        let see = |object, earlier: Option<&_>| Some(KnownPod::for_rollouts(object, earlier));
        let watch = Watch::new(injected::all(&context.client), POD);
        Arc::new(Pods(context.store.keep_shared_with_earlier(watch, see)))
    });
    Arc::clone(known)
}

impl Pods {
    /// Returns all Pods, for those that wait for changes.
    pub(crate) fn table(&self) -> &Table<KnownPod> {
        &self.0
    }

    /// Wakes a namespace when a Pod in it, or a workload, may need other identities.
    pub(crate) fn wake_for_identities(&self, store: &Store, wakes: &Wakes<String>) {
        wakes.on(&self.0, Facets::IDENTITY, its_namespace);
        for workloads in store.workloads() {
            wakes.on(workloads, Facets::IDENTITY, its_namespace);
        }
    }

    /// Waits until the Pods and the workloads were listed.
    pub(crate) async fn subjects_listed(&self, store: &Store) {
        self.0.listed().await;
        for workloads in store.workloads() {
            workloads.listed().await;
        }
    }

    /// Returns the Pods of a namespace, and those that its workloads will create.
    pub(crate) fn subjects(&self, store: &Store, namespace: &str) -> Vec<Arc<Subject>> {
        let pods = self.0.in_namespace(namespace);
        let pods = pods.iter().map(|pod| Arc::clone(&pod.subject));
        pods.chain(store.workloads().iter().flat_map(|kept| kept.in_namespace(namespace))).collect()
    }

    /// Returns a Pod that was injected.
    pub(crate) fn injected(&self, namespace: &str, name: &str) -> Option<Arc<InjectedPod>> {
        self.0.get(namespace, name)?.injected.clone()
    }

    /// Returns the Pods that were injected with a SidecarSet or whose condition names it, sorted by namespace and name.
    pub(crate) fn group(&self, sidecar_set: &str) -> Vec<Arc<InjectedPod>> {
        self.0.group(sidecar_set).iter().filter_map(|pod| pod.injected.clone()).collect()
    }

    /// Returns the names of the SidecarSets for which there are such Pods, ascending.
    pub(crate) fn groups(&self) -> Vec<String> {
        self.0.groups()
    }
}
