//! `spec.injectionStrategy` (V-6).

use crate::controller_revision::ControllerRevision;
use crate::field::{FieldError, Place, Report, joined};
use crate::json;
use crate::lookup::Lookup;
use crate::node::Node;
use crate::outcome::Code;
use crate::revision::{self, Selection};
use crate::sidecar_set::SidecarSet;

use super::Findings;

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

/// The revision must be there and belong to this `SidecarSet`.
pub fn check_revision(
    set: &SidecarSet,
    revisions: &[ControllerRevision],
    system_namespace: &str,
    lookup: &dyn Lookup,
    findings: &mut Findings,
) {
    let Some(selection) = Selection::of(set) else { return };
    let revision = Place::new("spec.injectionStrategy.revision");
    let at = revision.child(selection.field());
    let found = match revision::find(set, selection, revisions, system_namespace, lookup) {
        Ok(found) => found,
        Err(error) => {
            let errors = match error.code() {
                Code::Unavailable => &mut findings.unavailable,
                _ => &mut findings.invalid,
            };
            return errors.invalid(&at, selection.value(), &error.to_string());
        }
    };
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
    findings.invalid.invalid(&at, selection.value(), &wrong);
}
