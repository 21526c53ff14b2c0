//! References to fields of the Pod and to resources of a container, as environment variables and files have them.

use crate::field::{FieldError, FieldErrors};
use crate::format;
use crate::node::{Node, lower_case, shown};
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
/// The beginnings of further resources that a reference may name.
const HUGEPAGES: [&str; 2] = ["limits.hugepages-", "requests.hugepages-"];
const CPU_DIVISORS: [&str; 2] = ["1", "1m"];
const BYTE_DIVISORS: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// A `fieldRef`: version v1, and a path that is in `allowed` or one label or annotation.
pub(super) fn check_field(reference: &Node<'_, '_>, allowed: &[&str], errors: &mut Vec<FieldError>) {
    if !reference.require("apiVersion", errors) || !reference.require("fieldPath", errors) {
        return;
    }
    let (version, field_path) = (reference.text("apiVersion"), reference.text("fieldPath"));
    if version != "v1" {
        reference.invalid("fieldPath", &["apiVersion \"", version, "\" is not known; use v1"].concat(), errors);
        return;
    }
    match format::subscript(field_path) {
        None => reference.known("fieldPath", allowed, errors),
        Some(("metadata.annotations", key)) => {
            errors.wrong(&reference.place, key, format::qualified_name(&lower_case(key)));
        }
        Some(("metadata.labels", key)) => errors.wrong(&reference.place, key, format::qualified_name(key)),
        Some(_) => {
            reference.invalid("fieldPath", "only metadata.labels and metadata.annotations take a key", errors);
        }
    }
}

/// A `resourceFieldRef`. Where it stands in a volume, it has to name the container.
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
        Ok(_) => ["must be one of: ", &format::joined(divisors, ", ")].concat(),
        Err(error) => error.to_string(),
    };
    errors.invalid(&reference.at("divisor"), shown(divisor), &wrong);
}
