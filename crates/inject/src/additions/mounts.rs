//! Mounts and devices that sidecars take from the Pod.

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::json;
use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::pod::{self, Pod};
use pillion_sidecarset::sidecar::List;
use serde_json::Value;

use super::{Added, Additions};
use crate::readmission;

/// Checks the mounts and devices of each added container.
pub(super) fn check(pod: Pod<'_>, additions: Additions<'_>, reasons: &mut Vec<Reason>) {
    let mut used = None;
    for added in additions.all() {
        check_propagation(added, reasons);
        let devices = json::items(added.container(), &["volumeDevices"]);
        if !devices.is_empty() {
            let used = used.get_or_insert_with(|| Used::new(pod, additions));
            check_devices(added, devices, used, reasons);
        }
    }
}

/// Only privileged containers may have a mount that hands mounts on to the node.
fn check_propagation(added: Added<'_>, reasons: &mut Vec<Reason>) {
    let container = added.container();
    if json::flag(container, &["securityContext", "privileged"]) {
        return;
    }
    let mounts = json::items(container, &["volumeMounts"]).iter();
    for mount in mounts.filter(|mount| json::text(mount, &["mountPropagation"]) == "Bidirectional") {
        let problem = format!(
            "container \"{}\" gets the mount of the volume \"{}\" at {:?} with mountPropagation Bidirectional, which the API \
             server allows privileged containers only",
            added.name(),
            pod::name(mount),
            json::text(mount, &["mountPath"]),
        );
        reasons.push(added.reason(
            "volumeMounts",
            problem,
            "turn shareVolumePolicy of the sidecar off, remove mountPropagation in the Pod, or make the sidecar privileged",
        ));
    }
}

/// How the Pod's own containers use its volumes.
struct Used<'a> {
    /// The volumes of the Pod that cannot be devices.
    no_claims: BTreeSet<&'a str>,
    /// The volumes that its containers use in a way that the API server refuses.
    wrongly: BTreeSet<&'a str>,
}

impl<'a> Used<'a> {
    fn new(pod: Pod<'a>, additions: Additions<'a>) -> Self {
        let is_claim = |volume: &&Value| {
            ["persistentVolumeClaim", "ephemeral"].iter().any(|kind| volume.get(kind).is_some_and(|it| !it.is_null()))
        };
        // A SidecarSet's own volume may be in the Pod already. VAL-12 has judged it (ORDER-3).
        let brought = additions.volumes.iter().rev().map(|(_, volume)| (pod::name(volume), *volume));
        let brought: BTreeMap<&str, &Value> = brought.collect();
        let is_other = |volume: &&Value| {
            brought.get(pod::name(volume)).is_none_or(|brought| !readmission::covers_volume(volume, brought))
        };
        let others = pod.volumes().iter().filter(|volume| !is_claim(volume)).filter(is_other);
        let no_claims: BTreeSet<&str> = others.map(pod::name).collect();
        let mut wrongly = BTreeSet::new();
        for container in List::ALL.into_iter().flat_map(|list| additions.others(pod, list)) {
            let devices = json::items(container, &["volumeDevices"]);
            let mounted = names(container, "volumeMounts", devices.is_empty());
            let mut seen = BTreeSet::new();
            for name in devices.iter().map(pod::name) {
                if !seen.insert(name) || mounted.contains(name) || no_claims.contains(name) {
                    wrongly.insert(name);
                }
            }
        }
        Self { no_claims, wrongly }
    }
}

/// Returns the volumes in a list of a container; none if the list does not matter.
fn names<'a>(container: &'a Value, list: &str, is_left_out: bool) -> BTreeSet<&'a str> {
    let items = if is_left_out { &[] } else { json::items(container, &[list]) };
    items.iter().map(pod::name).collect()
}

/// A volume is a device of a container once, and is not mounted there, too. Only claims can be devices.
fn check_devices(added: Added<'_>, devices: &[Value], used: &Used<'_>, reasons: &mut Vec<Reason>) {
    let unshare = "turn shareVolumePolicy or shareVolumeDevicePolicy of the sidecar off, or change the Pod";
    let mounted = names(added.container(), "volumeMounts", false);
    let mut seen = BTreeSet::new();
    for name in devices.iter().map(pod::name).filter(|name| !used.wrongly.contains(name)) {
        let (wrong, remedy) = if !seen.insert(name) {
            ("as a device twice", unshare)
        } else if mounted.contains(name) {
            ("both as a mount and as a device", unshare)
        } else if used.no_claims.contains(name) {
            (
                "as a device, though the Pod has a volume of this name that is no claim",
                "rename the volume of the SidecarSet",
            )
        } else {
            continue;
        };
        let problem =
            format!("container \"{}\" gets the volume \"{name}\" {wrong}, which the API server refuses", added.name());
        reasons.push(added.reason("volumeDevices", problem, remedy));
    }
}
