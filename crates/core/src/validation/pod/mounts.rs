//! Volume mounts and block devices of containers, against the volumes.

use super::node::Node;
use super::paths::{check_descending, check_no_backsteps};
use super::volumes::Volumes;
use crate::field::FieldError;
use crate::ordered::{Map, Set};

const PROPAGATIONS: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
const RECURSIVE: [&str; 3] = ["Disabled", "Enabled", "IfPossible"];

/// `volumeMounts` and `volumeDevices`. A volume that is itself in error counts as absent, as in Kubernetes.
pub(super) fn check(container: &Node<'_>, volumes: &Volumes<'_>, errors: &mut Vec<FieldError>) {
    let mounted = places(container, "volumeMounts", "mountPath");
    let devices = places(container, "volumeDevices", "devicePath");
    check_mounts(container, volumes, &devices, errors);
    check_devices(container, volumes, &mounted, errors);
}

/// The path at which each volume of a list is used; the last one where it is used twice.
fn places<'a>(container: &Node<'a>, list: &str, path: &str) -> Map<&'a str, &'a str> {
    container.items(list).map(|item| (item.text("name"), item.text(path))).collect()
}

fn check_mounts(container: &Node<'_>, volumes: &Volumes<'_>, devices: &Map<&str, &str>, errors: &mut Vec<FieldError>) {
    // Kubernetes reports these three at the list, not at the item.
    let list = container.at("volumeMounts");
    let (sub_path, sub_path_expr) = (list.child("subPath"), list.child("subPathExpr"));
    let mut mount_paths = Set::new();
    for mount in container.items("volumeMounts") {
        let (name, path) = (mount.text("name"), mount.text("mountPath"));
        check_volume_name(&mount, volumes, errors);
        mount.require("mountPath", errors);
        if !mount_paths.insert(path) {
            errors.push(FieldError::invalid(&mount.at("mountPath"), path, "must be unique in its container"));
        }
        if devices.contains_key(name) {
            errors.push(FieldError::invalid(&mount.at("name"), name, "must not be in volumeDevices as well"));
        }
        if devices.values().any(|device| *device == path) {
            let detail = "must not be the path of a volume device as well";
            errors.push(FieldError::invalid(&mount.at("mountPath"), path, detail));
        }

        let (text, expression) = (mount.text("subPath"), mount.text("subPathExpr"));
        if volumes.get(name).is_some_and(|volume| volume.has("image")) {
            for (key, value) in [("subPath", text), ("subPathExpr", expression)] {
                if !value.is_empty() {
                    errors.push(FieldError::invalid(
                        &mount.at(key),
                        value,
                        "an image volume is mounted whole; remove it",
                    ));
                }
            }
        }
        if !text.is_empty() {
            check_descending(text, &sub_path, errors);
            if !expression.is_empty() {
                let detail = "subPath and subPathExpr exclude each other; remove one";
                errors.push(FieldError::invalid(&mount.at("subPathExpr"), expression, detail));
            }
        }
        if !expression.is_empty() {
            check_descending(expression, &sub_path_expr, errors);
        }
        check_propagation(container, &mount, errors);
        check_recursive(container, &mount, errors);
    }
}

fn check_volume_name(item: &Node<'_>, volumes: &Volumes<'_>, errors: &mut Vec<FieldError>) {
    let name = item.text("name");
    item.require("name", errors);
    if volumes.get(name).is_none() {
        errors.push(FieldError::not_found(
            &item.at("name"),
            name,
            "must be the name of a valid volume of this SidecarSet",
        ));
    }
}

fn check_propagation(container: &Node<'_>, mount: &Node<'_>, errors: &mut Vec<FieldError>) {
    let Some(propagation) = mount.optional_text("mountPropagation") else { return };
    let path = container.at("volumeMounts").child("mountPropagation");
    if !PROPAGATIONS.contains(&propagation) {
        errors.push(FieldError::not_supported(&path, propagation, &PROPAGATIONS));
    }
    let privileged = container.get("securityContext").is_some_and(|context| context.flag("privileged"));
    if propagation == "Bidirectional" && !privileged {
        errors.push(FieldError::forbidden(&path, "Bidirectional is for privileged containers only"));
    }
}

fn check_recursive(container: &Node<'_>, mount: &Node<'_>, errors: &mut Vec<FieldError>) {
    let Some(recursive) = mount.optional_text("recursiveReadOnly") else { return };
    let path = container.at("volumeMounts").child("recursiveReadOnly");
    match recursive {
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.flag("readOnly") {
                errors.push(FieldError::forbidden(&path, "may only be set where readOnly is true"));
            }
            if mount.optional_text("mountPropagation").is_some_and(|propagation| propagation != "None") {
                errors.push(FieldError::forbidden(&path, "may only be set where mountPropagation is None or not set"));
            }
        }
        _ => errors.push(FieldError::not_supported(&path, recursive, &RECURSIVE)),
    }
}

fn check_devices(container: &Node<'_>, volumes: &Volumes<'_>, mounts: &Map<&str, &str>, errors: &mut Vec<FieldError>) {
    let (mut names, mut device_paths) = (Set::new(), Set::new());
    for device in container.items("volumeDevices") {
        let (name, path) = (device.text("name"), device.text("devicePath"));
        let (name_at, path_at) = (device.at("name"), device.at("devicePath"));
        check_volume_name(&device, volumes, errors);
        if !name.is_empty() && !names.insert(name) {
            errors.push(FieldError::invalid(&name_at, name, "must be unique in its container"));
        }
        if volumes.get(name).is_some_and(|volume| !volume.has("persistentVolumeClaim") && !volume.has("ephemeral")) {
            let detail = "only a persistentVolumeClaim or an ephemeral volume can be a block device";
            errors.push(FieldError::invalid(&name_at, name, detail));
        }
        device.require("devicePath", errors);
        if device_paths.contains(path) {
            errors.push(FieldError::invalid(&path_at, path, "must be unique in its container"));
        }
        let before = errors.len();
        check_no_backsteps(path, &path_at, errors);
        if errors.len() == before {
            device_paths.insert(path);
        }
        if mounts.contains_key(name) {
            errors.push(FieldError::invalid(&name_at, name, "must not be in volumeMounts as well"));
        }
        if mounts.values().any(|mount| *mount == path) {
            errors.push(FieldError::invalid(&path_at, path, "must not be the path of a volume mount as well"));
        }
    }
}
