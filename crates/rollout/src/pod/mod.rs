//! A Pod, reduced to the fields that rollouts depend on. There may be many thousands, so nothing else is kept.

pub mod amounts;
pub mod condition;
pub mod container_status;
pub(crate) mod in_place;
pub mod resize;
pub mod texts;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use internment::ArcIntern;
use pillion_inject::records::Records;
use pillion_kubernetes::nullable;
use pillion_plan::pod_fields;
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar::List;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use self::amounts::{Amounts, OfContainer};
pub use self::condition::{Condition, Time, UPGRADABLE};
pub use self::container_status::{ContainerState, ContainerStatus, Trouble};
use self::in_place::InPlace;
use self::resize::{Begun, ResizeConditions, Resources};
pub use self::texts::Texts;

/// A Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its metadata.
    pub metadata: Metadata,
    /// The node that it is assigned to; empty if there is none yet.
    pub node: String,
    /// `spec.containers`, in their order. Many Pods share one list.
    pub containers: ArcIntern<Vec<Container>>,
    /// The native sidecars that were injected.
    pub natives: Vec<Native>,
    /// Cpu and memory of its containers and native sidecars. Many Pods share them.
    pub amounts: ArcIntern<Amounts>,
    /// Whether it ends: its `restartPolicy` is `Never` or `OnFailure`.
    pub ends: bool,
    /// Its state, as the kubelet reports it.
    pub state: PodState,
    recorded: Recorded,
}

/// The hash annotations, each read when it is first needed: a round reads those of all Pods of a SidecarSet. Pods that were
/// injected in the same second share them.
#[derive(Clone, Debug, Default)]
struct Recorded {
    hashes: OnceLock<ArcIntern<Records>>,
    hashes_without_image: OnceLock<ArcIntern<Records>>,
    resizes: OnceLock<BTreeMap<String, Begun>>,
    in_place: OnceLock<InPlace>,
}

/// They follow from the annotations, which are compared.
impl PartialEq for Recorded {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Recorded {}

/// The metadata of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// `metadata.namespace`.
    #[serde(deserialize_with = "nullable::or_default")]
    pub namespace: String,
    /// `metadata.name`.
    #[serde(deserialize_with = "nullable::or_default")]
    pub name: String,
    /// `metadata.uid`.
    #[serde(deserialize_with = "nullable::or_default")]
    pub uid: String,
    /// `metadata.resourceVersion`.
    #[serde(deserialize_with = "nullable::or_default")]
    pub resource_version: String,
    /// `metadata.labels`.
    pub labels: Texts,
    /// `metadata.annotations`.
    pub annotations: Texts,
    /// `metadata.creationTimestamp`.
    pub creation_timestamp: Option<Time>,
    /// `metadata.deletionTimestamp`.
    pub deletion_timestamp: Option<Time>,
    /// The reference of `metadata.ownerReferences` with `controller: true`. Many Pods share one.
    #[serde(rename = "ownerReferences", deserialize_with = "controller")]
    pub owner: Option<ArcIntern<Owner>>,
}

/// The workload that creates and replaces a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Owner {
    /// `apps/v1`, `v1`, ...
    #[serde(deserialize_with = "nullable::or_default")]
    pub api_version: String,
    /// `ReplicaSet`, `StatefulSet`, ...
    #[serde(deserialize_with = "nullable::or_default")]
    pub kind: String,
    /// Its name, in the namespace of the Pod.
    #[serde(deserialize_with = "nullable::or_default")]
    pub name: String,
    /// Its `metadata.uid`.
    #[serde(deserialize_with = "nullable::or_default")]
    pub uid: String,
    /// Whether it is the controller of the Pod.
    #[serde(rename = "controller", deserialize_with = "nullable::or_default")]
    pub is_controller: bool,
}

fn controller<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ArcIntern<Owner>>, D::Error> {
    let owners = Option::<Vec<Owner>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(owners.into_iter().find(|owner| owner.is_controller).map(ArcIntern::new))
}

/// The `spec` of a Pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    #[serde(deserialize_with = "nullable::or_default")]
    node_name: String,
    #[serde(deserialize_with = "nullable::or_default")]
    restart_policy: String,
    #[serde(deserialize_with = "nullable::or_default")]
    containers: Vec<Container>,
    #[serde(deserialize_with = "nullable::or_default")]
    init_containers: Vec<Container>,
    service_account_name: Option<String>,
    automount_service_account_token: Option<bool>,
    volumes: Option<Vec<pod_fields::Volume>>,
}

impl Spec {
    /// Returns the fields that decide about identities. No rollout depends on them, and the others stay. Controllers that
    /// read both read each Pod once.
    pub fn take_identity(&mut self) -> pod_fields::PodSpec {
        let taken = |containers: &mut Vec<Container>| {
            let taken = containers.iter_mut().map(|container| pod_fields::Container {
                name: container.name.clone(),
                volume_mounts: container.volume_mounts.take(),
            });
            Some(taken.collect())
        };
        pod_fields::PodSpec {
            init_containers: taken(&mut self.init_containers),
            containers: taken(&mut self.containers),
            service_account_name: self.service_account_name.take(),
            automount_service_account_token: self.automount_service_account_token.take(),
            volumes: self.volumes.take(),
        }
    }
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// `name`.
    #[serde(deserialize_with = "nullable::or_default")]
    pub name: String,
    /// `image`.
    #[serde(deserialize_with = "nullable::or_default")]
    pub image: String,
    /// Whether a SidecarSet has injected it.
    #[serde(rename = "env", deserialize_with = "amounts::is_injected")]
    pub is_injected: bool,
    /// Whether the kubelet restarts it when its cpu or memory changes.
    #[serde(rename = "resizePolicy", deserialize_with = "amounts::restarts")]
    pub restarts: bool,
    /// Whether its own `restartPolicy` is `Always`: an init container is a native sidecar then.
    #[serde(rename = "restartPolicy", deserialize_with = "is_always")]
    is_always: bool,
    /// `resources`, until they are compared with those that the kubelet reports.
    resources: Option<Box<Resources>>,
    /// `volumeMounts`, until the Pod is made of its parts.
    volume_mounts: Option<Vec<pod_fields::Mount>>,
}

fn is_always<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.is_some_and(|policy| policy == "Always"))
}

/// A native sidecar that was injected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Native {
    /// Its position in `spec.initContainers`.
    pub index: usize,
    /// The container.
    pub container: Container,
}

/// Where a container is in a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerPosition {
    /// The list.
    pub list: List,
    /// The position in the list.
    pub index: usize,
}

/// The `status` of a Pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    #[serde(deserialize_with = "nullable::or_default")]
    phase: String,
    conditions: Option<Vec<Condition>>,
    #[serde(deserialize_with = "nullable::or_default")]
    container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "nullable::or_default")]
    init_container_statuses: Vec<ContainerStatus>,
}

/// The state of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodState {
    /// The phase.
    pub phase: Phase,
    /// Whether the condition `Ready` is true.
    pub is_ready: bool,
    /// Since when, if it is true and has a time.
    pub ready_since: Option<Time>,
    /// Since when the condition `Ready` is false, if it is and has a time.
    pub unready_since: Option<Time>,
    /// `status.containerStatuses`.
    pub containers: Vec<ContainerStatus>,
    /// Those of `status.initContainerStatuses` that are about injected native sidecars.
    pub natives: Vec<ContainerStatus>,
    /// What the kubelet says about a resize of the Pod.
    pub resize: ResizeConditions,
    /// The condition `SidecarSetUpgradable`, and its position in `status.conditions`.
    pub upgradable: Option<(usize, Condition)>,
    /// Whether the Pod has a list of conditions.
    pub has_conditions: bool,
}

/// The phase of a Pod. The order is that of ROLL-31.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// `Pending`, and each phase that Kubernetes does not define.
    #[default]
    Pending,
    /// `Unknown`.
    Unknown,
    /// `Running`.
    Running,
    /// `Succeeded` or `Failed`.
    Ended,
}

impl Phase {
    fn parse(text: &str) -> Self {
        match text {
            "Unknown" => Self::Unknown,
            "Running" => Self::Running,
            "Succeeded" | "Failed" => Self::Ended,
            _ => Self::Pending,
        }
    }
}

impl Status {
    /// Returns the phase, as the kubelet writes it.
    pub fn phase(&self) -> &str {
        &self.phase
    }
}

impl From<Status> for PodState {
    fn from(status: Status) -> Self {
        let Status { phase, conditions, container_statuses: containers, init_container_statuses: natives } = status;
        let has_conditions = conditions.is_some();
        let mut state = Self { phase: Phase::parse(&phase), containers, natives, has_conditions, ..Self::default() };
        for (index, condition) in conditions.into_iter().flatten().enumerate() {
            if condition.type_ == "Ready" && condition.status == "True" {
                (state.is_ready, state.ready_since) = (true, condition.last_transition_time);
            } else if condition.type_ == "Ready" {
                state.unready_since = condition.last_transition_time;
            } else if condition.type_ == UPGRADABLE {
                state.upgradable = Some((index, condition));
            } else {
                state.resize.see(condition);
            }
        }
        state
    }
}

/// The fields of a Pod that are read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    metadata: Metadata,
    spec: Spec,
    status: Option<Status>,
}

impl Pod {
    /// Reads a Pod.
    ///
    /// # Errors
    /// A field has another type than in core/v1.
    pub fn decode(object: &Value) -> Result<Self, serde_json::Error> {
        let Object { metadata, spec, status } = Object::deserialize(object)?;
        Ok(Self::new(metadata, spec, status))
    }

    /// Returns a Pod of its parts.
    pub fn new(metadata: Metadata, spec: Spec, status: Option<Status>) -> Self {
        let Spec { node_name, restart_policy, mut containers, mut init_containers, .. } = spec;
        for container in containers.iter_mut().chain(&mut init_containers) {
            container.volume_mounts = None;
        }
        let ends = matches!(restart_policy.as_str(), "Never" | "OnFailure");
        let mut state = status.map(PodState::from).unwrap_or_default();
        let amounts = ArcIntern::new(amounts(&containers, &init_containers));
        let mut natives: Vec<Native> =
            init_containers.into_iter().enumerate().filter_map(Native::from_init_container).collect();
        state.natives.retain(|status| natives.iter().any(|native| native.container.name == status.name));
        let of_natives = natives.iter_mut().map(|native| &mut native.container);
        compare_resources(containers.iter_mut(), &mut state.containers);
        compare_resources(of_natives, &mut state.natives);
        let containers = ArcIntern::new(containers);
        Self { metadata, node: node_name, containers, natives, amounts, ends, state, recorded: Recorded::default() }
    }

    /// Whether the Pod has not ended and is not being deleted.
    pub fn is_active(&self) -> bool {
        self.state.phase != Phase::Ended && self.metadata.deletion_timestamp.is_none()
    }

    /// Returns an annotation; `""` if it is absent.
    pub fn annotation(&self, key: &str) -> &str {
        self.metadata.annotations.get(key).unwrap_or_default()
    }

    /// Returns the records with the hashes of its SidecarSets (INJ-28). An annotation that cannot be read has none.
    pub fn records(&self) -> &Records {
        let read = || ArcIntern::new(Records::parse(self.annotation(names::HASH)).unwrap_or_default());
        self.recorded.hashes.get_or_init(read)
    }

    /// Returns the records with the hashes that leave out the images. An annotation that cannot be read has none.
    pub fn records_without_image(&self) -> &Records {
        let read = || ArcIntern::new(Records::parse(self.annotation(names::HASH_WITHOUT_IMAGE)).unwrap_or_default());
        self.recorded.hashes_without_image.get_or_init(read)
    }

    /// Returns a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.get(key)
    }

    /// Returns what the Pod records about upgrades of its images (ROLL-20, ROLL-42).
    pub(crate) fn in_place(&self) -> &InPlace {
        self.recorded.in_place.get_or_init(|| InPlace::parse(&self.metadata.annotations))
    }

    /// Returns the resizes that have begun and are not complete, by SidecarSet (ROLL-65).
    pub fn resizes(&self) -> &BTreeMap<String, Begun> {
        self.recorded.resizes.get_or_init(|| resize::read(self.annotation(resize::STATE)))
    }

    /// Returns a container or an injected native sidecar, and where it is.
    pub fn container(&self, name: &str) -> Option<(ContainerPosition, &Container)> {
        let at = |list, index, container| (ContainerPosition { list, index }, container);
        let containers = self.containers.iter().enumerate();
        let natives = self.natives.iter().map(|native| at(List::Init, native.index, &native.container));
        let mut all = containers.map(|(index, container)| at(List::Containers, index, container)).chain(natives);
        all.find(|(_, container)| container.name == name)
    }

    /// Returns the container at a place.
    pub fn at(&self, place: ContainerPosition) -> Option<&Container> {
        match place.list {
            List::Containers => self.containers.get(place.index),
            List::Init => {
                self.natives.iter().find(|native| native.index == place.index).map(|native| &native.container)
            }
        }
    }

    /// Returns the status of a container or an injected native sidecar.
    pub fn status(&self, container: &str) -> Option<&ContainerStatus> {
        self.state.containers.iter().chain(&self.state.natives).find(|status| status.name == container)
    }

    /// Returns the `metadata.uid` of its controller.
    pub fn owner_uid(&self) -> Option<&str> {
        self.metadata.owner.as_deref().map(|owner| owner.uid.as_str())
    }

    /// Returns the SidecarSets of its injected list.
    pub fn injected(&self) -> impl Iterator<Item = &str> {
        self.annotation(names::INJECTED_LIST).split(',').filter(|name| !name.is_empty())
    }
}

impl Native {
    fn from_init_container((index, container): (usize, Container)) -> Option<Self> {
        (container.is_always && container.is_injected).then_some(Self { index, container })
    }
}

/// Returns cpu and memory of the containers and native sidecars of a Pod.
fn amounts(containers: &[Container], init_containers: &[Container]) -> Amounts {
    let natives = init_containers.iter().filter(|container| container.is_always).map(|it| (List::Init, it));
    let all = natives.chain(containers.iter().map(|it| (List::Containers, it)));
    all.map(|(list, container)| OfContainer {
        list,
        name: container.name.clone(),
        is_injected: container.is_injected,
        restarts: container.restarts,
        resources: container.resources.as_deref().cloned(),
    })
    .collect()
}

/// Compares the cpu and memory of containers with those in their statuses, and keeps the result alone.
fn compare_resources<'a>(containers: impl Iterator<Item = &'a mut Container>, statuses: &mut [ContainerStatus]) {
    for container in containers {
        let wanted = container.resources.take();
        if let Some(status) = statuses.iter_mut().find(|status| status.name == container.name) {
            let reported = status.resources.take();
            status.has_resources = wanted.is_none_or(|wanted| wanted.are_in(reported.as_deref()));
        }
    }
    for status in statuses {
        status.resources = None;
    }
}
