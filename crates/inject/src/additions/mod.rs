//! Refuses a Pod that the API server would refuse because of what is added to it (INJ-30).
//!
//! A SidecarSet is valid by itself (VAL-12). But a sidecar also gets mounts of the Pod, computed resources, and other
//! containers beside it. The API server judges the Pod after the webhooks, and its message names no SidecarSet. So
//! these are the rules of the API server that additions can break. A Pod that breaks them without the additions is left
//! to the API server.

mod mounts;
mod ports;
mod resources;
mod windows;

use std::collections::BTreeSet;

use pillion_kubernetes::annotations::ANNOTATIONS_MAX;
use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::pod::{self, Pod};
use pillion_sidecarset::sidecar::List;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

use super::container::Sidecar;

/// The length of the longest name of a container, in bytes (RFC 1123).
const NAME_MAX: usize = 63;

/// The containers that an injection adds to a Pod.
#[derive(Clone, Copy)]
pub(crate) struct Additions<'a> {
    /// The init containers as they are made.
    pub init_containers: &'a [Sidecar],
    /// The containers as they are made.
    pub containers: &'a [Sidecar],
    /// The volumes that the SidecarSets bring, each with the name of its SidecarSet.
    pub volumes: &'a [(&'a str, &'a Value)],
}

impl<'a> Additions<'a> {
    /// Returns the containers with their list.
    pub(crate) fn all(self) -> impl Iterator<Item = Added<'a>> {
        let of = |list, sidecars: &'a [Sidecar]| sidecars.iter().map(move |sidecar| Added { list, sidecar });
        of(List::Init, self.init_containers).chain(of(List::Containers, self.containers))
    }

    /// Returns the containers of a list.
    fn sidecars(self, list: List) -> &'a [Sidecar] {
        match list {
            List::Init => self.init_containers,
            List::Containers => self.containers,
        }
    }

    /// Returns the containers of the Pod that no addition replaces.
    pub(crate) fn others(self, pod: Pod<'a>, list: List) -> impl Iterator<Item = &'a Value> {
        let names: BTreeSet<&str> = self.sidecars(list).iter().map(Sidecar::name).collect();
        list.containers(pod).iter().filter(move |container| !names.contains(pod::name(container)))
    }
}

/// A container that an injection adds.
#[derive(Clone, Copy)]
pub(crate) struct Added<'a> {
    /// The list of the Pod that it goes into.
    pub list: List,
    /// The container as it is made.
    pub sidecar: &'a Sidecar,
}

impl<'a> Added<'a> {
    /// Returns the container as it is made.
    fn container(self) -> &'a Value {
        &self.sidecar.container
    }

    fn name(self) -> &'a str {
        self.sidecar.name()
    }

    /// Returns a reason to refuse the Pod because of a field of the sidecar in its SidecarSet.
    fn reason(self, field: &str, problem: String, remedy: &str) -> Reason {
        let spec = FieldPath::new("spec");
        let (list, index) = self.sidecar.written;
        let place = spec.item(list.key(), index);
        Reason::forbidden(place.child(field), problem, remedy).about(&self.sidecar.set)
    }
}

/// Returns a reason for each addition because of which the API server would refuse the Pod.
pub(crate) fn refused(pod: Pod<'_>, additions: Additions<'_>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    reasons.extend(additions.all().filter_map(too_long));
    mounts::check(pod, additions, &mut reasons);
    ports::check(pod, additions, &mut reasons);
    resources::check(pod, additions, &mut reasons);
    windows::check(pod, additions, &mut reasons);
    reasons
}

/// Returns a reason if no container can have the name: VAL-14 is younger than some SidecarSets.
fn too_long(added: Added<'_>) -> Option<Reason> {
    let name = added.name();
    (name.len() > NAME_MAX).then(|| {
        let problem = format!(
            "the SidecarSet makes the container \"{name}\", whose name has {} characters; the API server allows {NAME_MAX}",
            name.len()
        );
        added.reason("name", problem, "give the container of the SidecarSet a shorter name")
    })
}

/// Returns a reason for each SidecarSet that makes the Pod's annotations too long, if they were not so before.
pub(crate) fn too_many_annotations(before: Option<&Object>, after: &Object, sets: &[SidecarSet]) -> Vec<Reason> {
    let length = |annotations: &Object| -> usize {
        annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum()
    };
    if length(after) <= ANNOTATIONS_MAX || before.map_or(0, length) > ANNOTATIONS_MAX {
        return Vec::new();
    }
    let patches = |set: &&SidecarSet| !json::items(set.as_value(), &["spec", "patchPodMetadata"]).is_empty();
    let patching: Vec<&SidecarSet> = sets.iter().filter(patches).collect();
    // Without patches, it is the records of all SidecarSets.
    let sets = if patching.is_empty() { sets.iter().collect() } else { patching };
    let remedy = "shorten the annotations of the SidecarSet or of the Pod";
    let problem =
        format!("makes the Pod's annotations longer than {ANNOTATIONS_MAX} bytes, which the API server refuses");
    sets.into_iter()
        .map(|set| Reason::forbidden("metadata.annotations", problem.clone(), remedy).about(set.name()))
        .collect()
}

#[cfg(test)]
mod tests;
