//! Volume mounts and block devices of containers, checked against the volumes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::paths;
use super::volumes::Volumes;
use crate::field::{FieldError, FieldErrors, FieldPath};
use crate::json;
use crate::node::Node;
use crate::unique;

const PROPAGATIONS: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
const UNIQUE: &str = "must be unique in its container";
const RECURSIVE: [&str; 3] = ["Disabled", "Enabled", "IfPossible"];

/// Checks `volumeMounts`, `volumeDevices` and the volumes of `env`. As in Kubernetes, a volume with an error of its own counts as absent.
pub(super) fn check(container: &Node<'_, '_>, volumes: &Volumes<'_>, errors: &mut Vec<FieldError>) {
    let devices = container.list("volumeDevices");
    check_mounts(container, volumes, &places(devices, "devicePath"), errors);
    if !devices.is_empty() {
        let mounted = places(container.list("volumeMounts"), "mountPath");
        check_devices(container, volumes, &mounted, errors);
    }
    for variable in container.items("env") {
        if let Some(source) = &variable.get("valueFrom")
            && let Some(file) = &source.get("fileKeyRef")
            && !file.is_empty("volumeName")
        {
            check_has(file, "volumeName", volumes, errors);
        }
    }
}

/// Returns the path at which each volume in a list is used. If a volume is used twice, the last path counts.
fn places<'v>(items: &'v [Value], key: &str) -> BTreeMap<&'v str, &'v str> {
    items.iter().map(|item| (json::text(item, &["name"]), json::text(item, &[key]))).collect()
}

fn check_mounts(
    container: &Node<'_, '_>,
    volumes: &Volumes<'_>,
    devices: &BTreeMap<&str, &str>,
    errors: &mut Vec<FieldError>,
) {
    let device_paths: BTreeSet<_> = devices.values().copied().collect();
    // Kubernetes reports errors of these three fields at the list, not at the item.
    let list = container.at("volumeMounts");
    let first = unique::are_first(container.list("volumeMounts").iter().map(|mount| json::text(mount, &["mountPath"])));
    for (mount, is_first) in container.items("volumeMounts").zip(first) {
        let (name, path) = (mount.text("name"), mount.text("mountPath"));
        check_volume_name(&mount, volumes, errors);
        mount.require("mountPath", errors);
        if !is_first {
            mount.invalid("mountPath", UNIQUE, errors);
        }
        if devices.contains_key(name) {
            mount.invalid("name", "must not be in volumeDevices as well", errors);
        }
        if device_paths.contains(path) {
            mount.invalid("mountPath", "must not be the path of a volume device as well", errors);
        }

        for key in ["subPath", "subPathExpr"] {
            let value = mount.text(key);
            if value.is_empty() {
                continue;
            }
            if volumes.has_source(name, &["image"]) {
                mount.invalid(key, "an image volume is mounted whole; remove it", errors);
            }
            errors.wrong(&list.child(key), value, paths::descending(value));
            if key == "subPathExpr" && !mount.is_empty("subPath") {
                mount.invalid(key, "subPath and subPathExpr exclude each other; remove one", errors);
            }
        }
        check_propagation(container, &mount, &list.child("mountPropagation"), errors);
        check_recursive(&mount, &list.child("recursiveReadOnly"), errors);
    }
}

fn check_volume_name(item: &Node<'_, '_>, volumes: &Volumes<'_>, errors: &mut Vec<FieldError>) {
    item.require("name", errors);
    check_has(item, "name", volumes, errors);
}

fn check_has(item: &Node<'_, '_>, key: &str, volumes: &Volumes<'_>, errors: &mut Vec<FieldError>) {
    let name = item.text(key);
    if !volumes.has(name) {
        errors.not_found(&item.at(key), name, "must be the name of a valid volume of this SidecarSet");
    }
}

fn check_propagation(
    container: &Node<'_, '_>,
    mount: &Node<'_, '_>,
    place: &FieldPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    let Some(propagation) = mount.optional_text("mountPropagation") else { return };
    if !PROPAGATIONS.contains(&propagation) {
        errors.not_supported(place, propagation, &PROPAGATIONS);
    }
    if propagation == "Bidirectional" && !container.part("securityContext").flag("privileged") {
        errors.forbidden(place, "Bidirectional is for privileged containers only");
    }
}

fn check_recursive(mount: &Node<'_, '_>, place: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let Some(recursive) = mount.optional_text("recursiveReadOnly") else { return };
    match recursive {
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.flag("readOnly") {
                errors.forbidden(place, "may only be set where readOnly is true");
            }
            if !matches!(mount.optional_text("mountPropagation"), None | Some("None")) {
                errors.forbidden(place, "may only be set where mountPropagation is None or not set");
            }
        }
        _ => errors.not_supported(place, recursive, &RECURSIVE),
    }
}

fn check_devices(
    container: &Node<'_, '_>,
    volumes: &Volumes<'_>,
    mounts: &BTreeMap<&str, &str>,
    errors: &mut Vec<FieldError>,
) {
    let mount_paths: BTreeSet<_> = mounts.values().copied().collect();
    let devices = container.list("volumeDevices");
    let texts = |key| devices.iter().map(move |device| json::text(device, &[key]));
    let first = unique::are_first(texts("name")).into_iter().zip(unique::are_first(texts("devicePath")));
    for (device, (is_first_of_name, is_first_at_path)) in container.items("volumeDevices").zip(first) {
        let (name, path) = (device.text("name"), device.text("devicePath"));
        check_volume_name(&device, volumes, errors);
        if !name.is_empty() && !is_first_of_name {
            device.invalid("name", UNIQUE, errors);
        }
        if volumes.has(name) && !volumes.has_source(name, &["persistentVolumeClaim", "ephemeral"]) {
            let detail = "only a persistentVolumeClaim or an ephemeral volume can be a block device";
            device.invalid("name", detail, errors);
        }
        device.require("devicePath", errors);
        match paths::without_backsteps(path) {
            None if is_first_at_path => {}
            None => device.invalid("devicePath", UNIQUE, errors),
            Some(wrong) => device.invalid("devicePath", wrong, errors),
        }
        if mounts.contains_key(name) {
            device.invalid("name", "must not be in volumeMounts as well", errors);
        }
        if mount_paths.contains(path) {
            device.invalid("devicePath", "must not be the path of a volume mount as well", errors);
        }
    }
}
