//! Mounts and devices that sidecars take from the Pod.

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::json;
use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::pod::{self, Pod};
use serde_json::Value;

use super::{Added, Additions};

/// The remedy for what only a mount or a device of the Pod can cause.
const UNSHARE: &str = "turn shareVolumePolicy or shareVolumeDevicePolicy of the sidecar off, or change the Pod";

/// Checks the mounts and devices of each added container.
pub(super) fn check(pod: Pod<'_>, additions: Additions<'_>, reasons: &mut Vec<Reason>) {
    let mut volumes = None;
    for added in additions.all() {
        check_propagation(added, reasons);
        let devices = json::items(added.container(), &["volumeDevices"]);
        if !devices.is_empty() {
            let volumes = volumes.get_or_insert_with(|| by_name(pod, additions));
            check_devices(added, devices, volumes, reasons);
        }
    }
}

/// Returns the Pod's volumes after the injection. Of several with one name, the Pod's stays (INJ-26).
fn by_name<'a>(pod: Pod<'a>, additions: Additions<'a>) -> BTreeMap<&'a str, &'a Value> {
    let added = additions.volumes.iter().rev().map(|(_, volume)| *volume);
    added.chain(pod.volumes().iter().rev()).map(|volume| (pod::name(volume), volume)).collect()
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

/// A volume is a device of a container once, and is not mounted there, too. Only claims can be devices.
fn check_devices(added: Added<'_>, devices: &[Value], volumes: &BTreeMap<&str, &Value>, reasons: &mut Vec<Reason>) {
    let mounted: BTreeSet<&str> = json::items(added.container(), &["volumeMounts"]).iter().map(pod::name).collect();
    let mut seen = BTreeSet::new();
    let is_claim = |volume: &&Value| {
        ["persistentVolumeClaim", "ephemeral"].iter().any(|kind| volume.get(kind).is_some_and(|it| !it.is_null()))
    };
    for device in devices {
        let name = pod::name(device);
        let wrong = if !seen.insert(name) {
            "as a device twice"
        } else if mounted.contains(name) {
            "both as a mount and as a device"
        } else if volumes.get(name).is_some_and(|volume| !is_claim(volume)) {
            "as a device, though the Pod's volume is no claim"
        } else {
            continue;
        };
        let problem =
            format!("container \"{}\" gets the volume \"{name}\" {wrong}, which the API server refuses", added.name());
        reasons.push(added.reason("volumeDevices", problem, UNSHARE));
    }
}
