//! Volume types that Kubernetes has retired but still accepts: git, Flocker, Quobyte, flex drivers, Portworx,
//! `StorageOS`, `ScaleIO`.

use super::super::paths;
use super::{check_secret_ref, require_all};
use crate::field::{FieldError, FieldErrors};
use crate::json;
use crate::name_validation;
use crate::node::Node;

/// The maximum length of the tenant of a Quobyte volume, in bytes.
const TENANT_MAX: usize = 64;

/// Checks `gitRepo`.
pub(super) fn check_git_repo(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    source.require("repository", errors);
    source.always_formatted("directory", paths::descending, errors);
}

/// Checks `flocker`.
pub(super) fn check_flocker(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let (name, id) = (source.text("datasetName"), source.text("datasetUUID"));
    match (name.is_empty(), id.is_empty()) {
        (true, true) => errors.required(&source.place, "needs datasetName or datasetUUID"),
        (false, false) => {
            errors.invalid(&source.place, name, "datasetName and datasetUUID exclude each other; remove one");
        }
        _ => {}
    }
    if name.contains('/') {
        source.invalid("datasetName", "must not contain '/'", errors);
    }
}

/// Checks `quobyte`. The registry is one `host:port` pair, or several joined by commas.
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

/// Whether the text is `host:port` or `[address]:port`. Either part may be empty or anything else without colons and
/// brackets.
fn is_host_and_port(pair: &str) -> bool {
    let Some((host, port)) = pair.rsplit_once(':') else { return false };
    let (outside, inside) = match host.strip_prefix('[') {
        None => (host, ""),
        Some(rest) => match rest.split_once(']') {
            Some((inside, "")) => ("", inside),
            _ => return false,
        },
    };
    !outside.contains([':', '[', ']']) && !inside.contains('[') && !port.contains(['[', ']'])
}

/// Checks `flexVolume`. Options in Kubernetes' own namespaces are reserved.
pub(super) fn check_flex_volume(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    source.require("driver", errors);
    for (key, _) in json::string_map(source.value, &["options"]) {
        let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace);
        let namespace = format!(".{}", namespace.to_ascii_lowercase());
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            let detail = "the namespaces kubernetes.io and k8s.io are reserved; rename the option";
            errors.invalid(&source.at("options").key(key), key, detail);
        }
    }
}

/// Checks `portworxVolume`.
pub(super) fn check_portworx(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    source.require("volumeID", errors);
}

/// Checks `storageos`.
pub(super) fn check_storage_os(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    source.require_formatted("volumeName", name_validation::dns_label, errors);
    source.formatted_unless_empty("volumeNamespace", name_validation::dns_label, errors);
    check_secret_ref(source, errors);
}

/// Checks `scaleIO`.
pub(super) fn check_scale_io(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    require_all(source, &["gateway", "system", "volumeName"], errors);
}
