//! Fields that nobody knows.

use pillion_core::field::FieldPath;
use pillion_core::schema::{self, Kind, Schema};
use pillion_core::sidecar_set::decode::Version;

use crate::commands::check::locate::{Aim, place, resolve};
use crate::commands::check::subject::Subject;
use crate::commands::check::words::nearest;
use crate::report::{Finding, Severity};

/// Unknown fields of a `SidecarSet`, as its admission warns of them.
pub(super) fn unknown(subject: &Subject<'_>) -> Vec<Finding> {
    let spot = &subject.spot;
    let schema = subject.version.schema();
    let fields = schema::unknown(spot.raw, schema, &FieldPath::default());
    fields
        .iter()
        .map(|field| {
            let path = spot.below(field);
            Finding {
                severity: Severity::Warning,
                place: place(spot.manifest, &path, Aim::Key, None),
                path: path.as_str().to_owned(),
                message: format!("unknown field; {}", consequence(field)),
                remedy: remedy(subject, schema, field),
                sidecar_set: spot.sidecar_set.clone(),
            }
        })
        .collect()
}

/// What becomes of a field that no table knows.
fn consequence(field: &FieldPath) -> &'static str {
    let is_below = |list: &str| field.as_str().starts_with(&format!("spec.{list}["));
    if is_below("containers") || is_below("initContainers") {
        "it is kept and injected, but no hash sees it, so rollouts do not see changes to it"
    } else if is_below("volumes") {
        "it is kept and injected"
    } else {
        "nothing reads it"
    }
}

fn remedy(subject: &Subject<'_>, schema: &'static Schema, field: &FieldPath) -> String {
    match (subject.version, field.as_str()) {
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
    let pointer = resolve(subject.spot.raw, field).pointer;
    let tokens: Vec<String> =
        pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect();
    let Some((key, parents)) = tokens.split_last() else { return String::new() };
    let Some(owner) = parents.iter().try_fold(schema, |schema, token| step(schema, token)) else {
        return String::new();
    };
    let siblings = owner.fields.iter().map(|field| field.name);
    match nearest(key, siblings) {
        Some(near) => format!("did you mean {near:?}?"),
        None => "correct its name or its indentation, or remove it".to_owned(),
    }
}

/// The table below a field; an item of a list has that of the list.
fn step(schema: &'static Schema, token: &str) -> Option<&'static Schema> {
    match schema.field(token).map(|field| field.kind) {
        Some(Kind::Object(schema) | Kind::Objects(schema)) => Some(schema),
        Some(_) => None,
        None => token.parse::<usize>().is_ok().then_some(schema),
    }
}
