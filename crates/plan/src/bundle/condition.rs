//! What is said of a SidecarSet in its status.

use pillion_kubernetes::time::Timestamp;
use serde_json::Value;

use super::{Place, Verdict};
use crate::condition::{self, Condition};

/// The type of the condition: whether Pods are injected with this version of the SidecarSet, once it is in the bundle.
pub const CONDITION: &str = "InBundle";

/// A merge patch for the status of a SidecarSet that makes it say so; nothing where it does.
///
/// Conditions of other types stay, as they were seen: the patch needs the `resourceVersion` of what was seen.
pub fn condition(sidecar_set: &Value, verdict: &Verdict, now: Timestamp) -> Option<Value> {
    let status = verdict.place == Place::In;
    condition::patch(
        sidecar_set,
        Condition { type_: CONDITION, status, reason: verdict.why.as_str(), message: &verdict.message },
        now,
    )
}
