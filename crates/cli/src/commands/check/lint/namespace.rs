//! Warnings about the namespace of a `SidecarSet`.

use pillion_kubernetes::json;

use crate::commands::check::subject::Spot;
use crate::report::Finding;

/// Returns a warning about `metadata.namespace`, which the API server clears before admission.
pub(super) fn cleared(spot: &Spot<'_>) -> Option<Finding> {
    const PATH: [&str; 2] = ["metadata", "namespace"];
    if json::text(spot.raw, &PATH).is_empty() {
        return None;
    }
    let message = "a SidecarSet is in no namespace: the API server drops this, and it chooses no Pods";
    let remedy = "remove it; spec.namespaceSelector chooses the namespaces of Pods";
    Some(spot.warning(&PATH.join("."), message, remedy))
}
