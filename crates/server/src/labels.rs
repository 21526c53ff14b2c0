//! Labels of metrics, each with a closed set of values.

use pillion_host::admission::AdmissionRequest;
use prometheus_client::encoding::EncodeLabelSet;

use crate::Endpoint;

/// Stands for any unexpected value.
const OTHER: &str = "other";
/// The kinds that the policy has rules for.
pub(crate) const KINDS: [&str; 18] = [
    "Pod",
    "SidecarSet",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "ReplicaSet",
    "ReplicationController",
    "PodTemplate",
    "Job",
    "CronJob",
    "CloneSet",
    "BroadcastJob",
    "AdvancedCronJob",
    "UnitedDeployment",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "Secret",
];
/// The operations of admission.
pub(crate) const OPERATIONS: [&str; 4] = ["CREATE", "UPDATE", "DELETE", "CONNECT"];

/// The labels of an answered request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Request {
    pub(crate) path: &'static str,
    kind: &'static str,
    operation: &'static str,
    allowed: &'static str,
}

/// The labels of a refused request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Refusal {
    code: &'static str,
    reason: &'static str,
    rule: &'static str,
}

/// Why the policy gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The time limit was reached.
    OutOfTime,
    /// The policy ran out of memory, failed, or gave an invalid answer.
    Broken,
}

impl Request {
    pub(crate) fn new<O>(endpoint: Endpoint, request: &AdmissionRequest<O>, is_allowed: bool) -> Self {
        Self {
            path: endpoint.path(),
            kind: kind(&request.kind.kind),
            operation: one_of(&OPERATIONS, &request.operation),
            allowed: if is_allowed { "true" } else { "false" },
        }
    }
}

impl Refusal {
    /// Returns the labels for a refusal by the policy with this code. The reasons match those of the audit annotation
    /// `refused-because`.
    pub(crate) fn by_code<O>(endpoint: Endpoint, request: &AdmissionRequest<O>, code: Option<u16>) -> Self {
        let (code, reason) = match code {
            Some(400) => ("400", "undecodable"),
            Some(403) => ("403", "forbidden"),
            Some(422) => ("422", "invalid"),
            Some(503) => ("503", "unavailable"),
            _ => (OTHER, OTHER),
        };
        Self { code, reason, rule: rule(endpoint, request) }
    }

    /// Returns the labels for a refusal because the policy gave no answer.
    pub(crate) fn by_fault<O>(endpoint: Endpoint, request: &AdmissionRequest<O>, fault: Fault) -> Self {
        let reason = match fault {
            Fault::OutOfTime => "out_of_time",
            Fault::Broken => "broken",
        };
        Self { code: "503", reason, rule: rule(endpoint, request) }
    }
}

fn kind(kind: &str) -> &'static str {
    // There are several kinds of Shoots.
    if kind.ends_with("Shoot") { "Shoot" } else { one_of(&KINDS, kind) }
}

/// Returns the group of rules that judges a request.
fn rule<O>(endpoint: Endpoint, request: &AdmissionRequest<O>) -> &'static str {
    let is_part = request.sub_resource.as_deref().is_some_and(|part| !part.is_empty());
    match kind(&request.kind.kind) {
        "Pod" if endpoint == Endpoint::Assert => "assertion",
        "Pod" if is_part => "guard",
        "Pod" => "injection",
        "SidecarSet" => "sidecarset",
        "Secret" => "token_secret",
        "Shoot" => "shoot",
        _ => "guard",
    }
}

fn one_of(known: &[&'static str], text: &str) -> &'static str {
    known.iter().find(|known| **known == text).copied().unwrap_or(OTHER)
}
