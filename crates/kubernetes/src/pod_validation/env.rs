//! Environment variables.

use super::field_ref;
use crate::field::{FieldError, FieldErrors, FieldPath};
use crate::name_validation;
use crate::node::Node;

/// The Pod fields that a variable may refer to. `spec.host` is an old name of `spec.nodeName`.
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
/// `fileKeyRef` since Kubernetes 1.34 (by default since 1.35).
const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];

/// Checks `env` and `envFrom`.
pub(super) fn check(container: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    for variable in container.items("env") {
        variable.require_formatted("name", name_validation::env_var_name, errors);
        if let Some(source) = &variable.get("valueFrom") {
            check_source(source, errors);
            let given = SOURCES.iter().filter(|key| source.has(key)).count();
            let wrong = match given {
                0 => "must specify one of: fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef, fileKeyRef",
                _ if !variable.is_empty("value") => "must not be set beside a value that is not empty",
                1 => continue,
                _ => "must not have more than one source; keep one",
            };
            errors.invalid(&source.place, "", wrong);
        }
    }
    for source in container.items("envFrom") {
        check_from(&source, &container.at("envFrom"), errors);
    }
}

fn check_source(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    if let Some(reference) = &source.get("fieldRef") {
        field_ref::check_field(reference, &FIELDS, errors);
    }
    if let Some(reference) = &source.get("resourceFieldRef") {
        field_ref::check_resource(reference, false, errors);
    }
    if let Some(reference) = &source.get("fileKeyRef") {
        reference.require_formatted("volumeName", name_validation::dns_label, errors);
        reference.require("path", errors);
        reference.require_formatted("key", name_validation::env_var_name, errors);
    }
    for key in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(reference) = &source.get(key) {
            reference.always_formatted("name", name_validation::dns_subdomain, errors);
            reference.require_formatted("key", name_validation::config_key, errors);
        }
    }
}

/// Checks one item of `envFrom`. `all` is the path of the list, at which Kubernetes reports a wrong number of sources.
fn check_from(source: &Node<'_, '_>, all: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    source.formatted_unless_empty("prefix", name_validation::env_var_name, errors);
    let mut given = 0;
    for key in ["configMapRef", "secretRef"] {
        if let Some(reference) = &source.get(key) {
            given += 1;
            reference.require_formatted("name", name_or_its_beginning, errors);
        }
    }
    let wrong = match given {
        0 => "must specify one of: configMapRef, secretRef",
        1 => return,
        _ => "must not have more than one source; make two items of them",
    };
    errors.invalid(all, "", wrong);
}

/// Checks a DNS subdomain that may end in hyphens: Kubernetes checks these names as if they were prefixes.
///
/// A hyphen at the end and the byte before it together count as one letter.
fn name_or_its_beginning(name: &str) -> Option<&'static str> {
    match name.len().checked_sub(2) {
        Some(kept) if name.ends_with('-') => {
            let kept = name.get(..kept).unwrap_or("-");
            name_validation::dns_subdomain(&format!("{kept}a"))
        }
        _ => name_validation::dns_subdomain(name),
    }
}
