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
pub mod pod;
mod resources_policy;
mod spec;
mod transfer_env;
pub mod update;
mod update_strategy;
pub mod whitelist;

#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::field::FieldError;
use crate::json;
use crate::outcome::Code;
use crate::sidecar_set::SidecarSet;

pub use manifest::validate as validate_manifest;

/// `updateStrategy.type`: sidecars are updated in place.
const ROLLING_UPDATE: &str = "RollingUpdate";
/// `updateStrategy.type`: only new Pods get the new sidecars.
const NOT_UPDATE: &str = "NotUpdate";

/// An error with the code that it asks for: 422, or 503 where a look-up failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The error.
    pub error: FieldError,
    /// The code.
    pub code: Code,
}

impl From<FieldError> for Finding {
    fn from(error: FieldError) -> Self {
        Self { error, code: Code::Invalid }
    }
}

/// Checks a `SidecarSet` that was defaulted: everything that needs neither another object nor a look-up (V-2 to V-13).
pub fn validate(set: &SidecarSet) -> Vec<FieldError> {
    let mut errors = metadata::validate(set);
    errors.extend(canary::validate(set));
    errors.extend(spec::validate(set));
    errors.extend(injection::validate(set));
    errors.extend(update_strategy::validate(set));
    errors.extend(transfer_env::validate(set));
    errors.extend(hot_upgrade::validate(set));
    errors.extend(resources_policy::validate(set));
    errors.extend(validate_pod(set));
    errors.extend(patch_pod_metadata::validate(set));
    errors
}

/// V-12: the containers and volumes must make a Pod that Kubernetes would create.
fn validate_pod(set: &SidecarSet) -> Vec<FieldError> {
    if set.containers().is_empty() && set.init_containers().is_empty() {
        return Vec::new();
    }
    let stand_in;
    let containers = if set.containers().is_empty() {
        // The reference's stand-in has this name, so an init container named like it is refused as a duplicate.
        stand_in = [json::object_of(
            [
                ("name", "test"),
                ("image", "busybox"),
                ("imagePullPolicy", "IfNotPresent"),
                ("terminationMessagePolicy", "File"),
            ]
            .map(|(key, value)| (key, value.into())),
        )];
        &stand_in
    } else {
        set.containers()
    };
    pod::validate(set.init_containers(), containers, set.volumes())
}

/// `spec.updateStrategy.type`.
fn update_type(set: &SidecarSet) -> &str {
    set.spec(&["updateStrategy", "type"]).and_then(Value::as_str).unwrap_or_default()
}

/// Whether the rules of rolling updates hold; they are the default.
fn is_rolling_update(set: &SidecarSet) -> bool {
    matches!(update_type(set), "" | ROLLING_UPDATE)
}

/// Errors in one line.
fn joined(errors: &[FieldError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
