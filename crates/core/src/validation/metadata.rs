//! `metadata` (V-2): the name rule of `SidecarSet`s, and what the API machinery asks of every object.

use serde_json::Value;

use crate::field::{Cause, FieldError, FieldPath};
use crate::format;
use crate::json;
use crate::sidecar_set::SidecarSet;

/// The longest name of a `SidecarSet`.
const NAME_MAX: usize = 63;
/// All annotations together, keys and values, in bytes.
const ANNOTATIONS_MAX: usize = 256 * 1024;
/// The longest name of a field manager, in bytes.
const MANAGER_MAX: usize = 128;
/// The longest name of a subresource, in bytes.
const SUBRESOURCE_MAX: usize = 256;

/// Checks `metadata` of a cluster-scoped object with the name rule of `SidecarSet`s.
pub fn validate(set: &SidecarSet) -> Vec<FieldError> {
    let object = set.as_value();
    let root = FieldPath::new("metadata");
    let mut errors = Vec::new();
    let generate_name = json::text(object, &["metadata", "generateName"]);
    if !generate_name.is_empty() {
        errors.extend(validate_name(generate_name, &root.child("generateName")));
    }
    if set.name().is_empty() {
        errors.push(FieldError::required(&root.child("name"), "a SidecarSet needs a name"));
    } else {
        errors.extend(validate_name(set.name(), &root.child("name")));
    }
    if !json::text(object, &["metadata", "namespace"]).is_empty() {
        errors.push(FieldError::forbidden(&root.child("namespace"), "a SidecarSet is in no namespace; remove it"));
    }
    let generation = json::at(object, &["metadata", "generation"]).and_then(Value::as_i64).unwrap_or_default();
    if generation < 0 {
        errors.push(FieldError::invalid(&root.child("generation"), generation, "must not be negative"));
    }
    let at = root.child("labels");
    for (key, value) in json::string_map(object, &["metadata", "labels"]) {
        errors.extend(format::qualified_name(key).map(|wrong| FieldError::invalid(&at, key, wrong)));
        errors.extend(format::label_value(value).map(|wrong| FieldError::invalid(&at, value, wrong)));
    }
    let annotations = json::at(object, &["metadata", "annotations"]);
    errors.extend(annotations.into_iter().flat_map(|map| validate_annotations(map, &root.child("annotations"))));
    validate_owners(json::items(object, &["metadata", "ownerReferences"]), &root, &mut errors);
    validate_finalizers(json::items(object, &["metadata", "finalizers"]), &root, &mut errors);
    validate_managed_fields(json::items(object, &["metadata", "managedFields"]), &root, &mut errors);
    errors
}

fn validate_name(name: &str, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        let wrong = "a SidecarSet's name must consist of alphanumeric characters or '-' (e.g. 'example-com')";
        errors.push(FieldError::invalid(path, name, wrong));
    }
    if name.len() > NAME_MAX {
        errors.push(FieldError::invalid(path, name, format!("must be no more than {NAME_MAX} characters")));
    }
    errors
}

/// Checks annotations: their keys, whose case does not matter, and the size of all of them together.
pub fn validate_annotations(annotations: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0_usize;
    for (key, value) in json::string_map(annotations, &[]) {
        size = size.saturating_add(key.len()).saturating_add(value.len());
        let wrong = format::qualified_name(&key.to_ascii_lowercase());
        errors.extend(wrong.map(|wrong| FieldError::invalid(path, key, wrong)));
    }
    if size > ANNOTATIONS_MAX {
        let wrong = format!("all annotations together may have at most {ANNOTATIONS_MAX} bytes, not {size}");
        errors.push(FieldError::new(path, Cause::TooLong, wrong));
    }
    errors
}

fn validate_owners(owners: &[Value], root: &FieldPath, errors: &mut Vec<FieldError>) {
    let list = root.child("ownerReferences");
    let mut controllers = 0_usize;
    for (index, owner) in owners.iter().enumerate() {
        let at = list.index(index);
        let api_version = json::text(owner, &["apiVersion"]);
        let kind = json::text(owner, &["kind"]);
        let version = match api_version.split_once('/') {
            None => api_version,
            Some((_, version)) if !version.contains('/') => version,
            Some(_) => "",
        };
        if version.is_empty() {
            errors.push(FieldError::invalid(&at.child("apiVersion"), api_version, "must be <group>/<version> or v1"));
        }
        for field in ["kind", "name", "uid"] {
            if json::text(owner, &[field]).is_empty() {
                errors.push(FieldError::invalid(&at.child(field), "", "must not be empty"));
            }
        }
        if matches!(api_version, "v1" | "/v1") && kind == "Event" {
            errors.push(FieldError::invalid(&at, "v1 Event", "an Event owns nothing"));
        }
        if json::flag(owner, &["controller"]) {
            controllers += 1;
            if controllers > 1 {
                let wrong = "only one owner can be the controller";
                errors.push(FieldError::invalid(&at.child("controller"), "true", wrong));
            }
        }
    }
}

fn validate_finalizers(finalizers: &[Value], root: &FieldPath, errors: &mut Vec<FieldError>) {
    let list = root.child("finalizers");
    let names = || finalizers.iter().map(|name| name.as_str().unwrap_or_default());
    for (index, name) in names().enumerate() {
        let wrong = format::qualified_name(name);
        errors.extend(wrong.map(|wrong| FieldError::invalid(&list.index(index), name, wrong)));
    }
    if names().any(|name| name == "orphan") && names().any(|name| name == "foregroundDeletion") {
        errors.push(FieldError::invalid(&list, "orphan, foregroundDeletion", "only one of the two can be set"));
    }
}

fn validate_managed_fields(entries: &[Value], root: &FieldPath, errors: &mut Vec<FieldError>) {
    let list = root.child("managedFields");
    for (index, entry) in entries.iter().enumerate() {
        let at = list.index(index);
        let text = |field: &str| json::text(entry, &[field]);
        if !matches!(text("operation"), "Apply" | "Update") {
            errors.push(FieldError::invalid(&at.child("operation"), text("operation"), "must be Apply or Update"));
        }
        if !matches!(text("fieldsType"), "" | "FieldsV1") {
            errors.push(FieldError::invalid(&at.child("fieldsType"), text("fieldsType"), "must be FieldsV1"));
        }
        for (field, limit) in [("manager", MANAGER_MAX), ("subresource", SUBRESOURCE_MAX)] {
            if text(field).len() > limit {
                errors.push(FieldError::new(
                    &at.child(field),
                    Cause::TooLong,
                    format!("may have at most {limit} bytes"),
                ));
            }
        }
        if text("manager").chars().any(|one| one.is_control() || (one.is_whitespace() && one != ' ')) {
            errors.push(FieldError::invalid(&at.child("manager"), text("manager"), "must be printable"));
        }
    }
}
