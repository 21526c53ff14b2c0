//! A Pod, reduced to the fields that rollouts depend on. There may be many thousands, so nothing else is kept.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use pillion_inject::records::Records;
use pillion_kubernetes::nullable;
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::names;
use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::Value;

use crate::upgradable;

/// A Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its metadata.
    pub metadata: Metadata,
    /// Whether it is assigned to a node.
    pub is_assigned: bool,
    /// `spec.containers`, in their order.
    pub containers: Vec<Container>,
    /// Its state, as the kubelet reports it.
    pub state: State,
    recorded: Recorded,
}

/// The hash annotations, each read when it is first needed: a round reads those of all Pods of a SidecarSet.
#[derive(Clone, Debug, Default)]
struct Recorded {
    hashes: OnceLock<Records>,
    hashes_without_image: OnceLock<Records>,
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
    #[serde(deserialize_with = "nullable::or_default")]
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    #[serde(deserialize_with = "nullable::or_default")]
    pub annotations: BTreeMap<String, String>,
    /// `metadata.creationTimestamp`.
    pub creation_timestamp: Option<Time>,
    /// `metadata.deletionTimestamp`.
    pub deletion_timestamp: Option<Time>,
    /// The reference of `metadata.ownerReferences` with `controller: true`. Many Pods share one.
    #[serde(rename = "ownerReferences", deserialize_with = "controller")]
    pub owner: Option<Arc<Owner>>,
}

/// The workload that creates and replaces a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
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

fn controller<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<Owner>>, D::Error> {
    let owners = Option::<Vec<Owner>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(owners.into_iter().find(|owner| owner.is_controller).map(Arc::new))
}

/// A time as text of RFC 3339. One that cannot be read is the zero time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "String")]
pub struct Time(pub Timestamp);

impl From<String> for Time {
    fn from(text: String) -> Self {
        Self(Timestamp::parse(&text).unwrap_or_default())
    }
}

/// The `spec` of a Pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    #[serde(deserialize_with = "nullable::or_default")]
    node_name: String,
    #[serde(deserialize_with = "nullable::or_default")]
    containers: Vec<Container>,
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Container {
    /// `name`.
    #[serde(deserialize_with = "nullable::or_default")]
    pub name: String,
    /// `image`.
    #[serde(deserialize_with = "nullable::or_default")]
    pub image: String,
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
}

/// A condition of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// `type`.
    #[serde(rename = "type", deserialize_with = "nullable::or_default")]
    pub type_: String,
    /// `status`.
    #[serde(deserialize_with = "nullable::or_default")]
    pub status: String,
    /// `reason`.
    #[serde(deserialize_with = "nullable::or_default")]
    pub reason: String,
    /// `message`.
    #[serde(deserialize_with = "nullable::or_default")]
    pub message: String,
    /// `lastTransitionTime`.
    pub last_transition_time: Option<Time>,
}

/// The status of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// The name of the container.
    #[serde(deserialize_with = "nullable::or_default")]
    pub name: String,
    /// The image that it runs.
    #[serde(deserialize_with = "nullable::or_default")]
    pub image: String,
    /// The id of that image, as the container runtime has it.
    #[serde(rename = "imageID", deserialize_with = "nullable::or_default")]
    pub image_id: String,
    /// Whether it is ready.
    #[serde(rename = "ready", deserialize_with = "nullable::or_default")]
    pub is_ready: bool,
    /// How often it was started again.
    #[serde(rename = "restartCount", deserialize_with = "nullable::or_default")]
    pub restarts: i64,
}

/// The state of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The phase.
    pub phase: Phase,
    /// Whether the condition `Ready` is true.
    pub is_ready: bool,
    /// Since when, if it is true and has a time.
    pub ready_since: Option<Time>,
    /// `status.containerStatuses`.
    pub containers: Vec<ContainerStatus>,
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
    fn of(text: &str) -> Self {
        match text {
            "Unknown" => Self::Unknown,
            "Running" => Self::Running,
            "Succeeded" | "Failed" => Self::Ended,
            _ => Self::Pending,
        }
    }
}

impl From<Status> for State {
    fn from(status: Status) -> Self {
        let Status { phase, conditions, container_statuses: containers } = status;
        let has_conditions = conditions.is_some();
        let mut state = Self { phase: Phase::of(&phase), containers, has_conditions, ..Self::default() };
        for (index, condition) in conditions.into_iter().flatten().enumerate() {
            if condition.type_ == "Ready" && condition.status == "True" {
                (state.is_ready, state.ready_since) = (true, condition.last_transition_time);
            } else if condition.type_ == upgradable::CONDITION {
                state.upgradable = Some((index, condition));
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
        let Spec { node_name, containers } = spec;
        let state = status.map(State::from).unwrap_or_default();
        Self { metadata, is_assigned: !node_name.is_empty(), containers, state, recorded: Recorded::default() }
    }

    /// Whether the Pod has not ended and is not being deleted.
    pub fn is_active(&self) -> bool {
        self.state.phase != Phase::Ended && self.metadata.deletion_timestamp.is_none()
    }

    /// Returns an annotation; `""` if it is absent.
    pub fn annotation(&self, key: &str) -> &str {
        self.metadata.annotations.get(key).map(String::as_str).unwrap_or_default()
    }

    /// Returns the records with the hashes of its SidecarSets (INJ-28). An annotation that cannot be read has none.
    pub fn records(&self) -> &Records {
        let read = || Records::parse(self.annotation(names::HASH)).unwrap_or_default();
        self.recorded.hashes.get_or_init(read)
    }

    /// Returns the records with the hashes that leave out the images. An annotation that cannot be read has none.
    pub fn records_without_image(&self) -> &Records {
        let read = || Records::parse(self.annotation(names::HASH_WITHOUT_IMAGE)).unwrap_or_default();
        self.recorded.hashes_without_image.get_or_init(read)
    }

    /// Returns a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.get(key).map(String::as_str)
    }

    /// Returns a container and its position.
    pub fn container(&self, name: &str) -> Option<(usize, &Container)> {
        self.containers.iter().enumerate().find(|(_, container)| container.name == name)
    }

    /// Returns the status of a container.
    pub fn status(&self, container: &str) -> Option<&ContainerStatus> {
        self.state.containers.iter().find(|status| status.name == container)
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
