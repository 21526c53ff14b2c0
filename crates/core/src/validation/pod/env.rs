//! Environment variables.

use super::field_ref;
use super::node::{Node, push_wrong};
use crate::field::{FieldError, FieldPath};
use crate::format;

/// The fields of the Pod that a variable may show. `spec.host` is an old name of `spec.nodeName`.
const FIELDS: [&str; 10] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.host",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const SOURCES: [&str; 4] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef"];

/// `env` and `envFrom`.
pub(super) fn check(container: &Node<'_>, errors: &mut Vec<FieldError>) {
    for variable in container.items("env") {
        if variable.require("name", errors) {
            variable.formatted("name", format::env_var_name, errors);
        }
        if let Some(source) = variable.get("valueFrom") {
            check_source(&source, errors);
            let given = SOURCES.iter().filter(|key| source.has(key)).count();
            let wrong = match given {
                0 => Some("must specify one of: fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef"),
                _ if !variable.text("value").is_empty() => Some("must not be set beside a value that is not empty"),
                1 => None,
                _ => Some("must not have more than one source; keep one"),
            };
            errors.extend(wrong.map(|detail| FieldError::invalid(&source.path, "", detail)));
        }
    }
    let all = container.at("envFrom");
    for source in container.items("envFrom") {
        check_from(&source, &all, errors);
    }
}

fn check_source(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    if let Some(reference) = source.get("fieldRef") {
        field_ref::check_field(&reference, &FIELDS, errors);
    }
    if let Some(reference) = source.get("resourceFieldRef") {
        field_ref::check_resource(&reference, false, errors);
    }
    for reference in ["configMapKeyRef", "secretKeyRef"].iter().filter_map(|key| source.get(key)) {
        let name = reference.text("name");
        push_wrong(&reference.at("name"), name, format::dns_subdomain(name), errors);
        if reference.require("key", errors) {
            reference.formatted("key", format::config_key, errors);
        }
    }
}

/// One item of `envFrom`; `all` is the path of the list, where Kubernetes reports a wrong number of sources.
fn check_from(source: &Node<'_>, all: &FieldPath, errors: &mut Vec<FieldError>) {
    let prefix = source.text("prefix");
    if !prefix.is_empty() {
        push_wrong(&source.at("prefix"), prefix, format::env_var_name(prefix), errors);
    }
    let mut given = 0;
    for reference in ["configMapRef", "secretRef"].iter().filter_map(|key| source.get(key)) {
        given += 1;
        if reference.require("name", errors) {
            reference.formatted("name", name_or_its_beginning, errors);
        }
    }
    let wrong = match given {
        0 => "must specify one of: configMapRef, secretRef",
        1 => return,
        _ => "must not have more than one source; make two items of them",
    };
    errors.push(FieldError::invalid(all, "", wrong));
}

/// A DNS subdomain that may end in hyphens: Kubernetes checks these names as if something would be appended to them.
///
/// A hyphen at the end and the byte before it are taken for one letter.
fn name_or_its_beginning(name: &str) -> Option<String> {
    match name.len().checked_sub(2) {
        Some(kept) if name.ends_with('-') => {
            let kept = name.get(..kept).unwrap_or("-");
            format::dns_subdomain(&format!("{kept}a"))
        }
        _ => format::dns_subdomain(name),
    }
}
