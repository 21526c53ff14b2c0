//! Warnings about SidecarSets that need a controller which the files do not run.

use pillion_identity::declared::{Declared, MODE, Mode, path};
use pillion_kubernetes::json;
use serde_json::Value;

use crate::documents::Document;
use crate::report::Finding;
use crate::subject::Subject;

/// The controller that writes the Secrets of mode `Isolate`.
const TOKENS: &str = "sidecar-tokens";
/// The option that names the controllers of a Deployment.
const OPTION: &str = "controllers";

/// Returns warnings about SidecarSets in mode `Isolate` with tokens for other audiences, if the files run Pillion's
/// controllers without the one that writes these tokens. Files without any controller say nothing about it (AUD-7).
pub(super) fn without_tokens(subjects: &[&Subject<'_>], documents: &[Document]) -> Vec<Finding> {
    let running: Vec<&str> = documents.iter().flat_map(|document| controllers(&document.manifest.value)).collect();
    if running.is_empty() || running.contains(&TOKENS) {
        return Vec::new();
    }
    let needs = |subject: &&&Subject<'_>| {
        Declared::from_sidecar_set(&subject.prepared)
            .is_ok_and(|set| set.mode == Mode::Isolate && !set.tokens.is_empty())
    };
    let message = format!("no controller here is {TOKENS}, which requests these tokens: Pods wait for their Secret");
    let remedy = "render them with pillion manifest controller --token-namespaces=<namespaces>, or use SidecarsOnly";
    let warning = |subject: &&Subject<'_>| subject.spot.warning(path(MODE).as_str(), message.clone(), remedy);
    subjects.iter().filter(needs).map(warning).collect()
}

/// Returns the controllers that a Deployment of `pillion controller` runs.
fn controllers(object: &Value) -> Vec<&str> {
    if json::text(object, &["kind"]) != "Deployment" {
        return Vec::new();
    }
    let containers = json::items(object, &["spec", "template", "spec", "containers"]);
    let args = containers.iter().flat_map(|container| json::items(container, &["args"])).filter_map(Value::as_str);
    let args: Vec<&str> = args.collect();
    if !args.contains(&"controller") {
        return Vec::new();
    }
    let options = args.iter().filter_map(|arg| arg.strip_prefix("--")?.split_once('='));
    options.filter(|(option, _)| *option == OPTION).flat_map(|(_, names)| names.split(',')).collect()
}
