//! Validation of canary annotations (VAL-3, API-13).

use pillion_kubernetes::field::{FieldError, FieldErrors, FieldPath};

use crate::names;
use crate::sidecar_set::SidecarSet;

const ANNOTATIONS: FieldPath<'static> = FieldPath::new("metadata.annotations");
/// The path of the annotation that names the base.
const BASE: FieldPath<'static> = ANNOTATIONS.key(names::BASE);

/// Checks the rules for a canary that need no other object.
pub(super) fn check(set: &SidecarSet, errors: &mut Vec<FieldError>) {
    let Some(base) = set.canary_of() else { return };
    if base == set.name() {
        errors.invalid(&BASE, base, "a SidecarSet cannot be its own base");
    }
    if super::update_type(set) != super::NOT_UPDATE {
        let wrong = "a canary cannot roll out updates; set spec.updateStrategy.type to NotUpdate";
        errors.invalid(&ANNOTATIONS.key(names::CANARY), "true", wrong);
    }
}

/// Checks that the base of a canary is among the other `SidecarSet`s and is not a canary itself.
pub fn check_base(set: &SidecarSet, others: &[SidecarSet], errors: &mut Vec<FieldError>) {
    let Some(base) = set.canary_of().filter(|base| *base != set.name()) else { return };
    let wrong = match others.iter().find(|other| other.name() == base) {
        None => "the base is not among the SidecarSets of this policy; add it to its settings first",
        Some(other) if other.canary_of().is_some() => "the base is a canary itself; name its base instead",
        Some(_) => return,
    };
    errors.invalid(&BASE, base, wrong);
}

/// TRUST-4: checks that a new canary of the cluster does not name a base that is in the settings. One that exists may be
/// changed: it is left out where its base is injected.
pub fn check_trust(set: &SidecarSet, old: Option<&SidecarSet>, others: &[SidecarSet], errors: &mut Vec<FieldError>) {
    let Some(base) = set.canary_of().filter(|base| old.is_none_or(|old| old.canary_of() != Some(base))) else {
        return;
    };
    if !set.is_of_settings() && others.iter().any(|other| other.name() == base && other.is_of_settings()) {
        let wrong = "the base is a SidecarSet of the policy's settings, which only a canary of the settings replaces; write \
                     the canary into the settings";
        errors.invalid(&BASE, base, wrong);
    }
}

/// Checks that an update does not change the base of a canary.
pub(super) fn check_update(set: &SidecarSet, old: &SidecarSet, errors: &mut Vec<FieldError>) {
    if let Some(base) = set.canary_of()
        && old.annotation(names::BASE) != base
    {
        let wrong = "the base of a canary is immutable; delete the SidecarSet and create it again";
        errors.invalid(&BASE, base, wrong);
    }
}
