//! Puts sidecars into the Pod's lists (INJ-23 to INJ-27).

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::json::{self, Object};
use pillion_sidecarset::pod;
use pillion_sidecarset::sidecar::List;
use serde_json::Value;

use super::container::Sidecar;
use super::kept::Kept;
use super::readmission;

/// The most containers of one name that are compared with a sidecar. The API server accepts only one.
const TRIED_MAX: usize = 8;

/// Takes the containers out of a list of the Pod that sidecars of the other list replace: an earlier injection put them
/// there in the other form (NAT-4). [`clash`](super::clash) has refused any container that is not one of ours.
pub fn take_moved(spec: &mut Object, list: List, others: &[Sidecar]) {
    let names: BTreeSet<&str> = others.iter().map(Sidecar::name).collect();
    let is_moved = |container: &Value| names.contains(pod::name(container));
    if let Some(Value::Array(existing)) = spec.get_mut(list.key())
        && existing.iter().any(is_moved)
    {
        existing.retain(|container| !is_moved(container));
    }
}

/// Puts sidecars into one of the Pod's lists, before or after all other containers (INJ-25). A sidecar takes the place
/// of a container of its name, which stays as it is if it equals the sidecar (ORDER-4). One that goes before the others
/// does not stay where it is (ORDER-7). Returns the sidecars that differed and were replaced.
pub fn containers(spec: &mut Object, list: List, sidecars: Vec<Sidecar>, kept: &Kept<'_>) -> Vec<SetBack> {
    let mut set_back = Vec::new();
    if sidecars.is_empty() {
        return set_back;
    }
    let Some(existing) = json::list_mut(spec, list.key()) else { return set_back };
    let (mut before, mut after) = (Vec::new(), Vec::new());
    // Only index containers with the name of a sidecar; most have another.
    let names: BTreeSet<&str> = sidecars.iter().map(Sidecar::name).collect();
    let mut free: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for (index, there) in existing.iter().enumerate().filter(|(_, there)| names.contains(pod::name(there))) {
        free.entry(pod::name(there).to_owned()).or_default().insert(index);
    }
    let mut taken = BTreeSet::new();
    for sidecar in sidecars {
        let goes_before = sidecar.before;
        let (mut place, mut is_ours) = (None, false);
        // A stored set may contain a name twice: each of its containers takes another place.
        let mut places = free.get_mut(sidecar.name());
        for index in places.iter().flat_map(|places| places.iter().copied()).take(TRIED_MAX) {
            let Some(there) = existing.get(index) else { continue };
            let wanted = kept.container(there, &sidecar);
            is_ours = readmission::covers(there, wanted.as_ref().unwrap_or(&sidecar.container));
            if is_ours {
                place = Some(index);
                break;
            }
            place = place.or(Some(index));
        }
        let found = place.and_then(|index| Some((index, existing.get_mut(index)?)));
        let Some((index, there)) = found else {
            if goes_before { &mut before } else { &mut after }.push(sidecar.container);
            continue;
        };
        if let Some(places) = &mut places {
            places.remove(&index);
        }
        if !is_ours {
            let container = kept.container(there, &sidecar).unwrap_or(sidecar.container);
            if pod::is_injected(there) {
                let mut fields = readmission::set_back(there, &container);
                // Computed anew from the resources that the app has now.
                fields.retain(|field| !(sidecar.is_computed && field == "resources"));
                set_back.push(SetBack { set: sidecar.set, sidecar: pod::name(there).to_owned(), fields });
            }
            *there = readmission::replacement(there, container);
        }
        if goes_before {
            before.push(std::mem::take(there));
            taken.insert(index);
        }
    }
    let others = std::mem::take(existing).into_iter().enumerate().filter(|(index, _)| !taken.contains(index));
    before.extend(others.map(|(_, container)| container));
    before.append(&mut after);
    *existing = before;
    set_back
}

/// A sidecar that was in the Pod, differed from the one of its SidecarSet, and was replaced (ORDER-8).
#[derive(Clone, Debug, PartialEq)]
pub struct SetBack {
    /// The `SidecarSet`'s name.
    pub set: String,
    /// The name of the container.
    pub sidecar: String,
    /// What differed, as in `image` and `env[HTTP_PROXY]`. It may be empty.
    pub fields: Vec<String>,
}

/// A volume of a set that was not added because the Pod has another volume of this name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shadowed<'a> {
    /// The `SidecarSet`'s name.
    pub set: &'a str,
    /// The volume's name.
    pub volume: &'a str,
}

/// Appends volumes whose names are free (INJ-26). Returns those that were not added because the existing volume
/// differs.
pub fn volumes<'a>(spec: &mut Object, volumes: &[(&'a str, &'a Value)]) -> Vec<Shadowed<'a>> {
    let mut shadowed = Vec::new();
    if volumes.is_empty() {
        return shadowed;
    }
    let Some(existing) = json::list_mut(spec, "volumes") else { return shadowed };
    // Of several volumes with one name, the first counts. Only index names of the sets' volumes; most have another.
    let names: BTreeSet<&str> = volumes.iter().map(|(_, volume)| pod::name(volume)).collect();
    let mut indices: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, volume) in existing.iter().enumerate() {
        if let Some(name) = names.get(pod::name(volume)) {
            indices.entry(name).or_insert(index);
        }
    }
    for (set, volume) in volumes.iter().copied() {
        let name = pod::name(volume);
        match indices.get(name).and_then(|index| existing.get(*index)) {
            Some(by) if readmission::covers_volume(by, volume) => {}
            Some(_) => shadowed.push(Shadowed { set, volume: name }),
            None => {
                indices.insert(name, existing.len());
                existing.push(volume.clone());
            }
        }
    }
    shadowed
}

/// Appends secrets whose names are free. Also removes duplicates that were in the Pod (INJ-27).
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
