//! How a Pod of a SidecarSet gets the version that is rolled out (ROLL-30, ROLL-60).

use std::collections::BTreeMap;
use std::sync::OnceLock;

use pillion_kubernetes::json;
use pillion_sidecarset::hash::revision_data;
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::upgrades::NATIVE_UPGRADE;
use serde_json::Value;
use thiserror::Error;

use crate::difference::{Difference, Reach, differences};
use crate::history::Revision;

/// How a Pod gets the version. The order is that of the disruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UpgradeMethod {
    /// Images change in the running Pod.
    InPlace,
    /// Cpu and memory change in the running Pod, then images.
    Resize,
    /// The Pod is evicted, and its controller creates another one.
    Recreate,
}

/// Why a Pod does not get the version.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Obstacle {
    /// No upgrade policy covers the fields that differ.
    #[error("more than images has changed: {}", listed(.fields))]
    MoreThanImages {
        /// The paths of the fields, below `spec`.
        fields: Vec<String>,
    },
    /// Its sidecars are native (NAT-5), and the SidecarSet does not ask for upgrades of native sidecars.
    #[error("its sidecars are native; set annotation {NATIVE_UPGRADE} to \"true\" to upgrade them in place")]
    NativeSidecars,
    /// The API server refuses the resize, or a `resourcesPolicy` cannot be computed for the Pod.
    #[error("its resize is refused: {problem}")]
    ResizeRefused {
        /// The text of the API server or of the `resourcesPolicy`.
        problem: String,
    },
    /// The kubelet calls the resize infeasible.
    #[error("its resize is infeasible: {problem}")]
    ResizeInfeasible {
        /// The kubelet's text.
        problem: String,
    },
    /// The resize has begun, but the policy does not allow it any more.
    #[error("its resize has begun, but upgrade policy Resize is not listed any more; list it again, or delete the Pod")]
    ResizeNotAllowed,
    /// The version of the Pod is not stored any more.
    #[error("the version with which it was created is not stored any more")]
    UnknownVersion,
    /// No controller creates the Pod anew.
    #[error("no controller creates it anew")]
    NoController,
    /// Its controller is not one that creates the Pod anew.
    #[error("its controller is of kind {kind}, which is not known to create the Pod anew without a loss")]
    OtherController {
        /// The kind of the controller.
        kind: String,
    },
    /// The kubelet of a node created the Pod from a file.
    #[error("it is a static Pod, which no eviction recreates")]
    StaticPod,
    /// The Pod is in one of `serviceAccounts.protectedNamespaces` of the settings.
    #[error("its namespace is in serviceAccounts.protectedNamespaces of the settings, where no Pod is evicted")]
    ProtectedNamespace,
    /// The Pod was created while the version was in force (ROLL-68).
    #[error("it was created after the version came into force, and does not have it")]
    NewPodLacksVersion,
    /// A Pod that replaces it would not get the version (ROLL-67).
    #[error("{why}")]
    NotInjected {
        /// The reason, without a full stop.
        why: String,
    },
}

/// The most fields that a message names.
const SHOWN: usize = 4;

fn listed(fields: &[String]) -> String {
    let shown = fields.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match fields.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The stored versions of a SidecarSet, and what differs between each of them and the one that is rolled out. They are
/// compared when a Pod needs it for the first time: few rollouts change more than images.
#[derive(Clone, Debug, Default)]
pub struct Versions<'a> {
    target: Option<&'a SidecarSet>,
    revisions: Vec<&'a Revision>,
    compared: OnceLock<BTreeMap<String, Vec<Difference>>>,
}

impl<'a> Versions<'a> {
    /// Returns the stored revisions of a SidecarSet, ascending, to be compared with the version that is rolled out. Of
    /// revisions with the same hash, the newest counts.
    pub fn new(target: &'a SidecarSet, revisions: Vec<&'a Revision>) -> Self {
        Self { target: Some(target), revisions, compared: OnceLock::new() }
    }

    /// Returns the stored revisions, ascending.
    pub fn stored(&self) -> impl Iterator<Item = &'a Revision> {
        self.revisions.iter().copied()
    }

    /// Returns the newest stored revision with this hash.
    pub fn with_hash(&self, hash: &str) -> Option<&'a Revision> {
        self.revisions.iter().rev().copied().find(|revision| revision.head.annotation(names::HASH) == hash)
    }

    fn compared(&self) -> &BTreeMap<String, Vec<Difference>> {
        self.compared.get_or_init(|| {
            let read = |text: &str| json::parse(text.as_bytes()).unwrap_or(Value::Null);
            let spec = self.target.and_then(|target| target.spec(&[])).unwrap_or(&Value::Null);
            let target = read(&revision_data(spec));
            let compare = |revision: &&Revision| {
                (revision.head.annotation(names::HASH).to_owned(), differences(&read(&revision.data), &target))
            };
            self.revisions.iter().map(compare).collect()
        })
    }

    /// Returns the differences from the version with this hash; `None` if it is not stored.
    pub fn differences(&self, hash: &str) -> Option<&[Difference]> {
        self.compared().get(hash).map(Vec::as_slice)
    }

    /// Returns what it takes to bring a Pod with this hash to the version; `None` if the Pod's version is not stored.
    pub fn reach(&self, hash: &str) -> Option<Reach> {
        let reaches = self.differences(hash)?.iter().map(|difference| difference.reach);
        Some(reaches.max().unwrap_or(Reach::NewPods))
    }

    /// Returns the obstacle for a Pod with this hash: the fields that take more than `reach`.
    pub fn obstacle(&self, hash: &str, reach: Reach) -> Obstacle {
        let Some(differences) = self.differences(hash) else { return Obstacle::UnknownVersion };
        let beyond = differences.iter().filter(|difference| difference.reach > reach);
        Obstacle::MoreThanImages { fields: beyond.map(|difference| difference.path.clone()).collect() }
    }
}
