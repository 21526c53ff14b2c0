//! Warnings about volumes for which the cluster autoscaler keeps a node that it would remove.

use std::collections::BTreeSet;

use pillion_kubernetes::json;
use pillion_sidecarset::made;
use serde_json::Value;

use super::pods::{Created, Selection};
use crate::report::{Finding, OptionalRule};
use crate::subject::Subject;

/// The annotation with the volumes of a Pod that may be lost, separated by commas.
const SAFE_VOLUMES: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";
/// The annotation that says whether a Pod may be evicted, whatever else it has.
const SAFE: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";

/// Returns warnings about local volumes of `SidecarSet`s, unless all their Pods in the documents let a node go, or keep
/// it, without regard to them.
pub(super) fn kept(selection: &Selection<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for subject in selection.group() {
        let volumes = unsafe_volumes(subject);
        if volumes.is_empty() {
            continue;
        }
        let pods = selection.pods(subject);
        // The value is that of all volumes: a later annotation would replace an earlier one.
        let names: Vec<&str> = local_volumes(subject.prepared.volumes()).map(|(_, name)| name).collect();
        for (index, volume) in volumes {
            if !pods.is_empty() && pods.iter().all(|created| is_indifferent(created, volume)) {
                continue;
            }
            let message =
                "the cluster autoscaler keeps the node of a Pod that has this volume: it counts as data of the node";
            let remedy = format!(
                "if the data may be lost, set the annotation {SAFE_VOLUMES}: \"{}\" in patchPodMetadata, and allow it in \
                 patchPodMetadataWhitelist",
                names.join(",")
            );
            let path = format!("spec.volumes[{index}]");
            findings.push(subject.spot.warning(&path, message, remedy).with_rule(OptionalRule::LocalVolume));
        }
    }
    findings
}

/// Returns the local volumes that a `SidecarSet` injects and does not declare safe, with their places.
fn unsafe_volumes<'a>(subject: &'a Subject<'_>) -> Vec<(usize, &'a str)> {
    let set = &subject.prepared;
    let metadata = || json::items(set.as_value(), &["spec", "patchPodMetadata"]).iter();
    let values = |key: &'static str| metadata().map(move |patch| json::text(patch, &["annotations", key]));
    if values(SAFE).any(|value| value == "true") {
        return Vec::new();
    }
    let safe: BTreeSet<&str> = values(SAFE_VOLUMES).flat_map(|value| value.split(',')).collect();
    // A volume that no container mounts is not injected.
    let mounted: BTreeSet<&str> = made::sidecars(set)
        .flat_map(|(_, _, container)| json::items(container, &["volumeMounts"]))
        .map(|mount| json::text(mount, &["name"]))
        .collect();
    local_volumes(set.volumes()).filter(|(_, name)| mounted.contains(name) && !safe.contains(name)).collect()
}

/// Returns the volumes with data on the node. The cluster autoscaler does not count those in memory.
fn local_volumes(volumes: &[Value]) -> impl Iterator<Item = (usize, &str)> {
    let is_local = |volume: &Value| {
        let is_directory = json::object(volume, &["emptyDir"]).is_some();
        json::object(volume, &["hostPath"]).is_some()
            || (is_directory && json::text(volume, &["emptyDir", "medium"]) != "Memory")
    };
    volumes
        .iter()
        .enumerate()
        .filter(move |(_, volume)| is_local(volume))
        .map(|(index, volume)| (index, json::text(volume, &["name"])))
}

/// Whether an injected volume changes nothing for the node of this Pod: a DaemonSet's Pods do not count, a Pod without a
/// controller and one with a local volume of its own keep the node anyway, and annotations may have decided.
fn is_indifferent(created: &Created<'_>, injected: &str) -> bool {
    let annotation = |key| json::text(&created.pod, &["metadata", "annotations", key]);
    let safe: BTreeSet<&str> = annotation(SAFE_VOLUMES).split(',').collect();
    let kind = json::text(created.object, &["kind"]);
    ["DaemonSet", "Pod"].contains(&kind)
        || !annotation(SAFE).is_empty()
        || safe.contains(injected)
        || local_volumes(json::items(&created.pod, &["spec", "volumes"])).any(|(_, own)| !safe.contains(own))
}
