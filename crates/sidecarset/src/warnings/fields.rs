//! Fields that no table has (WARN-3).

use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::words::nearest;
use serde_json::Value;

use super::{Rule, Warning};
use crate::newer::Feature;
use crate::sidecar_set::version::Version;
use crate::tables::{self, Unknown};

/// Returns warnings about the fields of an object that no table has. The object may be undecodable. `others` are further
/// fields of `spec` that are known.
pub fn unknown_fields(object: &Value, version: Version, others: &[&str]) -> Vec<Warning> {
    let unknown = tables::unknown(object, version.table(), &FieldPath::default());
    let is_known = |unknown: &Unknown<'_>| is_of_spec(unknown) && others.contains(&unknown.key);
    let unknown = unknown.iter().filter(|unknown| !is_known(unknown));
    unknown
        .map(|unknown| {
            let consequence = consequence(&unknown.path);
            let (message, remedy) = match Feature::of(unknown.owner.name, unknown.key) {
                Some(feature) => (format!("{}; {consequence}", newer(feature)), newer_remedy(&unknown.path).to_owned()),
                None => (format!("unknown field; {consequence}"), remedy(unknown, version, others)),
            };
            Warning::new(Rule::UnknownField, unknown.path.as_str(), message, remedy)
        })
        .collect()
}

fn is_of_spec(unknown: &Unknown<'_>) -> bool {
    unknown.path.strip_prefix("spec.") == Some(unknown.key)
}

/// Returns what a field is that OpenKruise does not know, and Kubernetes does.
fn newer(feature: &Feature) -> String {
    let Feature { name, since, .. } = feature;
    format!("{name} came with Kubernetes {since}, and OpenKruise does not know the field")
}

fn newer_remedy(path: &str) -> &'static str {
    if is_of_a_volume(path) {
        "remove it if OpenKruise injects, too"
    } else {
        "to roll a change out, change another field of the container, too"
    }
}

/// Returns the effect of a field that no table has.
fn consequence(path: &str) -> &'static str {
    if path.starts_with("spec.containers[") || path.starts_with("spec.initContainers[") {
        "it is kept and injected, but rollouts do not see changes to it"
    } else if is_of_a_volume(path) {
        "it is kept and injected"
    } else {
        "nothing reads it"
    }
}

fn is_of_a_volume(path: &str) -> bool {
    path.starts_with("spec.volumes[")
}

fn remedy(unknown: &Unknown<'_>, version: Version, others: &[&str]) -> String {
    match (version, unknown.path.as_str()) {
        (Version::V1Beta1, "spec.namespace") => {
            return "v1beta1 has no such field: without it every namespace is meant; use namespaceSelector with \
                    matchLabels kubernetes.io/metadata.name"
                .to_owned();
        }
        (Version::V1Alpha1, "spec.customVersion") => {
            return "v1alpha1 has no such field; use the label apps.kruise.io/sidecarset-custom-version".to_owned();
        }
        _ => {}
    }
    let others = others.iter().copied().filter(|_| is_of_spec(unknown));
    let siblings = unknown.owner.fields.iter().map(|field| field.name).chain(others);
    match nearest(unknown.key, siblings) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => "correct its name or its indentation, or remove it".to_owned(),
    }
}
