//! Warnings about stored data: hashes and revisions.

use pillion_sidecarset::hash;
use pillion_sidecarset::names;
use pillion_sidecarset::validation::{self, injection};
use serde_json::Value;

use crate::commands::check::sets::Files;
use crate::commands::check::settings::Judged;
use crate::commands::check::subject::Subject;
use crate::report::Finding;

/// Returns a warning if the hash does not fit the containers: the policy takes the manifest as stored and adds no
/// defaults.
pub(super) fn hash(subject: &Subject<'_>) -> Option<Finding> {
    let stored = subject.set.hash();
    if stored.is_empty() {
        return None;
    }
    let own = hash::hashes(subject.set.spec(&[]).unwrap_or(&Value::Null)).hash;
    (own != stored).then(|| {
        subject.spot.warning(
            &format!("metadata.annotations[{}]", names::HASH),
            "the hash is not that of these containers; with it, the manifest is taken as stored and gets no defaults",
            "remove the annotation, and the hash is computed",
        )
    })
}

/// Returns warnings about missing or invalid revisions that `SidecarSet`s of the settings request: the settings are
/// valid, but Pods are refused.
pub(super) fn revisions(judged: &Judged<'_>, files: &Files<'_>) -> Vec<Finding> {
    let settings = &judged.settings;
    let mut findings = Vec::new();
    for subject in &judged.subjects {
        let (revisions, namespace) = (&settings.controller_revisions, &settings.system_namespace);
        let mut found = validation::LookupErrors::default();
        injection::check_revision(&subject.prepared, revisions, namespace, files, &mut found);
        let why = "every Pod that this SidecarSet matches is refused";
        findings.extend(found.invalid.iter().map(|error| subject.spot.warning_of(error, why)));
    }
    findings
}
