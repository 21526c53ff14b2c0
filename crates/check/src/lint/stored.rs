//! Warnings about stored data: hashes and revisions.

use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::hash;
use pillion_sidecarset::names;
use pillion_sidecarset::requested_revision::{self, RequestedRevision};
use pillion_sidecarset::validation::{self, injection};
use serde_json::Value;

use crate::files::Files;
use crate::report::Finding;
use crate::settings::Judged;
use crate::subject::Subject;

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
    // A bundle has the revision of a SidecarSet beside it.
    for subject in judged.subjects.iter().filter(|subject| subject.prepared.revision().is_none()) {
        let (revisions, namespace) = (&settings.controller_revisions, &settings.system_namespace);
        let mut found = validation::LookupErrors::default();
        injection::check_revision(&subject.prepared, revisions, namespace, files, &mut found);
        let why = "every Pod that this SidecarSet matches is refused";
        findings.extend(found.invalid.iter().map(|error| subject.spot.warning_of(error, why)));
        findings.extend(without_earlier_version(subject, revisions, namespace, files));
    }
    findings
}

/// Returns a warning about a draw between two versions of which one is missing (DIFF-30).
fn without_earlier_version(
    subject: &Subject<'_>,
    revisions: &[ControllerRevision],
    namespace: &str,
    files: &Files<'_>,
) -> Option<Finding> {
    let set = &subject.prepared;
    let selection =
        RequestedRevision::from_sidecar_set(set).filter(|selection| *selection == RequestedRevision::Previous)?;
    let is_missing =
        requested_revision::find(set, selection, revisions, namespace, files).is_ok_and(|found| found.is_none());
    is_missing.then(|| {
        subject.spot.warning(
            "spec.injectionStrategy.revision.policy",
            "no ControllerRevision in the settings holds an earlier version of this SidecarSet, so every Pod gets the latest \
             one",
            "add the earlier version to controllerRevisions, or name a revision",
        )
    })
}
