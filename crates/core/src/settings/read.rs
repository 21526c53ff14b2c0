//! Decoding, key by key.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Role, Settings, bundle_ref, naming, service_accounts, shoots, whitelist};
use crate::bundle::{Bundle, Text};
use crate::controller_revision::ControllerRevision;
use crate::field::{Cause, FieldError, Place, Report};
use crate::format;
use crate::gates::Gates;
use crate::json;
use crate::node::Node;
use crate::sidecar_set::decode::decode;
use crate::sidecar_set::weight;

pub(super) fn settings(settings: Value, bundle: Option<Text>) -> Result<Settings, Vec<FieldError>> {
    let object = match settings {
        Value::Null => json::Object::new(),
        Value::Object(object) => object,
        other => return Err(vec![wrong_type(&Place::new(""), &other, "an object")]),
    };
    let mut errors = Vec::new();
    let mut decoded = Settings::default();
    for (key, value) in object {
        let place = Place::new(&key);
        match (key.as_str(), value) {
            ("systemNamespace" | "patchPodMetadataWhitelist" | "role" | "bundle", Value::Null) => {}
            ("sidecarSets", value) => each(value, &place, "SidecarSet", &mut errors, &mut |manifest| {
                decoded.sidecar_sets.push(decode(manifest)?.into_sidecar_set());
                Ok(())
            }),
            ("controllerRevisions", value) => {
                each(value, &place, "ControllerRevision", &mut errors, &mut |manifest| {
                    decoded.controller_revisions.push(ControllerRevision::decode(manifest)?);
                    Ok(())
                });
            }
            ("bundle", Value::String(text)) => decoded.bundle = Some(text.into()),
            ("bundle", other) => errors.push(wrong_type(&place, &other, "a string that `pillion bundle` made")),
            ("bundleRef" | "onBundleUnavailable" | "bundleMaxAge", value) => {
                bundle_ref::decode(&Node { value: &value, place }, &key, &mut decoded.bundle_source, &mut errors);
            }
            ("shoots", value) => decoded.shoots = shoots::decode(&Node { value: &value, place }, &mut errors),
            ("serviceAccounts", value) => {
                decoded.service_accounts = service_accounts::decode(value, &place.path(), &mut errors);
            }
            ("role", value) => {
                decoded.role = if shoots::is_first(&Node { value: &value, place }, &["Assert", "Inject"], &mut errors) {
                    Role::Assert
                } else {
                    Role::Inject
                };
            }
            ("featureGates", value) => decoded.gates = gates(value, &place, &mut errors),
            ("systemNamespace", Value::String(namespace)) => {
                errors.wrong(&place, &namespace, format::dns_label(&namespace));
                decoded.system_namespace = namespace;
            }
            ("systemNamespace", other) => errors.push(wrong_type(&place, &other, "a string")),
            ("patchPodMetadataWhitelist", value) => {
                whitelist::decode(&Node { value: &value, place }, &mut errors);
                decoded.patch_pod_metadata_whitelist = Some(value);
            }
            _ => errors.report(Cause::Unknown, &place, None, "no setting has this name; see docs/settings.md"),
        }
    }
    // A form that is not filled in says so with an empty text.
    decoded.bundle = bundle.or(decoded.bundle).filter(|text| !text.as_bytes().is_empty());
    if let Some(Err(error)) = decoded.bundle.as_ref().map(|text| Bundle::read(text.as_bytes())) {
        errors.report(Cause::Invalid, &Place::new("bundle"), None, &error.to_string());
    }
    if weight::is_too_dense(&decoded.sidecar_sets) {
        errors.report(Cause::TooMany, &Place::new("sidecarSets"), None, weight::TOO_DENSE);
    }
    if errors.is_empty() { Ok(decoded) } else { Err(errors) }
}

/// Decodes the manifests in a list of objects of one kind, whose names are unique.
fn each(
    list: Value,
    place: &Place<'_>,
    kind: &str,
    errors: &mut Vec<FieldError>,
    decode: &mut dyn FnMut(Value) -> Result<(), Vec<FieldError>>,
) {
    let items = match list {
        Value::Null => return,
        Value::Array(items) => items,
        other => return errors.push(wrong_type(place, &other, "a list")),
    };
    let mut names = BTreeSet::new();
    for (index, manifest) in items.into_iter().enumerate() {
        if errors.is_full() {
            return;
        }
        let at = place.index(index);
        let name = json::text(&manifest, &["metadata", "name"]).to_owned();
        if let Err(wrong) = decode(manifest) {
            let at = at.path();
            for error in wrong {
                errors.push(naming(error, &at, kind, &name));
            }
        }
        unique(name, &mut names, &at, errors);
    }
}

/// Every name stands once. A missing name is validation's to report, but two of them are two of one name.
fn unique(name: String, names: &mut BTreeSet<String>, at: &Place<'_>, errors: &mut Vec<FieldError>) {
    if names.contains(&name) {
        let place = at.child("metadata.name");
        errors.report(Cause::Duplicate, &place, Some(&name), "names are unique; remove one");
    }
    names.insert(name);
}

fn gates(map: Value, place: &Place<'_>, errors: &mut Vec<FieldError>) -> Gates {
    let mut gates = Gates::default();
    let map = match map {
        Value::Null => return gates,
        Value::Object(map) => map,
        other => {
            errors.push(wrong_type(place, &other, "an object of names and booleans"));
            return gates;
        }
    };
    for (name, value) in map {
        let at = place.key(&name);
        let Some(gate) = gates.get_mut(&name) else {
            errors.not_supported(place, &name, &Gates::NAMES);
            continue;
        };
        match value {
            Value::Bool(on) => *gate = on,
            other => errors.push(wrong_type(&at, &other, "true or false")),
        }
    }
    gates
}

/// The value has another type than `wanted`; what it holds is not shown, it may be a whole manifest.
#[inline(never)]
pub(crate) fn wrong_type(place: &Place<'_>, found: &Value, wanted: &str) -> FieldError {
    let detail = ["must be ", wanted, ", found ", json::type_name(found)].concat();
    FieldError { path: place.path(), cause: Cause::Type, value: None, detail }
}
