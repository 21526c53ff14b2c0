//! Validation: what `validate_settings` says beyond decoding.

use super::{Settings, naming, whitelist};
use crate::field::{FieldError, FieldPath};
use crate::json;
use crate::ordered::{Map, Set};
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
    let mut sharing: Map<String, Vec<usize>> = Map::new();
    for (index, (set, own)) in sets.iter().zip(own).enumerate() {
        // As at its admission, a set meets the others once nothing else is wrong with it (V-1); a conflict is
        // reported once, at the later of the two.
        let names = names_of(set);
        let wrong = if own.is_empty() {
            let earlier: Set<usize> = names.iter().filter_map(|name| sharing.get(name)).flatten().copied().collect();
            conflicts::validate(set, earlier.iter().filter_map(|index| sets.get(*index)))
        } else {
            own
        };
        for name in names {
            sharing.or_default(name).push(index);
        }
        let at = path.index(index);
        errors.extend(wrong.into_iter().map(|error| naming(error, &at, "SidecarSet", set.name())));
    }
    if let Some(rules) = &settings.patch_pod_metadata_whitelist {
        errors.extend(whitelist::validate(rules, &FieldPath::new("patchPodMetadataWhitelist")));
    }
    errors
}

/// Everything over which two `SidecarSet`s can be in conflict. Only sets that share one of these are compared: of a
/// thousand sets there are half a million pairs.
fn names_of(set: &SidecarSet) -> Set<String> {
    let lists = [("c", set.containers()), ("i", set.init_containers()), ("v", set.volumes())];
    let named = lists
        .iter()
        .flat_map(|(list, items)| items.iter().map(move |item| format!("{list} {}", json::text(item, &["name"]))));
    let patches = set.spec(&["patchPodMetadata"]).map_or(&[][..], |patches| json::items(patches, &[]));
    let annotations =
        patches.iter().flat_map(|patch| json::string_map(patch, &["annotations"])).map(|(key, _)| format!("a {key}"));
    named.chain(annotations).collect()
}
