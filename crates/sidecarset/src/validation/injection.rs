//! Validation of `spec.injectionStrategy` (VAL-6).

use pillion_kubernetes::field::{FieldError, FieldErrors, FieldPath, joined};
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::Lookup;
use pillion_kubernetes::node::Node;
use pillion_kubernetes::outcome::Code;

use super::LookupErrors;
use crate::controller_revision::ControllerRevision;
use crate::requested_revision::{self, RequestedRevision};
use crate::sidecar_set::SidecarSet;

/// The policies that select the Pods for the revision.
const POLICIES: [&str; 2] = ["Always", "Partial"];

/// Checks the rules that need no lookup: the revision has a name or a version, unless its policy is `Partial`
/// (DIFF-30), and its policy is known.
pub(super) fn check(set: &SidecarSet, spec: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let strategy = spec.part("injectionStrategy");
    let Some(revision) = &strategy.get("revision") else { return };
    if RequestedRevision::from_sidecar_set(set).is_none() {
        let remedy = "set revisionName or customVersion, or the policy Partial, or remove revision";
        errors.required(&revision.place, remedy);
    }
    if !revision.is_empty("policy") {
        revision.known("policy", &POLICIES, errors);
    }
}

/// The places in which to find the revision of a `SidecarSet` that a request writes.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The ControllerRevisions of the settings.
    pub revisions: &'a [ControllerRevision],
    /// The `SidecarSet`s of the settings and of bundles, which include their revisions.
    pub sets: &'a [SidecarSet],
    /// Whether a controller compiles the `SidecarSet`s of the cluster, with their revisions, into a bundle
    /// (`bundleRef`).
    pub is_watched: bool,
    /// The namespace in which other ControllerRevisions are looked up.
    pub system_namespace: &'a str,
    /// The cluster.
    pub lookup: &'a dyn Lookup,
}

/// Checks the revision of a `SidecarSet` that a request writes. Returns a warning if it is unknown whether the revision
/// exists.
///
/// Checks nothing if an update requests the same revision as before: the revision may be deleted by now, which is not
/// the fault of the author of another change. A `customVersion` cannot be looked up in the cluster, because that would
/// need a list. If a controller compiles the `SidecarSet`s, the condition `InBundle` of the `SidecarSet` tells whether
/// the version exists.
pub fn check_written(
    set: &SidecarSet,
    old: Option<&SidecarSet>,
    sources: Sources<'_>,
    findings: &mut LookupErrors,
) -> Option<String> {
    let Sources { revisions, sets, is_watched, system_namespace, lookup } = sources;
    let selection = RequestedRevision::from_sidecar_set(set)?;
    if old.and_then(RequestedRevision::from_sidecar_set) == Some(selection) {
        return None;
    }
    if let Some(bundled) = bundled(set, selection, sets) {
        check_contents(&bundled, selection, findings);
        return None;
    }
    if let (true, RequestedRevision::CustomVersion(version)) = (is_watched, selection)
        && requested_revision::find(set, selection, revisions, system_namespace, lookup).is_err()
    {
        return Some(format!(
            "whether a ControllerRevision of SidecarSet \"{}\" has the customVersion \"{version}\" is not known here; the \
             condition InBundle of the SidecarSet says so",
            set.name()
        ));
    }
    check_revision(set, revisions, system_namespace, lookup, findings);
    None
}

/// Returns the revision that a bundle has for the same request of a `SidecarSet`.
fn bundled(set: &SidecarSet, selection: RequestedRevision<'_>, sets: &[SidecarSet]) -> Option<ControllerRevision> {
    let is_same = |other: &&SidecarSet| {
        other.name() == set.name() && RequestedRevision::from_sidecar_set(other) == Some(selection)
    };
    sets.iter().find(is_same).and_then(SidecarSet::revision)
}

/// Returns the revision that a `SidecarSet` requests; `None` if it requests none, or if there is none as far as can be
/// known here.
///
/// # Errors
/// The cluster did not answer.
pub fn requested(set: &SidecarSet, sources: Sources<'_>) -> Result<Option<ControllerRevision>, FieldError> {
    let Sources { revisions, sets, system_namespace, lookup, .. } = sources;
    let Some(selection) = RequestedRevision::from_sidecar_set(set) else { return Ok(None) };
    if let Some(bundled) = bundled(set, selection, sets) {
        return Ok(Some(bundled));
    }
    match requested_revision::find(set, selection, revisions, system_namespace, lookup) {
        Ok(found) => Ok(found),
        Err(error) if error.code() == Code::Unavailable => {
            Err(FieldError::invalid(place(selection), selection.value(), error.to_string()))
        }
        Err(_) => Ok(None),
    }
}

/// Checks that the revision exists and belongs to this `SidecarSet` (REV-9, DIFF-11).
pub fn check_revision(
    set: &SidecarSet,
    revisions: &[ControllerRevision],
    system_namespace: &str,
    lookup: &dyn Lookup,
    findings: &mut LookupErrors,
) {
    let Some(selection) = RequestedRevision::from_sidecar_set(set) else { return };
    let found = match requested_revision::find(set, selection, revisions, system_namespace, lookup) {
        Ok(Some(found)) => found,
        Ok(None) => return,
        Err(error) => {
            let errors = match error.code() {
                Code::Unavailable => &mut findings.unavailable,
                _ => &mut findings.invalid,
            };
            return errors.invalid(&place(selection), selection.value(), &error.to_string());
        }
    };
    check_contents(&found, selection, findings);
}

/// Returns the path of the field that requests the revision.
const fn place(selection: RequestedRevision<'_>) -> FieldPath<'static> {
    FieldPath::new(match selection {
        RequestedRevision::Name(_) => "spec.injectionStrategy.revision.revisionName",
        RequestedRevision::CustomVersion(_) => "spec.injectionStrategy.revision.customVersion",
        RequestedRevision::Previous => "spec.injectionStrategy.revision.policy",
    })
}

/// Checks that the revision stores a `SidecarSet`.
fn check_contents(found: &ControllerRevision, selection: RequestedRevision<'_>, findings: &mut LookupErrors) {
    // A revision without a spec changes nothing: the reference restores the SidecarSet as it is.
    let Some(spec) = found.data().and_then(|data| json::at(data, &["spec"])).filter(|spec| !spec.is_null()) else {
        return;
    };
    let patch = json::text(spec, &["$patch"]);
    let problem = if matches!(patch, "" | "replace" | "merge" | "delete") {
        match found.spec() {
            Ok(_) => return,
            Err(errors) => joined(&errors),
        }
    } else {
        format!("its $patch is \"{patch}\"")
    };
    let wrong = format!("the ControllerRevision cannot be used: {problem}");
    findings.invalid.invalid(&place(selection), selection.value(), &wrong);
}
