//! The condition in the status of a SidecarSet that tells whether it is in the bundle.

use pillion_kubernetes::time::Timestamp;
use serde_json::Value;

use super::{Place, Verdict};
use crate::condition::{self, Condition};

/// The type of the condition. It is true if Pods are injected with this version of the SidecarSet once the bundle is
/// written.
pub const CONDITION: &str = "InBundle";

/// Returns a merge patch that puts the condition into the status of a SidecarSet; `None` if the status has it already.
///
/// The patch writes the conditions of other types as they were observed, so it needs the observed `resourceVersion`.
pub fn condition(sidecar_set: &Value, verdict: &Verdict, now: Timestamp) -> Option<Value> {
    let status = verdict.place == Place::In;
    condition::patch(
        sidecar_set,
        Condition { type_: CONDITION, status, reason: verdict.why.as_str(), message: &verdict.message },
        now,
    )
}
