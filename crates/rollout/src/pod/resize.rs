//! What a Pod says about its resizes (ROLL-65): the annotation with those that have begun, the kubelet's conditions, and
//! the cpu and memory of containers.

use std::collections::BTreeMap;

use pillion_kubernetes::nullable;
use pillion_kubernetes::quantity::Quantity;
use serde::{Deserialize, Serialize};

use super::condition::{Condition, Time};

/// The annotation with the resizes of a Pod that have begun: an object keyed by the names of SidecarSets.
pub const STATE: &str = "pillion.dev/sidecarset-resize-state";
/// A resize that has begun.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Begun {
    /// The hash of the version that the Pod is to have.
    #[serde(deserialize_with = "nullable::or_default")]
    pub hash: String,
    /// The first generation of the Pod at which a condition is about this resize.
    #[serde(deserialize_with = "nullable::or_default")]
    pub generation: i64,
    /// Why the API server refuses the resize, or why its amounts cannot be computed; empty if neither is so.
    #[serde(deserialize_with = "nullable::or_default", skip_serializing_if = "String::is_empty")]
    pub refused: String,
    /// The digest of the amounts of the Pod's own containers for which the refusal holds (ROLL-70); empty if the resize is
    /// that of a new version.
    #[serde(deserialize_with = "nullable::or_default", skip_serializing_if = "String::is_empty")]
    pub amounts: String,
}

/// Returns the key of the record that a resize which follows the app was refused (ROLL-70). No SidecarSet has this name,
/// so versions of Pillion that know nothing of it take no notice.
pub(crate) fn key_of_follower(sidecar_set: &str) -> String {
    format!("{sidecar_set}/follows")
}

/// The version of a Pod and the amounts of its own containers for which its sidecars were looked at (ROLL-70). They are not
/// looked at again for the same ones: whoever changes the sidecars afterwards means it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The hash of the version.
    pub hash: String,
    /// The digest of the amounts.
    pub amounts: String,
}

/// Reads the annotation. One that cannot be read is empty.
pub(crate) fn read(text: &str) -> BTreeMap<String, Begun> {
    serde_json::from_str(text).unwrap_or_default()
}

/// What the kubelet says about a resize of a Pod: the conditions `PodResizePending` and `PodResizeInProgress`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResizeConditions {
    /// The condition `PodResizePending`, if it is true.
    pub pending: Option<Box<Pending>>,
    /// The condition `PodResizeInProgress`, if it is true: the kubelet has accepted the resize and carries it out.
    pub in_progress: Option<Box<InProgress>>,
}

/// A resize that the kubelet carries out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InProgress {
    /// The kubelet's text, if it failed and is tried again (`Error`).
    pub error: Option<String>,
    /// Since when the condition is true.
    pub since: Option<Time>,
}

/// A resize that the kubelet has not begun.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Whether the resize can never be carried out on this node (`Infeasible`); otherwise it waits (`Deferred`).
    pub is_infeasible: bool,
    /// The generation of the Pod that the kubelet has judged; `None` if it does not say.
    pub generation: Option<i64>,
    /// The kubelet's text.
    pub message: String,
}

impl ResizeConditions {
    /// Takes a condition of the Pod into account.
    pub(crate) fn see(&mut self, condition: Condition) {
        if condition.status != "True" {
            return;
        }
        match condition.type_.as_str() {
            "PodResizePending" => {
                let generation = condition.observed_generation.filter(|generation| *generation > 0);
                let is_infeasible = condition.reason == "Infeasible";
                self.pending = Some(Box::new(Pending { is_infeasible, generation, message: condition.message }));
            }
            "PodResizeInProgress" => {
                let error = (condition.reason == "Error").then_some(condition.message);
                self.in_progress = Some(Box::new(InProgress { error, since: condition.last_transition_time }));
            }
            _ => {}
        }
    }
}

/// Cpu and memory of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Resources {
    #[serde(deserialize_with = "nullable::or_default")]
    limits: Amounts,
    #[serde(deserialize_with = "nullable::or_default")]
    requests: Amounts,
}

/// Amounts of both resources, as they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(default)]
struct Amounts {
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<String>,
}

impl Resources {
    fn amounts(&self) -> [Option<&str>; 4] {
        [&self.limits, &self.requests]
            .map(|list| [list.cpu.as_deref(), list.memory.as_deref()])
            .as_flattened()
            .try_into()
            .unwrap_or_default()
    }

    /// Whether these amounts are in others, too.
    pub(crate) fn are_in(&self, others: Option<&Self>) -> bool {
        let others = others.map(Self::amounts).unwrap_or_default();
        self.amounts().into_iter().zip(others).all(|(wanted, other)| {
            wanted.is_none_or(|wanted| other.is_some_and(|other| other == wanted || are_equal(wanted, other)))
        })
    }
}

fn are_equal(one: &str, other: &str) -> bool {
    Quantity::parse(one).is_ok_and(|one| Quantity::parse(other).is_ok_and(|other| one == other))
}
