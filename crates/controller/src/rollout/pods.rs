//! Pods as rollouts see them, and their writes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod as PodKind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time as ApiTime};
use kube::core::ApiResource;
use kube::{Api, Client};
use pillion_kubernetes::time::Timestamp;
use pillion_rollout::pod::{Metadata, Pod, Spec, Status, Time};
use pillion_rollout::upgradable;

use crate::store::{Facets, Projection, Slim};

/// The fields that are read from a Pod.
pub(super) type PodObject = Slim<Spec, Status>;

/// A Pod that was injected with SidecarSets.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct InjectedPod(pub(super) Pod);

impl InjectedPod {
    /// Returns the Pod; `None` if it was injected with no SidecarSet.
    pub(super) fn of(object: PodObject) -> Option<Self> {
        let PodObject { metadata, spec, status } = object;
        let pod = Pod::new(read(metadata), spec, status);
        let is_injected = pod.injected().next().is_some() || pod.state.upgradable.is_some();
        is_injected.then_some(Self(pod))
    }
}

impl Projection for InjectedPod {
    fn differences(&self, next: &Self) -> Facets {
        let (before, now) = (&self.0, &next.0);
        let mut facets = Facets::empty();
        facets.set(
            Facets::CONTENT,
            !is_alike(&before.metadata, &now.metadata)
                || (before.is_assigned, &before.containers, &before.natives)
                    != (now.is_assigned, &now.containers, &now.natives),
        );
        facets.set(Facets::READINESS, before.state != now.state);
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
    } = before;
    (namespace, name, uid, labels, annotations) == (&now.namespace, &now.name, &now.uid, &now.labels, &now.annotations)
        && (creation_timestamp, deletion_timestamp) == (&now.creation_timestamp, &now.deletion_timestamp)
}

/// Returns the API of all Pods.
pub(super) fn all(client: &Client) -> Api<PodObject> {
    Api::all_with(client.clone(), &ApiResource::erase::<PodKind>(&()))
}

/// Returns the API of the Pods of a namespace.
pub(super) fn of_namespace(client: &Client, namespace: &str) -> Api<PodObject> {
    Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<PodKind>(&()))
}

fn read(metadata: ObjectMeta) -> Metadata {
    let time = |time: ApiTime| Time(Timestamp(time.0.as_second()));
    Metadata {
        namespace: metadata.namespace.unwrap_or_default(),
        name: metadata.name.unwrap_or_default(),
        uid: metadata.uid.unwrap_or_default(),
        resource_version: metadata.resource_version.unwrap_or_default(),
        labels: metadata.labels.unwrap_or_default(),
        annotations: metadata.annotations.unwrap_or_default(),
        creation_timestamp: metadata.creation_timestamp.map(time),
        deletion_timestamp: metadata.deletion_timestamp.map(time),
    }
}
