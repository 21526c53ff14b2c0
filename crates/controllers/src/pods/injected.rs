//! Pods as rollouts see them, and their writes.

use std::collections::BTreeSet;

use internment::ArcIntern;
use k8s_openapi::api::core::v1::Pod as PodKind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time as ApiTime};
use kube::core::ApiResource;
use kube::{Api, Client};
use pillion_kubernetes::time::Timestamp;
use pillion_rollout::pod::{Metadata, Owner, Pod, Spec, Status, Time};
use pillion_rollout::upgradable;
use pillion_runtime::store::{Facets, Projection, Slim};

/// The fields that are read from a Pod.
pub(crate) type PodObject = Slim<Spec, Status>;

/// A Pod that was injected with SidecarSets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InjectedPod(pub(crate) Pod);

impl InjectedPod {
    /// The facets that can differ.
    pub(crate) const FACETS: Facets = Facets::CONTENT.union(Facets::READINESS).union(Facets::RESOURCES);

    /// Returns the Pod; `None` if it was injected with no SidecarSet.
    pub(crate) fn from_object(object: PodObject) -> Option<Self> {
        let PodObject { metadata, spec, status } = object;
        let pod = Pod::new(read(metadata), spec, status);
        let is_injected = pod.injected().next().is_some() || pod.state.upgradable.is_some();
        is_injected.then_some(Self(pod))
    }

    /// Returns the Pod if it has not ended, has a controller that creates it anew, and was not injected with a SidecarSet
    /// (ROLL-67).
    pub(crate) fn lacking(object: PodObject, sidecar_set: &str) -> Option<Self> {
        let PodObject { metadata, spec, status } = object;
        let mut pod = Pod::new(read(metadata), spec, status);
        // Nothing asks for these: the Pod has no sidecar that could follow.
        pod.amounts = ArcIntern::default();
        let is_lacking = pod.is_recreated() && pod.is_active() && pod.injected().all(|name| name != sidecar_set);
        is_lacking.then_some(Self(pod))
    }
}

impl Projection for InjectedPod {
    fn differences(&self, next: &Self) -> Facets {
        let (before, now) = (&self.0, &next.0);
        let mut facets = Facets::empty();
        facets.set(
            Facets::CONTENT,
            !is_alike(&before.metadata, &now.metadata)
                || (&before.node, &before.containers, &before.natives) != (&now.node, &now.containers, &now.natives),
        );
        facets.set(Facets::READINESS, before.state != now.state);
        facets.set(Facets::RESOURCES, before.amounts != now.amounts);
        facets
    }

    /// The SidecarSets with which the Pod was injected, and those that its condition names.
    fn groups(&self) -> BTreeSet<String> {
        let of_condition = upgradable::read(&self.0).unwrap_or_default().into_keys();
        self.0.injected().map(str::to_owned).chain(of_condition).collect()
    }
}

/// Whether the metadata of two versions of a Pod differs in nothing but the resource version.
fn is_alike(before: &Metadata, now: &Metadata) -> bool {
    let Metadata {
        namespace,
        name,
        uid,
        resource_version: _,
        labels,
        annotations,
        creation_timestamp,
        deletion_timestamp,
        owner,
    } = before;
    (namespace, name, uid, labels, annotations) == (&now.namespace, &now.name, &now.uid, &now.labels, &now.annotations)
        && (creation_timestamp, deletion_timestamp, owner)
            == (&now.creation_timestamp, &now.deletion_timestamp, &now.owner)
}

/// Returns the API of all Pods.
pub(crate) fn all(client: &Client) -> Api<PodObject> {
    Api::all_with(client.clone(), &ApiResource::erase::<PodKind>(&()))
}

/// Returns the API of the Pods of a namespace.
pub(crate) fn of_namespace(client: &Client, namespace: &str) -> Api<PodObject> {
    Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<PodKind>(&()))
}

fn read(metadata: ObjectMeta) -> Metadata {
    let time = |time: ApiTime| Time(Timestamp(time.0.as_second()));
    Metadata {
        namespace: metadata.namespace.unwrap_or_default(),
        name: metadata.name.unwrap_or_default(),
        uid: metadata.uid.unwrap_or_default(),
        resource_version: metadata.resource_version.unwrap_or_default(),
        labels: metadata.labels.unwrap_or_default().into(),
        annotations: metadata.annotations.unwrap_or_default().into(),
        creation_timestamp: metadata.creation_timestamp.map(time),
        deletion_timestamp: metadata.deletion_timestamp.map(time),
        owner: metadata.owner_references.into_iter().flatten().find(|owner| owner.controller == Some(true)).map(owner),
    }
}

/// Returns the controller of a Pod. The Pods of a workload share one.
fn owner(reference: OwnerReference) -> ArcIntern<Owner> {
    let OwnerReference { api_version, kind, name, uid, .. } = reference;
    ArcIntern::new(Owner { api_version, kind, name, uid, is_controller: true })
}
