//! Storage that Kubernetes has retired but still takes: git, Flocker, Quobyte, flex drivers, Portworx, `StorageOS`,
//! `ScaleIO`.

use super::super::paths;
use super::{check_secret_ref, require_all};
use crate::field::{FieldError, FieldErrors};
use crate::format;
use crate::json;
use crate::node::{Node, lower_case};

/// The longest tenant of a Quobyte volume, in bytes.
const TENANT_MAX: usize = 64;

/// `gitRepo`.
pub(super) fn check_git_repo(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    source.require("repository", errors);
    source.always_formatted("directory", paths::descending, errors);
}

/// `flocker`.
pub(super) fn check_flocker(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let (name, id) = (source.text("datasetName"), source.text("datasetUUID"));
    match (name.is_empty(), id.is_empty()) {
        (true, true) => errors.required(&source.place, "needs datasetName or datasetUUID"),
        (false, false) => {
            errors.invalid(&source.place, name, "datasetName and datasetUUID exclude each other; remove one");
        }
        _ => {}
    }
    if format::has(name, b'/') {
        source.invalid("datasetName", "must not contain '/'", errors);
    }
}

/// `quobyte`: the registry is one host:port or several, joined by commas.
pub(super) fn check_quobyte(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    if source.require("registry", errors) {
        let registry = source.text("registry");
        if source.text("tenant").len() > TENANT_MAX {
            errors.required(&source.at("tenant"), "must be a UUID of no more than 64 characters");
        } else if !registry.split(',').all(is_host_and_port) {
            source.invalid("registry", "must be a host:port pair, or several joined by commas", errors);
        }
    }
    source.require("volume", errors);
}

/// `host:port` or `[address]:port`; either part may be empty or anything else without colons and brackets.
fn is_host_and_port(pair: &str) -> bool {
    let Some((host, port)) = pair.rsplit_once(':') else { return false };
    let (outside, inside) = match host.strip_prefix('[') {
        None => (host, ""),
        Some(rest) => match rest.split_once(']') {
            Some((inside, "")) => ("", inside),
            _ => return false,
        },
    };
    !outside.contains([':', '[', ']']) && !format::has(inside, b'[') && !port.contains(['[', ']'])
}

/// `flexVolume`: options of Kubernetes' own namespaces are reserved.
pub(super) fn check_flex_volume(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    source.require("driver", errors);
    for (key, _) in json::string_map(source.value, &["options"]) {
        let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace);
        let namespace = [".", &lower_case(namespace)].concat();
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            let detail = "the namespaces kubernetes.io and k8s.io are reserved; rename the option";
            errors.invalid(&source.at("options").key(key), key, detail);
        }
    }
}

/// `portworxVolume`.
pub(super) fn check_portworx(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    source.require("volumeID", errors);
}

/// `storageos`.
pub(super) fn check_storage_os(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    source.require_formatted("volumeName", format::dns_label, errors);
    source.formatted_unless_empty("volumeNamespace", format::dns_label, errors);
    check_secret_ref(source, errors);
}

/// `scaleIO`.
pub(super) fn check_scale_io(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    require_all(source, &["gateway", "system", "volumeName"], errors);
}
