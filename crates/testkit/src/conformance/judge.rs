//! Judges answers by the reference, except for the rows of docs/compatibility.md.

use std::collections::{BTreeMap, BTreeSet};

use pillion_host::ValidationResponse;
use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json;
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar;
use pillion_sidecarset::sidecar_set::version::Version;
use pillion_sidecarset::tables;
use serde_json::Value;

use super::{Case, compare, fields, resources};

/// The codes of refusals.
const CODES: [u16; 4] = [400, 403, 422, 503];

/// Judges an answer.
///
/// # Errors
/// A description of what is wrong with the answer.
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
        // The table may cover every reason for which the reference refuses.
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
        // DIFF-4 precedes everything that the reference checks.
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
        // A panic of the reference is no evidence of the right answer.
        (false, true) if case.message().starts_with("panic:") || resources::needs_no_targets(case) => Ok(()),
        (false, true) => Err(format!("accepted, the reference says {}", case.message())),
        (false, false) => Ok(()),
    }
}

/// Whether the table covers every reason: an expression without a value (DIFF-6 to DIFF-8), or a revision of another
/// SidecarSet (DIFF-11), or an addition that the API server would refuse (INJ-30).
fn is_refused_by_a_row(case: &Case, message: &str) -> bool {
    let reasons = fields::of_ours(message);
    !reasons.is_empty()
        && reasons.iter().all(|reason| {
            let of_additions = [".volumeMounts", ".volumeDevices", ".ports", ".resourcesPolicy", ".resources"];
            reason.path.contains(".resourcesPolicy.resourcesExpr.")
                || message.contains("the API server") && of_additions.iter().any(|field| reason.path.ends_with(field))
                || reason.path.ends_with(".revision.revisionName") && case.has_tag("revision-owner")
        })
}

fn same_object(case: &Case, answer: &ValidationResponse) -> Result<(), String> {
    let object = answer.mutated_object.as_ref().unwrap_or(case.object());
    // The reference drops the fields of a SidecarSet that it does not know (DEF-2).
    let version = Version::parse(json::text(case.object(), &["apiVersion"]));
    let unknown = version
        .filter(|_| case.is_sidecar_set())
        .map_or_else(Vec::new, |version| tables::unknown(case.object(), version.table(), &FieldPath::default()));
    let mut expected = case.expected().clone();
    if !case.is_sidecar_set()
        && json::at(object, &["metadata", "namespace"]).is_none()
        && let Some(metadata) = expected.get_mut("metadata").and_then(Value::as_object_mut)
        && metadata.get("namespace") == json::at(case.request(), &["namespace"])
    {
        metadata.remove("namespace");
    }
    let mut differences =
        compare::differences(&expected, object, &|path| unknown.iter().any(|unknown| unknown.path == path));
    // The reference also drops the fields of a Pod that it does not know.
    differences.retain(|difference| {
        !(resources::is_row(case, object, difference)
            || case.has_tag("unknown-field") && !case.is_sidecar_set() && difference.expected.is_none())
    });
    let lines: Vec<String> = differences.iter().map(ToString::to_string).collect();
    if lines.is_empty() { Ok(()) } else { Err(lines.join("\n    ")) }
}

/// Returns the names over which the matching SidecarSets clash with the Pod or with each other (DIFF-4), derived from
/// what the reference injected.
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
            continue; // The reference did not write this entry, so the set does not match.
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
