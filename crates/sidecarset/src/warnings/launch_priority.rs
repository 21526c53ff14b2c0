//! Launch priorities of containers, which OpenKruise looks for before `pillion serve` injects (WARN-8).
//!
//! The API server calls webhook configurations in the order of their names, and each of them once: OpenKruise's is
//! `kruise-mutating-webhook-configuration`, that of `pillion serve` is `pillion`.

use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json;
use serde_json::Value;

use super::{Rule, Warning};

/// The variable with the priority of a container.
const VARIABLE: &str = "KRUISE_CONTAINER_PRIORITY";
/// The annotation of a Pod whose containers start in the order of its list.
const ANNOTATION: &str = "apps.kruise.io/container-launch-priority";
const MESSAGE: &str =
    "OpenKruise looks for launch priorities before pillion serve injects, since webhooks are called by name";

pub(super) fn check(object: &Value, found: &mut Vec<Warning>) {
    let spec = FieldPath::new("spec");
    // OpenKruise knows no priorities of init containers.
    for (index, container) in json::items(object, &["spec", "containers"]).iter().enumerate() {
        let variables = json::items(container, &["env"]);
        if let Some(variable) = variables.iter().position(|variable| json::text(variable, &["name"]) == VARIABLE) {
            let path = spec.item("containers", index).item("env", variable).child("name").to_string();
            let remedy = "make it an init container with restartPolicy Always, which starts first";
            found.push(Warning::new(Rule::LaunchPriority, path, MESSAGE, remedy));
        }
    }
    for (index, patch) in json::items(object, &["spec", "patchPodMetadata"]).iter().enumerate() {
        if json::at(patch, &["annotations", ANNOTATION]).is_some() {
            let path = spec.item("patchPodMetadata", index).child("annotations").key(ANNOTATION).to_string();
            found.push(Warning::new(
                Rule::LaunchPriority,
                path,
                MESSAGE,
                "write the annotation into the Pods' template",
            ));
        }
    }
}
