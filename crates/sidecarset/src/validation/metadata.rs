//! Validation of `metadata` (VAL-2): the name rule of `SidecarSet`s, and the rules of the API machinery for every
//! object.

use pillion_kubernetes::annotations;
use pillion_kubernetes::field::{FieldError, FieldErrors};
use pillion_kubernetes::name_validation;
use pillion_kubernetes::node::Node;
use pillion_kubernetes::selector;

/// The error of a `SidecarSet` without a name.
pub(super) const NO_NAME: &str = "a SidecarSet needs a name";
/// The maximum length of the name of a `SidecarSet`, in bytes.
const NAME_MAX: usize = 63;
/// The maximum length of the name of a field manager, in bytes.
const MANAGER_MAX: usize = 128;
/// The maximum length of the name of a subresource, in bytes.
const SUBRESOURCE_MAX: usize = 256;

/// Checks `metadata` of a cluster-scoped object with the name rule of `SidecarSet`s.
pub(super) fn check(metadata: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    check_name(metadata, "generateName", errors);
    // The API server makes a name of generateName only after the webhooks that may change the object.
    if metadata.is_empty("name") && metadata.is_empty("generateName") {
        errors.required(&metadata.at("name"), NO_NAME);
    }
    check_name(metadata, "name", errors);
    if !metadata.is_empty("namespace") {
        errors.forbidden(&metadata.at("namespace"), "a SidecarSet is in no namespace; remove it");
    }
    if metadata.number("generation") < 0 {
        metadata.invalid_number("generation", "must not be negative", errors);
    }
    selector::check_labels(metadata, "labels", errors);
    annotations::check(metadata, errors);
    check_owners(metadata, errors);
    check_finalizers(metadata, errors);
    check_managed_fields(metadata, errors);
}

fn check_name(metadata: &Node<'_, '_>, key: &str, errors: &mut Vec<FieldError>) {
    let name = metadata.text(key);
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        let wrong = "a SidecarSet's name must consist of alphanumeric characters or '-' (e.g. 'example-com')";
        metadata.invalid(key, wrong, errors);
    }
    if name.len() > NAME_MAX {
        metadata.invalid(key, "must be no more than 63 characters", errors);
    }
}

fn check_owners(metadata: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let mut controlled = false;
    for owner in metadata.items("ownerReferences") {
        let api_version = owner.text("apiVersion");
        let version = api_version.split_once('/').map_or(api_version, |(_, version)| version);
        if version.is_empty() || version.contains('/') {
            owner.invalid("apiVersion", "must be <group>/<version> or v1", errors);
        }
        for field in ["kind", "name", "uid"] {
            if owner.is_empty(field) {
                owner.invalid(field, "must not be empty", errors);
            }
        }
        if matches!(api_version, "v1" | "/v1") && owner.is_one_of("kind", &["Event"]) {
            errors.invalid(&owner.place, "v1 Event", "an Event owns nothing");
        }
        if owner.flag("controller") {
            if controlled {
                errors.invalid(&owner.at("controller"), "true", "only one owner can be the controller");
            }
            controlled = true;
        }
    }
}

fn check_finalizers(metadata: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let (mut orphan, mut foreground) = (false, false);
    for finalizer in metadata.items("finalizers") {
        let name = finalizer.own_text();
        orphan |= name == "orphan";
        foreground |= name == "foregroundDeletion";
        errors.wrong(&finalizer.place, name, name_validation::qualified_name(name));
    }
    if orphan && foreground {
        errors.invalid(&metadata.at("finalizers"), "orphan, foregroundDeletion", "only one of the two can be set");
    }
}

fn check_managed_fields(metadata: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    for entry in metadata.items("managedFields") {
        if !entry.is_one_of("operation", &["Apply", "Update"]) {
            entry.invalid("operation", "must be Apply or Update", errors);
        }
        if !entry.is_one_of("fieldsType", &["", "FieldsV1"]) {
            entry.invalid("fieldsType", "must be FieldsV1", errors);
        }
        for (field, limit) in [("manager", MANAGER_MAX), ("subresource", SUBRESOURCE_MAX)] {
            if entry.text(field).len() > limit {
                errors.too_long(&entry.at(field), limit);
            }
        }
        if entry.text("manager").chars().any(|one| one.is_control() || (one.is_whitespace() && one != ' ')) {
            entry.invalid("manager", "must be printable", errors);
        }
    }
}
