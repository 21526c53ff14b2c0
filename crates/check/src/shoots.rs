//! Checks Shoots, and the other Gardener objects that hold a `serviceAccountConfig`, as the policy would.

use pillion_documents::locate::resolve;
use pillion_documents::manifest::Manifest;
use pillion_gardener as shoot;
use pillion_gardener::settings::ShootSettings;
use pillion_kubernetes::field::FieldError;
use pillion_kubernetes::json;
use serde_json::Value;

use super::documents::{Document, Role};
use super::settings::Judged;
use super::subject::Spot;
use crate::report::Finding;

/// Whether the rules are on in any of these settings.
pub(super) fn are_on(settings: &[Judged<'_>]) -> bool {
    settings.iter().any(|judged| judged.settings.shoots.enabled)
}

/// Judges every Shoot by the rules of the settings that turn them on; else by the rules that other settings contain;
/// else by the default rules. `before` contains existing objects: a Shoot among them is judged as an update rather than
/// a creation.
pub(super) fn judge(documents: &[Document], before: &[Manifest], settings: &[Judged<'_>]) -> Vec<Finding> {
    let mut rules: Vec<ShootSettings> = Vec::new();
    let wanted = are_on(settings);
    for judged in settings.iter().filter(|judged| judged.settings.shoots.enabled == wanted) {
        let on = ShootSettings { enabled: true, ..judged.settings.shoots.clone() };
        let says_something = wanted || json::at(judged.spot.raw, &["shoots"]).is_some();
        if says_something && !rules.contains(&on) {
            rules.push(on);
        }
    }
    if rules.is_empty() {
        rules.push(ShootSettings { enabled: true, ..ShootSettings::default() });
    }
    let shoots = documents.iter().filter(|document| document.role == Role::Shoot).map(|document| &document.manifest);
    let mut findings = Vec::new();
    for manifest in shoots {
        let spot = Spot::document(manifest);
        let old = before.iter().find(|old| are_one(&old.value, &manifest.value));
        if old.is_none() && !before.is_empty() {
            let message = "the objects before do not have this one; it is judged as one that is created";
            findings.push(spot.warning("metadata.name", message, "give the object before it with --old"));
        }
        // The policy accepts an object that is being deleted.
        if old.is_some_and(|old| json::is_terminating(&old.value)) {
            continue;
        }
        findings.extend(rules.iter().flat_map(|rules| of_object(&spot, old, rules)));
    }
    findings
}

/// Whether two manifests describe the same object. A missing namespace matches any.
fn are_one(one: &Value, other: &Value) -> bool {
    let group = |value| json::text(value, &["apiVersion"]).split('/').next();
    let same = |path: &[&str]| json::text(one, path) == json::text(other, path);
    let namespace = |value| json::text(value, &["metadata", "namespace"]);
    group(one) == group(other)
        && same(&["kind"])
        && same(&["metadata", "name"])
        && (namespace(one).is_empty() || namespace(other).is_empty() || namespace(one) == namespace(other))
}

fn of_object(spot: &Spot<'_>, old: Option<&Manifest>, rules: &ShootSettings) -> Vec<Finding> {
    let is_shoot = json::text(spot.raw, &["kind"]) == "Shoot";
    let judged = shoot::judge(spot.raw, old.map(|old| &old.value), is_shoot, rules);
    let errors = judged.undecodable.iter().chain(&judged.invalid).chain(&judged.forbidden);
    let mut findings: Vec<Finding> = errors.map(|error| placed(spot, old, error)).collect();
    let config = rules.paths.iter().find(|path| resolve(spot.raw, path).is_whole);
    let path = config.map_or("", String::as_str);
    findings.extend(judged.warnings.iter().map(|text| {
        let (message, remedy) = text.split_once("; ").unwrap_or((text, ""));
        spot.warning(path, message, remedy)
    }));
    findings
}

/// Returns an error as a finding at its place, which may be in the old object.
fn placed(spot: &Spot<'_>, old: Option<&Manifest>, error: &FieldError) -> Finding {
    match (error.path.as_str().strip_prefix("oldObject"), old) {
        (Some(path), Some(old)) => {
            let path = path.strip_prefix('.').unwrap_or(path).to_owned();
            Spot::document(old).error(&FieldError { path, ..error.clone() })
        }
        _ => spot.error(error),
    }
}
