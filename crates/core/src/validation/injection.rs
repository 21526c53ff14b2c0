//! `spec.injectionStrategy` (V-6).

use crate::controller_revision::ControllerRevision;
use crate::field::{FieldError, FieldPath};
use crate::json;
use crate::lookup::Lookup;
use crate::revision::{self, Selection};
use crate::sidecar_set::SidecarSet;

use super::Finding;

/// Which Pods get the revision.
const POLICIES: [&str; 2] = ["Always", "Partial"];

fn path() -> FieldPath {
    FieldPath::new("spec").child("injectionStrategy").child("revision")
}

/// What needs no look-up: the revision must be named, and its policy known.
pub fn validate(set: &SidecarSet) -> Vec<FieldError> {
    let Some(revision) = set.spec(&["injectionStrategy", "revision"]) else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    if Selection::of(set).is_none() {
        errors.push(FieldError::required(&path(), "set revisionName or customVersion, or remove revision"));
    }
    let policy = json::text(revision, &["policy"]);
    if !policy.is_empty() && !POLICIES.contains(&policy) {
        errors.push(FieldError::not_supported(&path().child("policy"), policy, &POLICIES));
    }
    errors
}

/// The revision must be there and belong to this `SidecarSet`.
pub fn validate_revision(
    set: &SidecarSet,
    revisions: &[ControllerRevision],
    system_namespace: &str,
    lookup: &dyn Lookup,
) -> Vec<Finding> {
    let Some(selection) = Selection::of(set) else {
        return Vec::new();
    };
    let at = path().child(selection.field());
    let found = match revision::find(set, selection, revisions, system_namespace, lookup) {
        Ok(found) => found,
        Err(error) => {
            let wrong = FieldError::invalid(&at, selection.value(), error.to_string());
            return vec![Finding { error: wrong, code: error.code() }];
        }
    };
    // A revision without a spec changes nothing: the reference restores the SidecarSet as it is.
    let spec = found.data().and_then(|data| json::at(data, &["spec"])).filter(|spec| !spec.is_null());
    let patch = spec.map_or("", |spec| json::text(spec, &["$patch"]));
    if !matches!(patch, "" | "replace" | "merge" | "delete") {
        let wrong = format!("the ControllerRevision cannot be used: its $patch is \"{patch}\"");
        return vec![FieldError::invalid(&at, selection.value(), wrong).into()];
    }
    match spec.map(|_| found.spec()) {
        None | Some(Ok(_)) => Vec::new(),
        Some(Err(errors)) => {
            let wrong = format!("the ControllerRevision cannot be used: {}", super::joined(&errors));
            vec![FieldError::invalid(&at, selection.value(), wrong).into()]
        }
    }
}
