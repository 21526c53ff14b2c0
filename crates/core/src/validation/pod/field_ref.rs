//! References to fields of the Pod and to resources of a container, as environment variables and files have them.

use super::node::{Node, lower_case, push_wrong};
use crate::field::FieldError;
use crate::format;
use crate::json;
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
pub(super) fn check_field(reference: &Node<'_>, allowed: &[&str], errors: &mut Vec<FieldError>) {
    if !reference.require("apiVersion", errors) || !reference.require("fieldPath", errors) {
        return;
    }
    let (version, field_path) = (reference.text("apiVersion"), reference.text("fieldPath"));
    let at = reference.at("fieldPath");
    if version != "v1" {
        errors.push(FieldError::invalid(&at, field_path, format!("apiVersion \"{version}\" is not known; use v1")));
        return;
    }
    match split_subscript(field_path) {
        None if allowed.contains(&field_path) => {}
        None => errors.push(FieldError::not_supported(&at, field_path, allowed)),
        Some(("metadata.annotations", key)) => {
            push_wrong(&reference.path, key, format::qualified_name(&lower_case(key)), errors);
        }
        Some(("metadata.labels", key)) => push_wrong(&reference.path, key, format::qualified_name(key), errors),
        Some(_) => {
            errors.push(FieldError::invalid(
                &at,
                field_path,
                "only metadata.labels and metadata.annotations take a key",
            ));
        }
    }
}

/// Splits `path['key']`.
fn split_subscript(field_path: &str) -> Option<(&str, &str)> {
    let (path, key) = field_path.strip_suffix("']")?.split_once("['")?;
    (!path.is_empty()).then_some((path, key))
}

/// A `resourceFieldRef`. Where it stands in a volume, it has to name the container.
pub(super) fn check_resource(reference: &Node<'_>, in_volume: bool, errors: &mut Vec<FieldError>) {
    let resource = reference.text("resource");
    let hugepages = HUGEPAGES.iter().any(|prefix| resource.starts_with(prefix));
    if (!in_volume || reference.require("containerName", errors))
        && reference.require("resource", errors)
        && !hugepages
        && !RESOURCES.contains(&resource)
    {
        errors.push(FieldError::not_supported(&reference.at("resource"), resource, &RESOURCES));
    }
    let divisors: &[&str] = match resource {
        "limits.cpu" | "requests.cpu" => &CPU_DIVISORS,
        _ if hugepages || RESOURCES.contains(&resource) => &BYTE_DIVISORS,
        _ => return,
    };
    let Some(divisor) = reference.raw("divisor") else { return };
    let at = reference.at("divisor");
    errors.push(match Quantity::from_json(divisor) {
        Ok(divisor) if divisor.is_zero() || divisors.contains(&divisor.to_string().as_str()) => return,
        Ok(divisor) => {
            let detail = format!("must be one of: {}", divisors.join(", "));
            FieldError::invalid(&at, divisor, detail)
        }
        Err(error) => FieldError::invalid(&at, json::shown(divisor), error.to_string()),
    });
}
