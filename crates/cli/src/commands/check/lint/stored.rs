//! Stored objects: hashes and revisions.

use pillion_core::hash;
use pillion_core::names;
use pillion_core::outcome::Code;
use pillion_core::validation::injection;
use serde_json::Value;

use crate::commands::check::sets::Files;
use crate::commands::check::settings::Judged;
use crate::commands::check::subject::Subject;
use crate::report::Finding;

/// A hash that is not that of the containers: the manifest is taken as stored, and was not stored like this.
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

/// Revisions that `SidecarSet`s of the settings ask for and cannot get: the settings are valid, but Pods are refused.
pub(super) fn revisions(judged: &Judged<'_>, files: &Files<'_>) -> Vec<Finding> {
    let settings = &judged.settings;
    let mut findings = Vec::new();
    for subject in &judged.subjects {
        let (revisions, namespace) = (&settings.controller_revisions, &settings.system_namespace);
        let found = injection::validate_revision(&subject.prepared, revisions, namespace, files);
        let certain = found.iter().filter(|finding| finding.code != Code::Unavailable);
        findings.extend(certain.map(|finding| {
            subject.spot.warning_of(&finding.error, "every Pod that this SidecarSet matches is refused")
        }));
    }
    findings
}
