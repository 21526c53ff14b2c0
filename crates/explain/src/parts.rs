//! The parts that a `SidecarSet` in effect adds to a Pod.

use pillion_inject::readmission;
use pillion_kubernetes::json;
use pillion_sidecarset::made;
use pillion_sidecarset::pod::{self, Pod};
use pillion_sidecarset::sidecar::{self, List};
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

/// The result for one part of a `SidecarSet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// The part is added to the Pod.
    Added,
    /// The Pod has the part already, as it would be written.
    Kept,
    /// The part replaces another version in the Pod.
    Replaced,
    /// The Pod has another object of that name, which stays.
    Shadowed,
    /// No sidecar of the set uses the part.
    Unused,
}

impl Fate {
    /// Returns the name for machines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Added => "Added",
            Self::Kept => "Kept",
            Self::Replaced => "Replaced",
            Self::Shadowed => "Shadowed",
            Self::Unused => "Unused",
        }
    }
}

/// A container that comes from a `SidecarSet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its name in the Pod.
    pub name: String,
    /// The list of the Pod that contains it.
    pub list: List,
    /// Its name in the `SidecarSet`, if hot upgrade makes a pair of it.
    pub half_of: Option<String>,
    /// Whether it is an init container that runs as long as the Pod does.
    pub is_native: bool,
    /// Its index in the list of the Pod, from 0.
    pub index: usize,
    /// The length of that list.
    pub of: usize,
    /// The result for it.
    pub fate: Fate,
}

/// A volume, a pull secret or an annotation that comes from a `SidecarSet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// The result for it.
    pub fate: Fate,
}

/// All parts that a `SidecarSet` contributes to a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Containers: init containers first, each list in the order of the `SidecarSet`.
    pub containers: Vec<Container>,
    /// Volumes, in the order of the `SidecarSet`.
    pub volumes: Vec<Part>,
    /// Secrets to pull images with, in the order of the `SidecarSet`.
    pub pull_secrets: Vec<Part>,
    /// Annotations of `patchPodMetadata`, in the order of the `SidecarSet`, without duplicates.
    pub annotations: Vec<Part>,
}

impl Parts {
    /// Whether the Pod has all parts already. False if there are no containers.
    pub fn are_there(&self) -> bool {
        let rest = self.volumes.iter().chain(&self.pull_secrets).chain(&self.annotations);
        let fates = self.containers.iter().map(|container| container.fate).chain(rest.map(|part| part.fate));
        fates.into_iter().all(|fate| !matches!(fate, Fate::Added | Fate::Replaced)) && !self.containers.is_empty()
    }
}

/// Returns the parts of `set`, from a comparison of the Pod `before` and `after` injection.
pub fn compare(set: &SidecarSet, before: Pod<'_>, after: Pod<'_>) -> Parts {
    Parts {
        containers: containers(set, before, after),
        volumes: volumes(set, before),
        pull_secrets: pull_secrets(set, before),
        annotations: annotations(set, before, after),
    }
}

fn named<'a>(items: &'a [Value], name: &str) -> Option<(usize, &'a Value)> {
    items.iter().enumerate().find(|(_, item)| pod::name(item) == name)
}

fn containers(set: &SidecarSet, before: Pod<'_>, after: Pod<'_>) -> Vec<Container> {
    let mut containers = Vec::new();
    for (kind, _, sidecar) in made::sidecars(set) {
        let (had, has) = (kind.containers(before), kind.containers(after));
        for name in sidecar::names_in_pod(sidecar, kind) {
            let Some((index, now)) = named(has, &name) else { continue };
            let fate = match named(had, &name) {
                None => Fate::Added,
                Some((_, then)) if then == now => Fate::Kept,
                Some(_) => Fate::Replaced,
            };
            let base = pod::name(sidecar);
            containers.push(Container {
                half_of: (name != base).then(|| base.to_owned()),
                name,
                list: kind,
                is_native: kind == List::Init && sidecar::is_native(sidecar),
                index,
                of: has.len(),
                fate,
            });
        }
    }
    containers
}

fn volumes(set: &SidecarSet, before: Pod<'_>) -> Vec<Part> {
    let is_used = |name: &str| {
        made::sidecars(set).any(|(_, _, sidecar)| {
            let uses = json::items(sidecar, &["volumeMounts"]).iter().chain(json::items(sidecar, &["volumeDevices"]));
            uses.into_iter().any(|item| pod::name(item) == name)
        })
    };
    let fate = |volume: &Value| match named(before.volumes(), pod::name(volume)) {
        _ if !is_used(pod::name(volume)) => Fate::Unused,
        None => Fate::Added,
        Some((_, there)) if readmission::covers_volume(there, volume) => Fate::Kept,
        Some(_) => Fate::Shadowed,
    };
    set.volumes().iter().map(|volume| Part { name: pod::name(volume).to_owned(), fate: fate(volume) }).collect()
}

fn pull_secrets(set: &SidecarSet, before: Pod<'_>) -> Vec<Part> {
    let own = json::items(before.as_value(), &["spec", "imagePullSecrets"]);
    let secrets = json::items(set.as_value(), &["spec", "imagePullSecrets"]).iter().map(pod::name);
    let fate = |name: &str| if named(own, name).is_some() { Fate::Kept } else { Fate::Added };
    secrets.map(|name| Part { name: name.to_owned(), fate: fate(name) }).collect()
}

/// If several sets write one annotation, the result for each set is based on the final value.
fn annotations(set: &SidecarSet, before: Pod<'_>, after: Pod<'_>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let of = |pod: Pod<'_>, key: &str| pod.annotations().and_then(|annotations| annotations.get(key)).cloned();
    for patch in json::items(set.as_value(), &["spec", "patchPodMetadata"]) {
        for key in json::object(patch, &["annotations"]).into_iter().flat_map(json::Object::keys) {
            let fate = match (of(before, key), of(after, key)) {
                (None, Some(_)) => Fate::Added,
                (Some(then), Some(now)) if then != now => Fate::Replaced,
                (Some(then), _) if json::at(patch, &["annotations", key]) == Some(&then) => Fate::Kept,
                (Some(_), _) if json::text(patch, &["patchPolicy"]) == "MergePatchJson" => Fate::Kept,
                (Some(_), _) => Fate::Shadowed,
                // A patch of an unknown policy is ignored (INJ-10).
                (None, None) => Fate::Unused,
            };
            if !parts.iter().any(|part| part.name == *key) {
                parts.push(Part { name: key.clone(), fate });
            }
        }
    }
    parts
}
