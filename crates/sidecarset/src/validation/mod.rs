//! Validation of a `SidecarSet` (docs/spec/validation.md). Reports all errors at once, each with its field.
//!
//! [`validate()`] checks the rules that need no other object. Separate functions check the rules that need the object
//! before an update ([`update`]), other `SidecarSet`s ([`canary::check_base`], [`conflicts`]) or a lookup
//! ([`whitelist`], [`injection::check_revision`]), so that each caller runs those that it can.

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

use crate::native::NativeSidecars;
use crate::opt_out::OptOut;
use crate::overrides;
use crate::sidecar_set::{SidecarSet, weight};
use crate::upgrades::{RolloutSettings, Upgrades};
use pillion_kubernetes::field::{Cause, FieldError};
use pillion_kubernetes::json;
use pillion_kubernetes::node::Node;
use pillion_kubernetes::pod_validation;

pub use manifest::validate as validate_manifest;

/// The `updateStrategy.type` that updates sidecars in place.
const ROLLING_UPDATE: &str = "RollingUpdate";
/// The `updateStrategy.type` that gives new sidecars to new Pods only.
const NOT_UPDATE: &str = "NotUpdate";
/// The lists of `spec` that hold sidecars.
const LISTS: [&str; 2] = ["initContainers", "containers"];

/// The errors of rules that need lookups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LookupErrors {
    /// Invalid fields: 422.
    pub invalid: Vec<FieldError>,
    /// Fields that could not be checked because a lookup failed: 503.
    pub unavailable: Vec<FieldError>,
}

impl LookupErrors {
    /// Whether there is no error.
    pub fn is_empty(&self) -> bool {
        self.invalid.is_empty() && self.unavailable.is_empty()
    }
}

/// Checks a defaulted `SidecarSet` with all rules that need neither another object nor a lookup (VAL-2 to VAL-13).
pub fn validate(set: &SidecarSet) -> Vec<FieldError> {
    if weight::sidecars(set) > weight::SIDECARS_MAX {
        return vec![too_many_sidecars()];
    }
    let mut errors = Vec::new();
    let object = Node::root(set.as_value());
    let spec = object.part("spec");
    metadata::check(&object.part("metadata"), &mut errors);
    canary::check(set, &mut errors);
    spec::check(set, &spec, &mut errors);
    injection::check(set, &spec, &mut errors);
    update_strategy::check(set, &spec.part("updateStrategy"), &mut errors);
    transfer_env::check(&spec, &mut errors);
    hot_upgrade::check(set, &spec, &mut errors);
    resources_policy::check(&spec, &mut errors);
    check_pod(set, &mut errors);
    patch_pod_metadata::check(&spec, &mut errors);
    errors.extend(Upgrades::from_sidecar_set(set, &RolloutSettings::default()).1);
    errors.extend(NativeSidecars::from_sidecar_set(set, NativeSidecars::Off).err());
    errors.extend(OptOut::from_sidecar_set(set).err());
    errors.extend(overrides::validate(set));
    errors
}

/// Returns the error of a SidecarSet that no Pod can get (E18).
fn too_many_sidecars() -> FieldError {
    let limit = weight::SIDECARS_MAX;
    let detail = format!(
        "a Pod gets at most {limit} containers and init containers of SidecarSets; make several SidecarSets for different Pods"
    );
    FieldError::new("spec.containers", Cause::TooMany, detail)
}

/// The stand-in container for a `SidecarSet` that has only init containers.
const STAND_IN: &[u8] =
    br#"{"name":"test","image":"busybox","imagePullPolicy":"IfNotPresent","terminationMessagePolicy":"File"}"#;

/// Checks that the containers and volumes make a Pod that Kubernetes would create (VAL-12).
fn check_pod(set: &SidecarSet, errors: &mut Vec<FieldError>) {
    if set.containers().is_empty() && set.init_containers().is_empty() {
        return;
    }
    let stand_in;
    let containers = if set.containers().is_empty() {
        // The reference's stand-in has this name, so an init container of the same name is refused as a duplicate.
        stand_in = [json::parse(STAND_IN).unwrap_or_default()];
        &stand_in
    } else {
        set.containers()
    };
    pod_validation::check(set.init_containers(), containers, set.volumes(), errors);
}

/// Returns `spec.updateStrategy.type`.
fn update_type(set: &SidecarSet) -> &str {
    set.spec(&["updateStrategy", "type"]).and_then(Value::as_str).unwrap_or_default()
}

/// Whether the rules of rolling updates apply; rolling updates are the default.
fn is_rolling_update(set: &SidecarSet) -> bool {
    matches!(update_type(set), "" | ROLLING_UPDATE)
}
