//! References to Pod fields and container resources, in environment variables and in files.

use crate::downward_api;
use crate::field::{FieldError, FieldErrors};
use crate::name_validation;
use crate::node::{Node, shown};
use crate::quantity::Quantity;

/// The resources that a reference may name.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
/// The prefixes of further resources that a reference may name.
const HUGEPAGES: [&str; 2] = ["limits.hugepages-", "requests.hugepages-"];
const CPU_DIVISORS: [&str; 2] = ["1", "1m"];
const BYTE_DIVISORS: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Checks a `fieldRef`: the version is v1, and the path is in `allowed` or names one label or annotation.
pub(super) fn check_field(reference: &Node<'_, '_>, allowed: &[&str], errors: &mut Vec<FieldError>) {
    if !reference.require("apiVersion", errors) || !reference.require("fieldPath", errors) {
        return;
    }
    let (version, field_path) = (reference.text("apiVersion"), reference.text("fieldPath"));
    if version != "v1" {
        reference.invalid("fieldPath", &format!("apiVersion \"{version}\" is not known; use v1"), errors);
        return;
    }
    match downward_api::subscript(field_path) {
        None => reference.known("fieldPath", allowed, errors),
        Some(("metadata.annotations", key)) => {
            errors.wrong(&reference.place, key, name_validation::qualified_name(&key.to_ascii_lowercase()));
        }
        Some(("metadata.labels", key)) => errors.wrong(&reference.place, key, name_validation::qualified_name(key)),
        Some(_) => {
            reference.invalid("fieldPath", "only metadata.labels and metadata.annotations take a key", errors);
        }
    }
}

/// Checks a `resourceFieldRef`. In a volume, it must name the container.
pub(super) fn check_resource(reference: &Node<'_, '_>, in_volume: bool, errors: &mut Vec<FieldError>) {
    let resource = reference.text("resource");
    let hugepages = HUGEPAGES.iter().any(|prefix| resource.starts_with(prefix));
    if (!in_volume || reference.require("containerName", errors)) && reference.require("resource", errors) && !hugepages
    {
        reference.known("resource", &RESOURCES, errors);
    }
    let divisors: &[&str] = match resource {
        "limits.cpu" | "requests.cpu" => &CPU_DIVISORS,
        _ if hugepages || RESOURCES.contains(&resource) => &BYTE_DIVISORS,
        _ => return,
    };
    let Some(divisor) = reference.raw("divisor") else { return };
    let wrong = match Quantity::from_json(divisor) {
        Ok(divisor) if divisor.is_zero() || divisors.contains(&divisor.to_string().as_str()) => return,
        Ok(_) => format!("must be one of: {}", divisors.join(", ")),
        Err(error) => error.to_string(),
    };
    errors.invalid(&reference.at("divisor"), shown(divisor), &wrong);
}
