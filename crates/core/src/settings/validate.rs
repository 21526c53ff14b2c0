//! Validation: what `validate_settings` says beyond decoding.

use super::{Settings, naming, whitelist};
use crate::field::{FieldError, FieldPath};
use crate::sidecar_set::SidecarSet;
use crate::sidecar_set::prepare::prepared;
use crate::validation::{canary, conflicts, validate_manifest};

pub(super) fn settings(settings: &Settings) -> Vec<FieldError> {
    let path = FieldPath::new("sidecarSets");
    let sets: Vec<SidecarSet> = settings.sidecar_sets.iter().map(prepared).collect();
    let own: Vec<Vec<FieldError>> = sets
        .iter()
        .map(|set| {
            let mut errors = validate_manifest(set);
            errors.extend(canary::validate_base(set, &sets));
            errors
        })
        .collect();
    let mut errors = Vec::new();
    for (index, (set, own)) in sets.iter().zip(own).enumerate() {
        // As at its admission, a set meets the others once nothing else is wrong with it (V-1); a conflict is
        // reported once, at the later of the two.
        let wrong = if own.is_empty() { conflicts::validate(set, sets.get(..index).unwrap_or_default()) } else { own };
        let at = path.index(index);
        errors.extend(wrong.into_iter().map(|error| naming(error, &at, "SidecarSet", set.name())));
    }
    if let Some(rules) = &settings.patch_pod_metadata_whitelist {
        errors.extend(whitelist::validate(rules, &FieldPath::new("patchPodMetadataWhitelist")));
    }
    errors
}
