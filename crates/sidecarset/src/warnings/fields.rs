//! Fields that no table has (WARN-3).

use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::words::nearest;
use serde_json::Value;

use super::{Rule, Warning};
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
            let message = format!("unknown field; {}", consequence(&unknown.path));
            Warning::new(Rule::UnknownField, unknown.path.as_str(), message, remedy(unknown, version, others))
        })
        .collect()
}

fn is_of_spec(unknown: &Unknown<'_>) -> bool {
    unknown.path.strip_prefix("spec.") == Some(unknown.key)
}

/// Returns the effect of a field that no table has.
fn consequence(path: &str) -> &'static str {
    if path.starts_with("spec.containers[") || path.starts_with("spec.initContainers[") {
        "it is kept and injected, but rollouts do not see changes to it"
    } else if path.starts_with("spec.volumes[") {
        "it is kept and injected"
    } else {
        "nothing reads it"
    }
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
