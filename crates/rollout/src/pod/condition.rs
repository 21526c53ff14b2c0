//! The conditions of a Pod, and their times.

use pillion_kubernetes::nullable;
use pillion_kubernetes::time::Timestamp;
use serde::Deserialize;

/// The condition of a Pod that says whether its sidecars can be upgraded (ROLL-50).
pub const UPGRADABLE: &str = "SidecarSetUpgradable";

/// A time as text of RFC 3339. One that cannot be read is the zero time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "String")]
pub struct Time(pub Timestamp);

impl From<String> for Time {
    fn from(text: String) -> Self {
        Self(Timestamp::parse(&text).unwrap_or_default())
    }
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
    /// `observedGeneration`.
    pub observed_generation: Option<i64>,
}
