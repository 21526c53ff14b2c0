//! Validation: what `validate_settings` says beyond decoding.

use std::collections::{BTreeMap, BTreeSet};

use super::{Settings, naming, whitelist};
use crate::bundle::{Bundle, Text};
use crate::field::{Cause, FieldError, FieldPath, Place};
use crate::node::Node;
use crate::service_account::declared::Declared;
use crate::service_account::{self, validation as identity};
use crate::sidecar_set::SidecarSet;
use crate::sidecar_set::prepare::prepared;
use crate::validation::{canary, conflicts, validate_manifest};

pub(super) fn settings(settings: &Settings) -> Vec<FieldError> {
    let path = FieldPath::new("sidecarSets");
    let mut errors = Vec::new();
    let mut sets = Vec::with_capacity(settings.sidecar_sets.len());
    for set in &settings.sidecar_sets {
        sets.push(prepared(set));
    }
    if let Some(text) = &settings.bundle {
        bundled(text, &mut sets, &mut errors);
    }
    let own = settings.sidecar_sets.len();
    let mut identities: Vec<(usize, Declared)> = Vec::new();
    let mut sharing: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, set) in sets.iter().enumerate() {
        let mut wrong = validate_manifest(set);
        canary::check_base(set, &sets, &mut wrong);
        let declared = settings.gates.service_account_injection.then(|| {
            let (declared, findings) = identity::check(set, &settings.service_accounts);
            wrong.append(&mut findings.into_errors());
            declared
        });
        // As at its admission, a set meets the others once nothing else is wrong with it (V-1); a conflict is
        // reported once, at the later of the two.
        let is_fine = wrong.is_empty();
        let mut earlier = BTreeSet::new();
        for name in conflicts::names(set) {
            let sharers = sharing.entry(name).or_default();
            for sharer in sharers.iter() {
                earlier.insert(*sharer);
            }
            sharers.push(index);
        }
        if is_fine {
            for other in earlier.iter().filter_map(|index| sets.get(*index)) {
                conflicts::check(set, other, &mut wrong);
            }
        }
        if let Some(declared) = declared.filter(|declared| is_fine && declared.service_account.is_some()) {
            let mut findings = identity::Findings::default();
            for (index, theirs) in &identities {
                if let Some(other) = sets.get(*index) {
                    service_account::conflicts::check(
                        (set, &declared),
                        (other, theirs),
                        &settings.service_accounts,
                        &mut findings,
                    );
                }
            }
            wrong.append(&mut findings.into_errors());
            identities.push((index, declared));
        }
        let at = if index < own { path.index(index) } else { FieldPath::new("bundle").key(set.name()) };
        for error in wrong {
            errors.push(naming(error, &at, "SidecarSet", set.name()));
        }
    }
    if let Some(rules) = &settings.patch_pod_metadata_whitelist {
        whitelist::validate(&Node { value: rules, place: Place::new("patchPodMetadataWhitelist") }, &mut errors);
    }
    errors
}

/// Adds the sets of a bundle, every byte of which is checked; a name that `sidecarSets` has, too, is an error.
fn bundled(text: &Text, sets: &mut Vec<SidecarSet>, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new("bundle");
    let read = Bundle::read(text.as_bytes()).and_then(|bundle| bundle.verify());
    let bundled = match read {
        Ok(bundled) => bundled,
        Err(error) => return errors.push(FieldError::new(&path, Cause::Invalid, error.to_string())),
    };
    for set in bundled {
        if sets.iter().any(|own| own.name() == set.name()) {
            errors.push(FieldError::duplicate(&path.key(set.name()), set.name()));
        }
        sets.push(set);
    }
}
