//! The condition in the status of a SidecarSet that tells whether it is in the bundle.

use pillion_kubernetes::time::Timestamp;
use serde_json::Value;

use super::{BundlePlace, Verdict};
use crate::Step;
use crate::condition::{self, Condition};

/// The type of the condition. It is true if Pods are injected with this version of the SidecarSet once the bundle is
/// written.
pub const CONDITION: &str = "InBundle";

/// Returns the step that writes the condition of a SidecarSet; `None` if its status has the condition already.
pub fn condition(sidecar_set: &Value, verdict: &Verdict, now: Timestamp) -> Option<Step> {
    let status = verdict.place == BundlePlace::In;
    condition::step(
        sidecar_set,
        Condition { type_: CONDITION, status, reason: verdict.why.as_str(), message: &verdict.message, since: None },
        now,
    )
}
