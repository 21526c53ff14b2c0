//! Warnings about unknown fields and values.

use pillion_identity::declared;
use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json;
use pillion_kubernetes::words::nearest;
use pillion_sidecarset::sidecar_set::version::Version;
use pillion_sidecarset::tables::{self, Kind, Table};

use crate::commands::check::locate::{Aim, place, resolve};
use crate::commands::check::subject::{Spot, Subject};
use crate::report::{Finding, Severity};

/// Known values of container fields that neither validation nor the CRD checks (VAL-9, VAL-10).
const CONTAINER_WORDS: [(&str, &[&str]); 4] = [
    ("podInjectPolicy", &["BeforeAppContainer", "AfterAppContainer"]),
    ("shareVolumePolicy.type", &["enabled", "disabled"]),
    ("shareVolumeDevicePolicy.type", &["enabled", "disabled"]),
    ("upgradeStrategy.upgradeType", &["ColdUpgrade", "HotUpgrade"]),
];
const PATCH_POLICIES: [&str; 3] = ["Retain", "Overwrite", "MergePatchJson"];

/// Returns warnings about unknown fields of a `SidecarSet`, like those of its admission. The object may be undecodable.
pub(super) fn unknown(spot: &Spot<'_>) -> Vec<Finding> {
    let Some(version) = Version::of(json::text(spot.raw, &["apiVersion"])) else { return Vec::new() };
    let fields = tables::unknown(spot.raw, version.table(), &FieldPath::default());
    fields
        .iter()
        .filter(|field| !declared::is_field(field))
        .map(|field| {
            let path = spot.below(field);
            Finding {
                severity: Severity::Warning,
                place: place(spot.manifest, &path, Aim::Key, None),
                path,
                message: format!("unknown field; {}", consequence(field)),
                remedy: remedy(spot, version, field),
                sidecar_set: spot.sidecar_set.clone(),
            }
        })
        .collect()
}

/// Returns warnings about unknown values that no validation refuses.
pub(super) fn words(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lists = [("initContainers", subject.set.init_containers()), ("containers", subject.set.containers())];
    for (list, containers) in lists {
        for (index, container) in containers.iter().enumerate() {
            for (field, known) in CONTAINER_WORDS {
                // Validation checks these two in plain containers.
                if list == "containers" && matches!(field, "podInjectPolicy" | "shareVolumePolicy.type") {
                    continue;
                }
                let keys: Vec<&str> = field.split('.').collect();
                let path = format!("spec.{list}[{index}].{field}");
                findings.extend(word(subject, &path, json::text(container, &keys), known, "the default is used"));
            }
        }
    }
    let patches = subject.set.spec(&["patchPodMetadata"]).map_or(&[][..], |list| json::items(list, &[]));
    for (index, patch) in patches.iter().enumerate() {
        let path = format!("spec.patchPodMetadata[{index}].patchPolicy");
        let policy = json::text(patch, &["patchPolicy"]);
        findings.extend(word(subject, &path, policy, &PATCH_POLICIES, "these annotations are not patched"));
    }
    findings
}

fn word(subject: &Subject<'_>, path: &str, value: &str, known: &[&str], effect: &str) -> Option<Finding> {
    if value.is_empty() || known.contains(&value) {
        return None;
    }
    let remedy = match nearest(value, known.iter().copied()) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("use {}", known.join(" or ")),
    };
    Some(subject.spot.warning(path, format!("{value:?} means nothing here; {effect}"), remedy))
}

/// Returns the effect of a field that no table knows.
fn consequence(field: &str) -> &'static str {
    let is_below = |list: &str| field.starts_with(&format!("spec.{list}["));
    if is_below("containers") || is_below("initContainers") {
        "it is kept and injected, but no hash sees it, so rollouts do not see changes to it"
    } else if is_below("volumes") {
        "it is kept and injected"
    } else {
        "nothing reads it"
    }
}

fn remedy(spot: &Spot<'_>, version: Version, field: &str) -> String {
    match (version, field) {
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
    let pointer = resolve(spot.raw, field).pointer;
    let tokens: Vec<String> =
        pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect();
    let Some((key, parents)) = tokens.split_last() else { return String::new() };
    let Some(owner) = parents.iter().try_fold(version.table(), |table, token| step(table, token)) else {
        return String::new();
    };
    // No table has the identity fields.
    let of_identities = declared::FIELDS.iter().map(|field| field.name).filter(|_| parents == ["spec"]);
    let siblings = owner.fields.iter().map(|field| field.name).chain(of_identities);
    match nearest(key, siblings) {
        Some(near) => format!("did you mean {near:?}?"),
        None => "correct its name or its indentation, or remove it".to_owned(),
    }
}

/// Returns the table of a field's value, or for an index the table of the list's items.
fn step(table: &'static Table, token: &str) -> Option<&'static Table> {
    match table.field(token).map(|field| field.kind) {
        Some(Kind::Object(table) | Kind::Objects(table)) => Some(table),
        Some(_) => None,
        None => token.parse::<usize>().is_ok().then_some(table),
    }
}
