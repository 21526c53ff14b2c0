//! Native sidecars in all Pods, whose images never change in running Pods (WARN-9).

use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json;

use super::{Rule, Warning, Written};
use crate::native::NATIVE;
use crate::upgrades::{NATIVE_UPGRADE, UPGRADE_POLICY, can_recreate};

pub(super) fn check(written: &Written<'_>, found: &mut Vec<Warning>) {
    let annotation = |key| json::text(written.object, &["metadata", "annotations", key]).trim();
    let has_rollouts = match json::text(written.object, &["spec", "updateStrategy", "type"]) {
        "" | "RollingUpdate" => !written.rollouts.is_empty(),
        _ => false,
    };
    let has_containers = !json::items(written.object, &["spec", "containers"]).is_empty();
    let is_upgraded = annotation(NATIVE_UPGRADE) == "true"
        || written.rollouts.iter().any(|settings| can_recreate(annotation(UPGRADE_POLICY), settings));
    if annotation(NATIVE) == "Always" && has_rollouts && has_containers && !is_upgraded {
        let path = FieldPath::new("metadata.annotations").key(NATIVE).to_string();
        let message = "new images reach no running Pod, since those of native sidecars do not change in place";
        let remedy = format!("set the annotation {NATIVE_UPGRADE} to \"true\", or add Recreate to {UPGRADE_POLICY}");
        found.push(Warning::new(Rule::NativeWithoutUpgrade, path, message, remedy));
    }
}
