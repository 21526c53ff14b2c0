//! Warnings about an injection: each appears once, on one line, with the remedy.

mod unsuited;

use std::collections::BTreeSet;

use pillion_kubernetes::json;
use pillion_sidecarset::made;
use pillion_sidecarset::pod;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

pub(crate) use self::unsuited::unsuited;
use crate::place::Shadowed;
use crate::sources::Missing;

/// Warns of variables that a transferEnv entry names and that the Pod does not have (INJ-16).
pub fn missing(missing: &[(&str, String, Missing)]) -> Vec<String> {
    let text = |(set, sidecar, missing): &(&str, String, Missing)| {
        let what = match missing {
            Missing::Container(name) if name.is_empty() => "transferEnv names no source container".to_owned(),
            Missing::Container(name) => format!("transferEnv source container \"{name}\" is not in the Pod"),
            Missing::InitContainer(name) => {
                format!("transferEnv source container \"{name}\" is an init container; only containers are sources")
            }
            Missing::Injected(name) => {
                let why = "\" is injected; only the Pod's own containers are sources";
                format!("transferEnv source container \"{name}{why}")
            }
            Missing::Variable { container, variable } => {
                format!("transferEnv variable \"{variable}\" is not set in container \"{container}\"")
            }
            Missing::PodName => "transferEnv names its source by metadata.name, and the Pod has no name yet".to_owned(),
            Missing::Field(path) => format!("transferEnv finds no container name in {path}"),
            Missing::More => "transferEnv names more that the Pod does not have".to_owned(),
        };
        format!("SidecarSet {set}: {sidecar}: {what}; nothing was copied")
    };
    // The warnings are almost sorted, so sorting is cheaper than a tree of texts with common prefixes (E18).
    let mut warnings: Vec<String> = missing.iter().map(text).collect();
    warnings.sort();
    warnings.dedup();
    warnings
}

/// Warns of volumes of a set that are not used because the Pod has a different volume of the same name (INJ-26).
pub fn shadowed(shadowed: &[Shadowed<'_>]) -> Vec<String> {
    let unique: BTreeSet<String> = shadowed
        .iter()
        .map(|Shadowed { set, volume }| {
            format!(
                "SidecarSet {set}: volume \"{volume}\" is already in the Pod with another definition, which is used; \
                 rename one of them if that is not meant"
            )
        })
        .collect();
    unique.into_iter().collect()
}

/// Warns of mounts of volumes that are not among `volumes`, those of the Pod after injection. The API server will
/// refuse such a Pod (INJ-26).
pub(crate) fn unknown_volumes(volumes: &[Value], sets: &[SidecarSet]) -> Vec<String> {
    let known: BTreeSet<&str> = volumes.iter().map(pod::name).collect();
    let mut warnings = Vec::new();
    for set in sets {
        for (_, _, sidecar) in made::sidecars(set) {
            let mut unknown = BTreeSet::new();
            for list in ["volumeMounts", "volumeDevices"] {
                for item in json::items(sidecar, &[list]) {
                    if !known.contains(pod::name(item)) {
                        unknown.insert(pod::name(item));
                    }
                }
            }
            for volume in unknown {
                let (set, sidecar) = (set.name(), pod::name(sidecar));
                warnings.push(format!(
                    "SidecarSet {set}: {sidecar} uses volume \"{volume}\", which neither the SidecarSet nor the Pod has; \
                     add it"
                ));
            }
        }
    }
    warnings
}
