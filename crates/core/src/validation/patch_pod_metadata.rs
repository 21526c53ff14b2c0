//! `spec.patchPodMetadata` (V-13), without the whitelist.

use crate::field::{FieldError, FieldPath};
use crate::json;
use crate::ordered::Set;
use crate::sidecar_set::SidecarSet;

/// Checks that every entry has annotations and a policy, and that none patches a key that another one patches.
pub fn validate(set: &SidecarSet) -> Vec<FieldError> {
    let list = FieldPath::new("spec").child("patchPodMetadata");
    let mut errors = Vec::new();
    let mut keys = Set::new();
    for (index, patch) in
        set.spec(&["patchPodMetadata"]).map_or(&[][..], |list| json::items(list, &[])).iter().enumerate()
    {
        let at = list.index(index);
        match json::at(patch, &["annotations"]).filter(|map| map.as_object().is_some_and(|map| !map.is_empty())) {
            None => errors.push(FieldError::required(&at.child("annotations"), "list the annotations to patch")),
            Some(map) => errors.extend(super::metadata::validate_annotations(map, &at.child("annotations"))),
        }
        if json::text(patch, &["patchPolicy"]).is_empty() {
            errors.push(FieldError::required(&at.child("patchPolicy"), "use Retain, Overwrite or MergePatchJson"));
        }
        for (key, _) in json::string_map(patch, &["annotations"]) {
            if !keys.insert(key) {
                let wrong = "another entry patches this annotation too; keep one of them";
                errors.push(FieldError::invalid(&at.child("annotations").key(key), key, wrong));
            }
        }
    }
    errors
}
