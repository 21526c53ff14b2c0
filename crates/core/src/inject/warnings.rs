//! What injection does that may surprise (the issue of parity): said once, on one line, with the remedy.

use serde_json::Value;

use super::clash;
use super::container::Sidecar;
use super::place::Shadowed;
use super::readmission;
use super::sources::Missing;
use crate::json;
use crate::ordered::Set;
use crate::pod::{self, Pod};
use crate::sidecar_set::SidecarSet;

/// Variables that a transferEnv entry names and that the Pod does not have (M-16).
pub fn missing(missing: &[(&str, String, Missing)]) -> Vec<String> {
    let text = |(set, sidecar, missing): &(&str, String, Missing)| {
        let what = match missing {
            Missing::Container(name) if name.is_empty() => "transferEnv names no source container".to_owned(),
            Missing::Container(name) => format!("transferEnv source container \"{name}\" is not in the Pod"),
            Missing::Variable { container, variable } => {
                format!("transferEnv variable \"{variable}\" is not set in container \"{container}\"")
            }
            Missing::PodName => "transferEnv names its source by metadata.name, and the Pod has no name yet".to_owned(),
            Missing::Field(path) => format!("transferEnv finds no container name in {path}"),
        };
        format!("SidecarSet {set}: {sidecar}: {what}; nothing was copied")
    };
    let unique: Set<String> = missing.iter().map(text).collect();
    unique.into_iter().collect()
}

/// Volumes of a set that gave way to a different volume of the same name (M-26).
pub fn shadowed(shadowed: &[Shadowed<'_>]) -> Vec<String> {
    let differs = |shadowed: &&Shadowed<'_>| !readmission::covers_volume(&shadowed.by, &shadowed.volume);
    let text = |shadowed: &Shadowed<'_>| {
        format!(
            "SidecarSet {}: volume \"{}\" is already in the Pod with another definition, which is used; rename one of \
             them if that is not meant",
            shadowed.set,
            pod::name(&shadowed.volume)
        )
    };
    let unique: Set<String> = shadowed.iter().filter(differs).map(text).collect();
    unique.into_iter().collect()
}

/// Plain sidecars in a Pod of a Job: it does not finish before they do.
pub fn job(pod: Pod<'_>, sidecars: &[Sidecar]) -> Vec<String> {
    if !pod.belongs_to_job() {
        return Vec::new();
    }
    sidecars
        .iter()
        .map(|sidecar| {
            format!(
                "SidecarSet {}: container \"{}\" may keep the Job from finishing; make it an init container with \
                 restartPolicy Always",
                sidecar.set,
                sidecar.name()
            )
        })
        .collect()
}

/// Mounts of volumes that are not among `volumes`, those of the Pod after injection: the API server will refuse the
/// Pod (M-26).
pub fn unknown_volumes(volumes: &[Value], sets: &[SidecarSet]) -> Vec<String> {
    let known: Set<&str> = volumes.iter().map(pod::name).collect();
    let mut warnings = Vec::new();
    for set in sets {
        for (_, _, sidecar) in clash::sidecars(set) {
            let uses = json::items(sidecar, &["volumeMounts"]).iter().chain(json::items(sidecar, &["volumeDevices"]));
            let unknown: Set<&str> =
                uses.map(|item: &Value| pod::name(item)).filter(|name| !known.contains(name)).collect();
            warnings.extend(unknown.into_iter().map(|volume| {
                format!(
                    "SidecarSet {}: {} uses volume \"{volume}\", which neither the SidecarSet nor the Pod has; add it",
                    set.name(),
                    pod::name(sidecar)
                )
            }));
        }
    }
    warnings
}
