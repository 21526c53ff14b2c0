//! Putting sidecars into the Pod's lists (M-23 to M-27).

use std::collections::BTreeSet;

use serde_json::Value;

use super::container::{List, Sidecar};
use super::readmission;
use crate::json::{self, Object};
use crate::pod;

/// Puts sidecars into one of the Pod's lists: in the place of a container of the same name, else before or after all
/// of the Pod's own (M-25). A container of ours that is there already and says what we would say stays as it is.
pub fn containers(spec: &mut Object, list: List, sidecars: Vec<Sidecar>) {
    if sidecars.is_empty() {
        return;
    }
    let Some(existing) = json::list_mut(spec, list.key()) else { return };
    let (mut before, mut after) = (Vec::new(), Vec::new());
    // A stored set may have one name twice: each of its containers gets a place of its own.
    let mut taken = BTreeSet::new();
    for sidecar in sidecars {
        let Sidecar { container, before: goes_before, .. } = sidecar;
        let (mut place, mut is_ours) = (None, false);
        for (index, there) in existing.iter().enumerate() {
            if taken.contains(&index) || pod::name(there) != pod::name(&container) {
                continue;
            }
            is_ours = readmission::covers(there, &container);
            if is_ours {
                place = Some(index);
                break;
            }
            place = place.or(Some(index));
        }
        match place.and_then(|index| Some((index, existing.get_mut(index)?))) {
            Some((index, there)) => {
                taken.insert(index);
                if !is_ours {
                    *there = readmission::replacement(there, container);
                }
            }
            None if goes_before => before.push(container),
            None => after.push(container),
        }
    }
    before.append(existing);
    before.append(&mut after);
    *existing = before;
}

/// A volume of a set that gave way to one that was there already.
#[derive(Clone, Debug, PartialEq)]
pub struct Shadowed<'a> {
    /// The `SidecarSet`'s name.
    pub set: &'a str,
    /// Its volume.
    pub volume: Value,
    /// The volume in the Pod.
    pub by: Value,
}

/// Appends volumes whose names are free (M-26); answers those that were not.
pub fn volumes<'a>(spec: &mut Object, volumes: Vec<(&'a str, Value)>) -> Vec<Shadowed<'a>> {
    let mut shadowed = Vec::new();
    if volumes.is_empty() {
        return shadowed;
    }
    let Some(existing) = json::list_mut(spec, "volumes") else { return shadowed };
    for (set, volume) in volumes {
        match existing.iter().find(|existing| pod::name(existing) == pod::name(&volume)) {
            Some(by) => shadowed.push(Shadowed { set, by: by.clone(), volume }),
            None => existing.push(volume),
        }
    }
    shadowed
}

/// Appends secrets whose names are free; duplicates that the Pod brought go as well (M-27).
pub fn pull_secrets(spec: &mut Object, secrets: &[&Value]) {
    let own = spec.get("imagePullSecrets").and_then(Value::as_array).map_or(0, Vec::len);
    if own == 0 && secrets.is_empty() {
        return;
    }
    let Some(existing) = json::list_mut(spec, "imagePullSecrets") else { return };
    let mut names = BTreeSet::new();
    existing.retain(|secret| names.insert(pod::name(secret).to_owned()));
    for secret in secrets {
        if names.insert(pod::name(secret).to_owned()) {
            existing.push((*secret).clone());
        }
    }
}
