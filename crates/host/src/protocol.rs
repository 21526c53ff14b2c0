//! The messages between a Kubewarden host and a policy.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A function that policies export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Decides on an admission request; the payload is `{"request": ..., "settings": ...}`.
    Validate,
    /// Checks settings; the payload is the settings.
    ValidateSettings,
    /// Returns the version of this protocol; the payload is empty.
    ProtocolVersion,
}

impl Operation {
    /// The name of the function.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Validate => "validate",
            Self::ValidateSettings => "validate_settings",
            Self::ProtocolVersion => "protocol_version",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The payload of [`Operation::Validate`].
#[derive(Debug, Serialize)]
pub(crate) struct ValidatePayload<'a> {
    pub(crate) request: &'a Value,
    pub(crate) settings: &'a Value,
}

/// A policy's decision on an admission request. `O` is the type of the object.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ValidationResponse<O = Value> {
    /// Whether the request is admitted.
    pub accepted: bool,
    /// The reason for a refusal.
    #[serde(default)]
    pub message: Option<String>,
    /// The HTTP code of a refusal.
    #[serde(default)]
    pub code: Option<u16>,
    /// The complete object to store; absent if the policy changes nothing.
    pub mutated_object: Option<O>,
    /// Annotations for the audit event.
    #[serde(default)]
    pub audit_annotations: Option<BTreeMap<String, String>>,
    /// Warnings for the client.
    #[serde(default)]
    pub warnings: Option<Vec<String>>,
}

/// A policy's verdict on its settings.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SettingsResponse {
    /// Whether the policy accepts the settings.
    pub valid: bool,
    /// The reason if the settings are invalid.
    #[serde(default)]
    pub message: Option<String>,
}
