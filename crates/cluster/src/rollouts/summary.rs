//! A SidecarSet in one row: what its status and its spec tell.

use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_rollout::counts::Counts;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::decode::decode;
use pillion_sidecarset::upgrades::{RolloutSettings, Upgrades};
use serde::Serialize;
use serde_json::{Value, json};

use super::standing::{self, RolloutState, Standing};

/// The numbers of Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Numbers {
    /// All Pods of the SidecarSet.
    pub matched_pods: usize,
    /// Those with the version that is rolled out.
    pub updated_pods: usize,
    /// Those that are ready.
    pub ready_pods: usize,
    /// Those that are both.
    pub updated_ready_pods: usize,
}

impl From<Counts> for Numbers {
    fn from(counts: Counts) -> Self {
        let Counts { matched, updated, ready, updated_ready, .. } = counts;
        Self { matched_pods: matched, updated_pods: updated, ready_pods: ready, updated_ready_pods: updated_ready }
    }
}

/// `updateStrategy`, with its defaults.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Strategy {
    /// `RollingUpdate` or `NotUpdate`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether the rollout is paused.
    pub paused: bool,
    /// `partition`, as it is written.
    pub partition: Value,
    /// `maxUnavailable`, as it is written.
    pub max_unavailable: Value,
}

/// What a rollout waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitsFor {
    /// The reason, one word.
    pub reason: String,
    /// The reason for people.
    pub message: String,
}

/// A SidecarSet in one row. As JSON: an object with these fields in camel case; the numbers are absent while no
/// controller has written a status.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Its name.
    pub name: String,
    /// When it was created, as RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The numbers of Pods.
    #[serde(flatten)]
    pub pods: Option<Numbers>,
    /// The name of the revision that is in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_revision: Option<String>,
    /// How it is rolled out.
    pub strategy: Strategy,
    /// The upgrade policies: `InPlace`, `Resize`, `Recreate`.
    pub upgrade_policies: Vec<&'static str>,
    /// The progress deadline, as a duration of Go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_deadline: Option<String>,
    /// How far the rollout is.
    pub state: RolloutState,
    /// What it waits for.
    pub waits_for: WaitsFor,
}

impl Summary {
    /// Returns what is known about a SidecarSet of the cluster without its Pods.
    pub fn new(object: &Value, settings: &RolloutSettings) -> Self {
        let text = |path: &[&str]| Some(json::text(object, path).to_owned()).filter(|text| !text.is_empty());
        let field = |key: &str, default: Value| {
            let given = json::at(object, &["spec", "updateStrategy", key]).filter(|value| !value.is_null());
            given.cloned().unwrap_or(default)
        };
        let upgrades =
            decode(object.clone()).map(|decoded| Upgrades::from_sidecar_set(&decoded.into_sidecar_set(), settings).0);
        let upgrades = upgrades.unwrap_or_default();
        let (generation, observed_generation) = standing::generations(object);
        let Standing { state, reason, message } = Standing::from_status(object, settings);
        let policies = [(true, "InPlace"), (upgrades.resize, "Resize"), (upgrades.recreate, "Recreate")];
        Self {
            name: json::text(object, &["metadata", "name"]).to_owned(),
            created_at: text(&["metadata", "creationTimestamp"]),
            generation,
            observed_generation,
            pods: observed_generation.map(|_| standing::counts(object).into()),
            latest_revision: text(&["status", "latestRevision"]),
            strategy: Strategy {
                type_: plain(&field("type", json!("RollingUpdate"))),
                paused: json::flag(object, &["spec", "updateStrategy", "paused"]),
                partition: field("partition", json!(0)),
                max_unavailable: field("maxUnavailable", json!(1)),
            },
            upgrade_policies: policies.into_iter().filter(|(is_on, _)| *is_on).map(|(_, name)| name).collect(),
            progress_deadline: upgrades.progress_deadline.map(pillion_kubernetes::duration::Duration::text),
            state,
            waits_for: WaitsFor { reason, message },
        }
    }

    /// Returns when the SidecarSet was created.
    pub fn created(&self) -> Option<Timestamp> {
        self.created_at.as_deref().and_then(Timestamp::parse)
    }

    /// Returns the strategy in a few words: `RollingUpdate`, `RollingUpdate, paused`, `NotUpdate`.
    pub fn strategy_text(&self) -> String {
        let paused = if self.strategy.paused { ", paused" } else { "" };
        format!("{}{paused}", self.strategy.type_)
    }

    /// Returns the part of the revision's name that the name of the SidecarSet does not tell.
    pub fn short_revision(&self) -> &str {
        let Some(name) = &self.latest_revision else { return "" };
        name.strip_prefix(&self.name).and_then(|rest| rest.strip_prefix('-')).unwrap_or(name)
    }

    /// Returns what the rollout waits for, in a few words.
    pub fn waits_for_text(&self) -> &str {
        match self.waits_for.reason.as_str() {
            "Complete" | "NotUpdate" => "nothing",
            "PartitionReached" => "smaller partition",
            "SelectorReached" => "wider selector",
            "PodsAbsent" => "nodes, or Pods",
            "WaitingForBundle" => "bundle",
            "RollingOut" => "Pods to upgrade",
            "PodsNotReady" => "ready Pods",
            "ResettingContainers" => "resets",
            "Paused" => "end of pause",
            "NoPodSelected" => "an edit",
            "NotUpgradablePods" => "recreated Pods",
            "NotObserved" => "controller",
            reason => reason,
        }
    }

    /// Returns the numbers of the status as in the columns: matched, updated, ready. A `-` stands for a number that is
    /// not known.
    pub fn columns(&self) -> [String; 3] {
        let numbers = self.pods.map(|pods| [pods.matched_pods, pods.updated_pods, pods.ready_pods]);
        numbers.map_or_else(|| ["-"; 3].map(str::to_owned), |numbers| numbers.map(|number| number.to_string()))
    }
}

/// Returns a text as it is, and any other value as JSON.
pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns a SidecarSet of the cluster in v1beta1.
///
/// # Errors
/// All fields that cannot be read.
pub fn decoded(object: &Value) -> anyhow::Result<SidecarSet> {
    let name = json::text(object, &["metadata", "name"]);
    decode(object.clone()).map(pillion_sidecarset::sidecar_set::decode::Decoded::into_sidecar_set).map_err(|errors| {
        anyhow::anyhow!("SidecarSet \"{name}\" cannot be read: {}", pillion_kubernetes::field::joined(&errors))
    })
}
