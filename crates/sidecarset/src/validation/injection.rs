//! `spec.injectionStrategy` (V-6).

use pillion_kubernetes::field::{FieldError, FieldErrors, FieldPath, joined};
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::Lookup;
use pillion_kubernetes::node::Node;
use pillion_kubernetes::outcome::Code;

use super::Findings;
use crate::controller_revision::ControllerRevision;
use crate::revision::{self, Selection};
use crate::sidecar_set::SidecarSet;

/// Which Pods get the revision.
const POLICIES: [&str; 2] = ["Always", "Partial"];

/// What needs no look-up: the revision must be named, and its policy known.
pub(super) fn check(set: &SidecarSet, spec: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let strategy = spec.part("injectionStrategy");
    let Some(revision) = &strategy.get("revision") else { return };
    if Selection::of(set).is_none() {
        errors.required(&revision.place, "set revisionName or customVersion, or remove revision");
    }
    if !revision.is_empty("policy") {
        revision.known("policy", &POLICIES, errors);
    }
}

/// Where the revision of a `SidecarSet` that is written may be.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The ControllerRevisions of the settings.
    pub revisions: &'a [ControllerRevision],
    /// The `SidecarSet`s of the settings and of bundles, which bring their revisions with them.
    pub sets: &'a [SidecarSet],
    /// Whether a controller compiles the `SidecarSet`s of the cluster with their revisions (`bundleRef`).
    pub is_watched: bool,
    /// Where other ControllerRevisions are looked up.
    pub system_namespace: &'a str,
    /// The cluster.
    pub lookup: &'a dyn Lookup,
}

/// Checks the revision of a `SidecarSet` that is written; answers what could not be told.
///
/// Nothing is looked for where an update asks for the same revision as before: it may have gone, and whoever changes
/// anything else is not at fault. A `customVersion` cannot be looked up in the cluster, since that would need a list. Where
/// a controller does that, whether it is there is said by the condition `InBundle` of the `SidecarSet`.
pub fn check_written(
    set: &SidecarSet,
    old: Option<&SidecarSet>,
    sources: Sources<'_>,
    findings: &mut Findings,
) -> Option<String> {
    let Sources { revisions, sets, is_watched, system_namespace, lookup } = sources;
    let selection = Selection::of(set)?;
    if old.and_then(Selection::of) == Some(selection) {
        return None;
    }
    let is_same = |other: &&SidecarSet| other.name() == set.name() && Selection::of(other) == Some(selection);
    if let Some(bundled) = sets.iter().find(is_same).and_then(SidecarSet::revision) {
        check_contents(&bundled, selection, findings);
        return None;
    }
    if let (true, Selection::CustomVersion(version)) = (is_watched, selection)
        && revision::find(set, selection, revisions, system_namespace, lookup).is_err()
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

/// The revision must be there and belong to this `SidecarSet`.
pub fn check_revision(
    set: &SidecarSet,
    revisions: &[ControllerRevision],
    system_namespace: &str,
    lookup: &dyn Lookup,
    findings: &mut Findings,
) {
    let Some(selection) = Selection::of(set) else { return };
    let found = match revision::find(set, selection, revisions, system_namespace, lookup) {
        Ok(found) => found,
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

/// The field that selects the revision.
const fn place(selection: Selection<'_>) -> FieldPath<'static> {
    FieldPath::new(match selection {
        Selection::Name(_) => "spec.injectionStrategy.revision.revisionName",
        Selection::CustomVersion(_) => "spec.injectionStrategy.revision.customVersion",
    })
}

/// What is stored in the revision must be a `SidecarSet`'s.
fn check_contents(found: &ControllerRevision, selection: Selection<'_>, findings: &mut Findings) {
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
        ["its $patch is \"", patch, "\""].concat()
    };
    let wrong = ["the ControllerRevision cannot be used: ", &problem].concat();
    findings.invalid.invalid(&place(selection), selection.value(), &wrong);
}
