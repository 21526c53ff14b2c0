//! Whether a `SidecarSet` is valid (section 3): all errors at once, each with its field.
//!
//! [`validate`] is everything that a `SidecarSet` alone can get wrong. What depends on the object before an update
//! ([`update`]), on other `SidecarSet`s ([`canary::validate_base`], [`conflicts`]) or on a look-up ([`whitelist`],
//! [`injection::validate_revision`]) is apart, so that each caller runs what it can.

pub mod canary;
pub mod conflicts;
mod hot_upgrade;
pub mod injection;
mod manifest;
mod metadata;
mod patch_pod_metadata;
mod resources_policy;
mod spec;
mod transfer_env;
pub mod update;
mod update_strategy;
pub mod whitelist;

#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::sidecar_set::SidecarSet;
use pillion_kubernetes::field::FieldError;
use pillion_kubernetes::json;
use pillion_kubernetes::node::Node;
use pillion_kubernetes::pod_validation;

pub use manifest::validate as validate_manifest;

/// `updateStrategy.type`: sidecars are updated in place.
const ROLLING_UPDATE: &str = "RollingUpdate";
/// `updateStrategy.type`: only new Pods get the new sidecars.
const NOT_UPDATE: &str = "NotUpdate";
/// The lists of `spec` that hold sidecars.
const LISTS: [&str; 2] = ["initContainers", "containers"];

/// What rules with look-ups found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What is wrong: 422.
    pub invalid: Vec<FieldError>,
    /// What a failed look-up leaves open: 503.
    pub unavailable: Vec<FieldError>,
}

impl Findings {
    /// Whether all is well.
    pub fn is_empty(&self) -> bool {
        self.invalid.is_empty() && self.unavailable.is_empty()
    }
}

/// Checks a `SidecarSet` that was defaulted: everything that needs neither another object nor a look-up (V-2 to V-13).
pub fn validate(set: &SidecarSet) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let object = Node::root(set.as_value());
    let spec = object.part("spec");
    metadata::check(&object.part("metadata"), &mut errors);
    canary::check(set, &mut errors);
    spec::check(set, &spec, &mut errors);
    injection::check(set, &spec, &mut errors);
    update_strategy::check(set, &spec.part("updateStrategy"), &mut errors);
    transfer_env::check(&spec, &mut errors);
    hot_upgrade::check(&spec, &mut errors);
    resources_policy::check(&spec, &mut errors);
    check_pod(set, &mut errors);
    patch_pod_metadata::check(&spec, &mut errors);
    errors
}

/// The container that stands in where there are only init containers.
const STAND_IN: &[u8] =
    br#"{"name":"test","image":"busybox","imagePullPolicy":"IfNotPresent","terminationMessagePolicy":"File"}"#;

/// V-12: the containers and volumes must make a Pod that Kubernetes would create.
fn check_pod(set: &SidecarSet, errors: &mut Vec<FieldError>) {
    if set.containers().is_empty() && set.init_containers().is_empty() {
        return;
    }
    let stand_in;
    let containers = if set.containers().is_empty() {
        // The reference's stand-in has this name, so an init container named like it is refused as a duplicate.
        stand_in = [json::parse(STAND_IN).unwrap_or_default()];
        &stand_in
    } else {
        set.containers()
    };
    pod_validation::check(set.init_containers(), containers, set.volumes(), errors);
}

/// `spec.updateStrategy.type`.
fn update_type(set: &SidecarSet) -> &str {
    set.spec(&["updateStrategy", "type"]).and_then(Value::as_str).unwrap_or_default()
}

/// Whether the rules of rolling updates hold; they are the default.
fn is_rolling_update(set: &SidecarSet) -> bool {
    matches!(update_type(set), "" | ROLLING_UPDATE)
}
