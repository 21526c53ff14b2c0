//! Whether an answer is right: by the reference, but for the rows of docs/compatibility.md.

use std::collections::{BTreeMap, BTreeSet};

use pillion_host::ValidationResponse;
use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json;
use pillion_sidecarset::names;
use pillion_sidecarset::schema;
use pillion_sidecarset::sidecar;
use pillion_sidecarset::sidecar_set::decode::Version;
use serde_json::Value;

use super::{Case, compare, fields, resources};

/// The codes with which the policy refuses.
const CODES: [u16; 4] = [400, 403, 422, 503];

/// Judges an answer.
///
/// # Errors
/// What is wrong with it.
pub fn judge(case: &Case, answer: &ValidationResponse) -> Result<(), String> {
    if !answer.accepted {
        let code = answer.code.unwrap_or_default();
        if !CODES.contains(&code) || answer.mutated_object.is_some() {
            return Err(format!("refused with code {code}"));
        }
    }
    if case.is_sidecar_set() { admitted_set(case, answer) } else { pod(case, answer) }
}

fn admitted_set(case: &Case, answer: &ValidationResponse) -> Result<(), String> {
    let message = answer.message.as_deref().unwrap_or_default();
    let theirs = fields::of_reference(case);
    if answer.accepted {
        // What the reference refuses for may have been a row of the table throughout.
        if !case.is_allowed() && (!theirs.is_empty() || fields::is_decoding(case)) {
            return Err(format!("accepted, the reference says {}", case.message()));
        }
        return if case.is_allowed() { same_object(case, answer) } else { Ok(()) };
    }
    if fields::is_decoding(case) && answer.code == Some(400) {
        return Ok(());
    }
    let ours = fields::of_ours(message);
    if ours.is_empty() {
        return Err(format!("refused without a field: {message}"));
    }
    fields::compare(case, &theirs, &ours)
}

fn pod(case: &Case, answer: &ValidationResponse) -> Result<(), String> {
    let message = answer.message.as_deref().unwrap_or_default();
    let clashes = clashes(case);
    match (case.is_allowed(), answer.accepted) {
        // Q-4 speaks before anything that the reference does.
        (true, accepted) if !clashes.is_empty() => {
            let unnamed: Vec<_> = clashes.iter().filter(|name| !message.contains(&format!("\"{name}\""))).collect();
            match (accepted, unnamed.as_slice()) {
                (true, _) => Err(format!("accepted, though {clashes:?} clash")),
                (false, []) if answer.code == Some(403) => Ok(()),
                (false, _) => Err(format!("refused, {unnamed:?} not named: {message}")),
            }
        }
        (true, true) => same_object(case, answer),
        (true, false) if is_refused_by_a_row(case, message) => Ok(()),
        (true, false) => Err(format!("refused, the reference accepts: {message}")),
        // What the reference does not survive says nothing about what is right.
        (false, true) if case.message().starts_with("panic:") || resources::needs_no_targets(case) => Ok(()),
        (false, true) => Err(format!("accepted, the reference says {}", case.message())),
        (false, false) => Ok(()),
    }
}

/// Whether every reason is one that the table gives: an expression that has no value, or a revision of
/// another SidecarSet.
fn is_refused_by_a_row(case: &Case, message: &str) -> bool {
    let reasons = fields::of_ours(message);
    !reasons.is_empty()
        && reasons.iter().all(|reason| {
            reason.path.contains(".resourcesPolicy.resourcesExpr.")
                || reason.path.ends_with(".revision.revisionName") && case.has_tag("revision-owner")
        })
}

fn same_object(case: &Case, answer: &ValidationResponse) -> Result<(), String> {
    let object = answer.mutated_object.as_ref().unwrap_or(case.object());
    // A SidecarSet's fields that the reference does not know are dropped by it (D-2).
    let version = Version::of(json::text(case.object(), &["apiVersion"]));
    let unknown = version
        .filter(|_| case.is_sidecar_set())
        .map_or_else(Vec::new, |version| schema::unknown(case.object(), version.schema(), &FieldPath::default()));
    let mut expected = case.expected().clone();
    if !case.is_sidecar_set()
        && json::at(object, &["metadata", "namespace"]).is_none()
        && let Some(metadata) = expected.get_mut("metadata").and_then(Value::as_object_mut)
        && metadata.get("namespace") == json::at(case.request(), &["namespace"])
    {
        metadata.remove("namespace");
    }
    let mut differences =
        compare::differences(&expected, object, &|path| unknown.iter().any(|unknown| unknown == path));
    // A Pod's fields that the reference does not know are dropped by it, too.
    differences.retain(|difference| {
        !(resources::is_row(case, object, difference)
            || case.has_tag("unknown-field") && !case.is_sidecar_set() && difference.expected.is_none())
    });
    let lines: Vec<String> = differences.iter().map(ToString::to_string).collect();
    if lines.is_empty() { Ok(()) } else { Err(lines.join("\n    ")) }
}

/// The names over which the matching SidecarSets and the Pod, or two of the sets, clash, told from what the
/// reference injected.
fn clashes(case: &Case) -> BTreeSet<String> {
    let annotation = |object: &Value, key: &str| -> Value {
        serde_json::from_str(json::text(object, &["metadata", "annotations", key])).unwrap_or_default()
    };
    let (before, after) = (case.object(), case.expected());
    let (records, injected) = (annotation(before, names::HASH), annotation(after, names::HASH));
    let names_of = |list: &str| json::items(before, &["spec", list]).iter().map(|item| json::text(item, &["name"]));
    let in_pod: BTreeSet<&str> = names_of("initContainers").chain(names_of("containers")).collect();
    let mut owners: BTreeMap<String, &str> = BTreeMap::new();
    let mut clashes = BTreeSet::new();
    for (set, entry) in injected.as_object().into_iter().flatten() {
        if records.get(set) == Some(entry) {
            continue; // An entry that the reference did not write: the set does not match.
        }
        let recorded = json::items(&records, &[set, "sidecarList"]);
        let manifest = case.of_kind("SidecarSet").find(|manifest| json::text(manifest, &["metadata", "name"]) == set);
        let plain_inits = manifest
            .map_or(&[][..], |manifest| json::items(manifest, &["spec", "initContainers"]))
            .iter()
            .filter(|container| json::text(container, &["restartPolicy"]) != "Always")
            .map(|container| json::text(container, &["name"]));
        for base in json::items(entry, &["sidecarList"]).iter().filter_map(Value::as_str).chain(plain_inits) {
            let is_hot = manifest.is_some_and(|manifest| is_hot_upgrade(manifest, base));
            let names = if is_hot { vec![format!("{base}-1"), format!("{base}-2")] } else { vec![base.to_owned()] };
            for name in names {
                let is_own = recorded.iter().any(|own| own == base);
                let is_taken = in_pod.contains(name.as_str()) && !is_own;
                let is_shared = owners.get(&name).is_some_and(|owner| owner != set);
                if is_taken || is_shared {
                    clashes.insert(name.clone());
                }
                owners.insert(name, set);
            }
        }
    }
    clashes
}

fn is_hot_upgrade(manifest: &Value, base: &str) -> bool {
    ["containers", "initContainers"].iter().any(|list| {
        let sidecars = json::items(manifest, &["spec", list]).iter();
        sidecars.filter(|sidecar| json::text(sidecar, &["name"]) == base).any(sidecar::is_hot_upgrade)
    })
}
