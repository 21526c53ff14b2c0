//! Volumes from `PersistentVolumeClaim`s: existing claims, and claims created for the Pod.

use serde_json::Value;

use crate::annotations;
use crate::field::{FieldError, FieldErrors};
use crate::json;
use crate::name_validation;
use crate::node::Node;
use crate::quantity::Quantity;
use crate::selector;

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const ALONE: &str = "ReadWriteOncePod";
/// The metadata fields that a template may not set.
const NOT_IN_TEMPLATES: [&str; 13] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Checks `persistentVolumeClaim`.
pub(super) fn check_reference(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    source.require("claimName", errors);
}

/// Checks `ephemeral`: the template of a claim.
pub(super) fn check_ephemeral(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let Some(template) = &source.get("volumeClaimTemplate") else {
        errors.required(&source.at("volumeClaimTemplate"), "an ephemeral volume needs a template");
        return;
    };
    check_metadata(&template.part("metadata"), errors);
    check_spec(&template.part("spec"), errors);
}

fn check_metadata(metadata: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    annotations::check(metadata, errors);
    selector::check_labels(metadata, "labels", errors);
    for key in NOT_IN_TEMPLATES {
        let set = match metadata.raw(key) {
            None => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Array(items)) => !items.is_empty(),
            // This field is a pointer, so 0 counts as set.
            Some(Value::Number(_)) if key == "deletionGracePeriodSeconds" => true,
            Some(value) => value.as_i64() != Some(0),
        };
        if set {
            // Kubernetes reports this field under another name.
            let reported_as = if key == "uid" { "uID" } else { key };
            errors.forbidden(&metadata.at(reported_as), "a template has labels and annotations only; remove it");
        }
    }
}

fn check_spec(spec: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    spec.require("accessModes", errors);
    if let Some(labels) = &spec.get("selector") {
        selector::check(labels, errors);
    }
    let modes_at = spec.at("accessModes");
    let (mut alone, mut shared) = (false, false);
    for mode in spec.list("accessModes").iter().filter_map(Value::as_str) {
        match mode {
            ALONE => alone = true,
            mode if ACCESS_MODES.contains(&mode) => shared = true,
            mode => errors.not_supported(&modes_at, mode, &ACCESS_MODES),
        }
    }
    if alone && shared {
        errors.forbidden(&modes_at, "ReadWriteOncePod does not go with other access modes");
    }
    check_storage(spec, errors);
    spec.formatted_unless_empty("storageClassName", name_validation::dns_subdomain, errors);
    spec.known("volumeMode", &["Block", "Filesystem"], errors);
    check_data_sources(spec, errors);
}

fn check_storage(spec: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let resources = spec.at("resources");
    let at = resources.key("storage");
    match json::at(spec.value, &["resources", "requests", "storage"]).map(Quantity::from_json) {
        None => errors.required(&at, "a claim needs resources.requests.storage"),
        Some(Ok(size)) if size.is_zero() || size.is_negative() => {
            errors.invalid(&at, size.to_string(), "must be greater than zero");
        }
        Some(Ok(_)) => {}
        Some(Err(error)) => errors.invalid(&at, "", &error.to_string()),
    }
}

fn check_data_sources(spec: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    for key in ["dataSource", "dataSourceRef"] {
        if let Some(object) = &spec.get(key) {
            check_data_source(object, errors);
        }
    }
    let reference = spec.part("dataSourceRef");
    reference.formatted_unless_empty("namespace", name_validation::dns_label, errors);
    if !spec.has("dataSource") || !spec.has("dataSourceRef") {
        return;
    }
    let source = spec.part("dataSource");
    let detail = if !reference.is_empty("namespace") {
        "dataSource does not go with dataSourceRef.namespace; remove it"
    } else if source.optional_text("apiGroup") != reference.optional_text("apiGroup")
        || ["kind", "name"].iter().any(|key| source.text(key) != reference.text(key))
    {
        "dataSource must match dataSourceRef; remove dataSource"
    } else {
        return;
    };
    errors.invalid(&spec.place, "dataSource", detail);
}

fn check_data_source(object: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    object.require("name", errors);
    object.require("kind", errors);
    object.formatted_unless_empty("apiGroup", name_validation::dns_subdomain, errors);
    if object.is_empty("apiGroup") && !object.is_one_of("kind", &["PersistentVolumeClaim"]) {
        let detail = "must be a PersistentVolumeClaim where there is no apiGroup";
        errors.invalid(&object.place, object.text("kind"), detail);
    }
}
