//! Volumes with files from API objects: `secret`, `configMap` and `downwardAPI`.

use super::super::field_ref;
use super::super::paths;
use super::check_mode;
use crate::field::{FieldError, FieldErrors, FieldPath};
use crate::node::Node;

/// The Pod fields that a file may show.
const FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// Checks `secret`.
pub(super) fn check_secret(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    check_named(source, "secretName", errors);
}

/// Checks `configMap`.
pub(super) fn check_config_map(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    check_named(source, "name", errors);
}

fn check_named(source: &Node<'_, '_>, name: &str, errors: &mut Vec<FieldError>) {
    source.require(name, errors);
    check_mode(source, "defaultMode", errors);
    for item in source.items("items") {
        check_key_to_path(&item, errors);
    }
}

/// Checks one key and the path of its file.
pub(super) fn check_key_to_path(item: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    item.require("key", errors);
    item.require("path", errors);
    item.always_formatted("path", paths::not_reserved, errors);
    check_mode(item, "mode", errors);
}

/// Checks `downwardAPI`.
pub(super) fn check_downward_api(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    check_mode(source, "defaultMode", errors);
    for file in source.items("items") {
        check_downward_api_file(&file, source.place, errors);
    }
}

/// Checks one file of a downward API source. Kubernetes reports its errors at the source, whose path is `place`.
pub(super) fn check_downward_api_file(file: &Node<'_, '_>, place: FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let file = Node { value: file.value, place };
    file.require("path", errors);
    file.always_formatted("path", paths::not_reserved, errors);
    match (&file.get("fieldRef"), &file.get("resourceFieldRef")) {
        (None, None) => errors.required(&place, "each file needs a fieldRef or a resourceFieldRef"),
        (None, Some(resource)) => field_ref::check_resource(resource, true, errors),
        (Some(field), resource) => {
            field_ref::check_field(field, &FIELDS, errors);
            if resource.is_some() {
                let detail = "fieldRef and resourceFieldRef exclude each other; make two files of them";
                errors.invalid(&place, file.text("path"), detail);
            }
        }
    }
    check_mode(&file, "mode", errors);
}
