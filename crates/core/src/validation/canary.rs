//! Canary annotations (V-3, section 1.6).

use crate::field::{FieldError, FieldPath};
use crate::names;
use crate::sidecar_set::SidecarSet;

fn base_path() -> FieldPath {
    FieldPath::new("metadata").child("annotations").key(names::BASE)
}

/// What a canary alone can get wrong.
pub fn validate(set: &SidecarSet) -> Vec<FieldError> {
    let Some(base) = set.canary_of() else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    if base == set.name() {
        errors.push(FieldError::invalid(&base_path(), base, "a SidecarSet cannot be its own base"));
    }
    if super::update_type(set) != super::NOT_UPDATE {
        let path = FieldPath::new("metadata").child("annotations").key(names::CANARY);
        let wrong = "a canary cannot roll out updates; set spec.updateStrategy.type to NotUpdate";
        errors.push(FieldError::invalid(&path, "true", wrong));
    }
    errors
}

/// Its base: it must be among the other `SidecarSet`s and no canary itself.
pub fn validate_base(set: &SidecarSet, others: &[SidecarSet]) -> Vec<FieldError> {
    let Some(base) = set.canary_of().filter(|base| *base != set.name()) else {
        return Vec::new();
    };
    let wrong = match others.iter().find(|other| other.name() == base) {
        None => "the base is not among the SidecarSets of this policy; add it to its settings first",
        Some(other) if other.canary_of().is_some() => "the base is a canary itself; name its base instead",
        Some(_) => return Vec::new(),
    };
    vec![FieldError::invalid(&base_path(), base, wrong)]
}

/// An update must not move a canary to another base.
pub fn validate_update(set: &SidecarSet, old: &SidecarSet) -> Vec<FieldError> {
    match set.canary_of() {
        Some(base) if old.annotation(names::BASE) != base => {
            let wrong = "the base of a canary is immutable; delete the SidecarSet and create it again";
            vec![FieldError::invalid(&base_path(), base, wrong)]
        }
        _ => Vec::new(),
    }
}
