//! Annotations of the audit event. The API server puts the webhook's name before each key.

use crate::ordered::{Map, Set};
use crate::outcome::Refusal;

/// The `SidecarSet`s whose sidecars are in the Pod, ascending, joined by commas.
pub const INJECTED_SIDECAR_SETS: &str = "injected-sidecarsets";
/// The sidecars in the Pod as `set/container`, by set in the order of injection, joined by commas.
pub const INJECTED_CONTAINERS: &str = "injected-containers";
/// The `SidecarSet`s that a refusal names, ascending, joined by commas.
pub const REFUSED_BY: &str = "refused-by";
/// Why it was refused, by code: `undecodable`, `forbidden`, `invalid` or `unavailable`.
pub const REFUSED_BECAUSE: &str = "refused-because";

/// What was injected; nothing where nothing was.
pub fn injected(sidecars: &Map<String, Vec<String>>) -> Map<&'static str, String> {
    if sidecars.is_empty() {
        return Map::new();
    }
    let sets: Vec<&str> = sidecars.keys().map(String::as_str).collect();
    let containers: Vec<String> =
        sidecars.iter().flat_map(|(set, names)| names.iter().map(move |name| format!("{set}/{name}"))).collect();
    Map::from([(INJECTED_SIDECAR_SETS, sets.join(",")), (INJECTED_CONTAINERS, containers.join(","))])
}

/// Who refused and why.
pub fn refused(refusal: &Refusal) -> Map<&'static str, String> {
    let sets: Set<&str> = refusal.reasons().filter_map(|reason| reason.sidecar_set.as_deref()).collect();
    let mut annotations = Map::from([(REFUSED_BECAUSE, refusal.code().name().to_owned())]);
    if !sets.is_empty() {
        annotations.insert(REFUSED_BY, sets.into_iter().collect::<Vec<_>>().join(","));
    }
    annotations
}
