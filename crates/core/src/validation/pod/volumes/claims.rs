//! Volumes behind `PersistentVolumeClaim`s: named ones, and those made for the Pod.

use serde_json::Value;

use super::super::node::{Node, lower_case, push_wrong};
use super::{check_known, selector};
use crate::field::{Cause, FieldError};
use crate::format;
use crate::json;
use crate::quantity::Quantity;

/// The longest annotations, keys and values together, in bytes.
const ANNOTATIONS_MAX: usize = 256 * 1024;
const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const ALONE: &str = "ReadWriteOncePod";
/// The metadata that a template may not have, each with the name under which Kubernetes reports it.
const NOT_IN_TEMPLATES: [(&str, &str); 13] = [
    ("name", "name"),
    ("generateName", "generateName"),
    ("namespace", "namespace"),
    ("selfLink", "selfLink"),
    ("uid", "uID"),
    ("resourceVersion", "resourceVersion"),
    ("generation", "generation"),
    ("creationTimestamp", "creationTimestamp"),
    ("deletionTimestamp", "deletionTimestamp"),
    ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
    ("ownerReferences", "ownerReferences"),
    ("finalizers", "finalizers"),
    ("managedFields", "managedFields"),
];

/// `persistentVolumeClaim`.
pub(super) fn check_reference(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    source.require("claimName", errors);
}

/// `ephemeral`: the template of a claim.
pub(super) fn check_ephemeral(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    let Some(template) = source.get("volumeClaimTemplate") else {
        errors.push(FieldError::required(&source.at("volumeClaimTemplate"), "an ephemeral volume needs a template"));
        return;
    };
    if let Some(metadata) = template.get("metadata") {
        check_metadata(&metadata, errors);
    }
    let nothing = Value::Null;
    let spec = Node { value: template.raw("spec").unwrap_or(&nothing), path: template.at("spec") };
    check_spec(&spec, errors);
}

fn check_metadata(metadata: &Node<'_>, errors: &mut Vec<FieldError>) {
    let at = metadata.at("annotations");
    let mut size = 0_usize;
    for (key, value) in json::string_map(metadata.value, &["annotations"]) {
        push_wrong(&at, key, format::qualified_name(&lower_case(key)), errors);
        size = size.saturating_add(key.len()).saturating_add(value.len());
    }
    if size > ANNOTATIONS_MAX {
        let detail = format!("must be no more than {ANNOTATIONS_MAX} bytes in all");
        errors.push(FieldError::new(&at, Cause::TooLong, detail));
    }
    selector::check_labels(metadata, "labels", errors);
    for (key, reported_as) in NOT_IN_TEMPLATES {
        let set = match metadata.raw(key) {
            None => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Array(items)) => !items.is_empty(),
            // A pointer, so 0 counts as set.
            Some(Value::Number(_)) if key == "deletionGracePeriodSeconds" => true,
            Some(value) => value.as_i64() != Some(0),
        };
        if set {
            let detail = "a template has labels and annotations only; remove it";
            errors.push(FieldError::forbidden(&metadata.at(reported_as), detail));
        }
    }
}

fn check_spec(spec: &Node<'_>, errors: &mut Vec<FieldError>) {
    spec.require("accessModes", errors);
    if let Some(labels) = spec.get("selector") {
        selector::check(&labels, errors);
    }
    let modes_at = spec.at("accessModes");
    for mode in spec.texts("accessModes").filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.push(FieldError::not_supported(&modes_at, mode, &ACCESS_MODES));
    }
    let has =
        |alone: bool| spec.texts("accessModes").any(|mode| ACCESS_MODES.contains(&mode) && (mode == ALONE) == alone);
    if has(true) && has(false) {
        errors.push(FieldError::forbidden(&modes_at, "ReadWriteOncePod does not go with other access modes"));
    }
    check_storage(spec, errors);
    let class = spec.text("storageClassName");
    if !class.is_empty() {
        push_wrong(&spec.at("storageClassName"), class, format::dns_subdomain(class), errors);
    }
    check_known(spec, "volumeMode", &["Block", "Filesystem"], errors);
    check_data_sources(spec, errors);
}

fn check_storage(spec: &Node<'_>, errors: &mut Vec<FieldError>) {
    let at = spec.at("resources").key("storage");
    match json::at(spec.value, &["resources", "requests", "storage"]).map(Quantity::from_json) {
        None => errors.push(FieldError::required(&at, "a claim needs resources.requests.storage")),
        Some(Ok(size)) if size.is_zero() || size.is_negative() => {
            errors.push(FieldError::invalid(&at, size, "must be greater than zero"));
        }
        Some(Ok(_)) => {}
        Some(Err(error)) => errors.push(FieldError::invalid(&at, "", error.to_string())),
    }
}

fn check_data_sources(spec: &Node<'_>, errors: &mut Vec<FieldError>) {
    let source = spec.get("dataSource");
    let reference = spec.get("dataSourceRef");
    for object in [&source, &reference].into_iter().flatten() {
        check_data_source(object, errors);
    }
    let Some(reference) = reference else { return };
    let namespace = reference.text("namespace");
    if !namespace.is_empty() {
        push_wrong(&reference.at("namespace"), namespace, format::dns_label(namespace), errors);
    }
    let Some(source) = source else { return };
    if !namespace.is_empty() {
        let detail = "dataSource does not go with dataSourceRef.namespace; remove it";
        errors.push(FieldError::invalid(&spec.path, "dataSource", detail));
    } else if identity(&source) != identity(&reference) {
        let detail = "dataSource must match dataSourceRef; remove dataSource";
        errors.push(FieldError::invalid(&spec.path, "dataSource", detail));
    }
}

fn check_data_source(object: &Node<'_>, errors: &mut Vec<FieldError>) {
    object.require("name", errors);
    object.require("kind", errors);
    let group = object.text("apiGroup");
    if !group.is_empty() {
        push_wrong(&object.at("apiGroup"), group, format::dns_subdomain(group), errors);
    } else if object.text("kind") != "PersistentVolumeClaim" {
        let detail = "must be a PersistentVolumeClaim where there is no apiGroup";
        errors.push(FieldError::invalid(&object.path, object.text("kind"), detail));
    }
}

fn identity<'a>(object: &Node<'a>) -> (Option<&'a str>, &'a str, &'a str) {
    (object.optional_text("apiGroup"), object.text("kind"), object.text("name"))
}
