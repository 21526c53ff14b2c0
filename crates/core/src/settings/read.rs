//! Decoding, key by key.

use serde_json::Value;

use super::{Settings, naming, shoots, whitelist};
use crate::controller_revision::ControllerRevision;
use crate::field::{Cause, FieldError, FieldPath};
use crate::format;
use crate::gates::Gates;
use crate::json;
use crate::ordered::Set;
use crate::sidecar_set::SidecarSet;
use crate::sidecar_set::decode::{Decoded, decode};

/// Gates that a version of the policy has to know how to honour before it may take them.
const GATES_TO_COME: [&str; 1] = ["SidecarSetServiceAccountInjection"];
/// Settings that this version does not have yet, with the one value that asks for nothing else than it does.
const SETTINGS_TO_COME: [(&str, Option<&str>); 6] = [
    ("bundle", None),
    ("bundleMaxAge", None),
    ("bundleRef", None),
    ("onBundleUnavailable", Some("Deny")),
    ("role", Some("Inject")),
    ("serviceAccounts", None),
];
const NOT_YET: &str = "not supported by this version of the policy; remove it";

pub(super) fn settings(settings: Value) -> Result<Settings, Vec<FieldError>> {
    let object = match settings {
        Value::Null => json::Object::new(),
        Value::Object(object) => object,
        other => return Err(vec![wrong_type(&FieldPath::default(), &other, "an object")]),
    };
    let mut errors = Vec::new();
    let mut decoded = Settings::default();
    for (key, value) in object {
        let path = FieldPath::new(key.as_str());
        match (key.as_str(), value) {
            (key, value) if SETTINGS_TO_COME.iter().any(|(name, _)| *name == key) => to_come(key, &value, &mut errors),
            ("sidecarSets", value) => decoded.sidecar_sets = sidecar_sets(value, &path, &mut errors),
            ("controllerRevisions", value) => decoded.controller_revisions = revisions(value, &path, &mut errors),
            ("featureGates", value) => decoded.gates = gates(value, &path, &mut errors),
            ("shoots", value) => decoded.shoots = shoots::decode(&value, &path, &mut errors),
            ("systemNamespace" | "patchPodMetadataWhitelist", Value::Null) => {}
            ("systemNamespace", value) => {
                if let Some(namespace) = namespace(value, &path, &mut errors) {
                    decoded.system_namespace = namespace;
                }
            }
            ("patchPodMetadataWhitelist", value) => {
                whitelist::decode(&value, &path, &mut errors);
                decoded.patch_pod_metadata_whitelist = Some(value);
            }
            _ => errors.push(FieldError::new(&path, Cause::Unknown, "no setting has this name; see docs/settings.md")),
        }
    }
    if errors.is_empty() { Ok(decoded) } else { Err(errors) }
}

fn to_come(key: &str, value: &Value, errors: &mut Vec<FieldError>) {
    let harmless = SETTINGS_TO_COME.iter().find(|(name, _)| *name == key).and_then(|(_, harmless)| *harmless);
    if value.is_null() || (harmless.is_some() && value.as_str() == harmless) {
        return;
    }
    errors.push(FieldError::forbidden(&FieldPath::new(key), NOT_YET));
}

fn sidecar_sets(list: Value, path: &FieldPath, errors: &mut Vec<FieldError>) -> Vec<SidecarSet> {
    let mut names = Set::new();
    let mut sets = Vec::new();
    for (index, manifest) in items(list, path, errors).into_iter().enumerate() {
        let at = path.index(index);
        let name = json::text(&manifest, &["metadata", "name"]).to_owned();
        match decode(manifest) {
            Ok(decoded) => sets.push(Decoded::into_sidecar_set(decoded)),
            Err(wrong) => errors.extend(wrong.into_iter().map(|error| naming(error, &at, "SidecarSet", &name))),
        }
        unique(name, &mut names, &at, errors);
    }
    sets
}

fn revisions(list: Value, path: &FieldPath, errors: &mut Vec<FieldError>) -> Vec<ControllerRevision> {
    let mut names = Set::new();
    let mut revisions = Vec::new();
    for (index, manifest) in items(list, path, errors).into_iter().enumerate() {
        let at = path.index(index);
        let name = json::text(&manifest, &["metadata", "name"]).to_owned();
        match ControllerRevision::decode(manifest) {
            Ok(revision) => revisions.push(revision),
            Err(wrong) => {
                errors.extend(wrong.into_iter().map(|error| naming(error, &at, "ControllerRevision", &name)));
            }
        }
        unique(name, &mut names, &at, errors);
    }
    revisions
}

/// Every name stands once. A missing name is validation's to report, but two of them are two of one name.
fn unique(name: String, names: &mut Set<String>, at: &FieldPath, errors: &mut Vec<FieldError>) {
    if names.contains(&name) {
        let path = at.child("metadata").child("name");
        errors.push(FieldError {
            detail: "names are unique; remove one".to_owned(),
            ..FieldError::duplicate(&path, &name)
        });
    }
    names.insert(name);
}

fn gates(map: Value, path: &FieldPath, errors: &mut Vec<FieldError>) -> Gates {
    let mut gates = Gates::default();
    let map = match map {
        Value::Null => return gates,
        Value::Object(map) => map,
        other => {
            errors.push(wrong_type(path, &other, "an object of names and booleans"));
            return gates;
        }
    };
    for (name, value) in map {
        let at = path.key(&name);
        let Some(gate) = gates.get_mut(&name) else {
            errors.push(FieldError::not_supported(path, &name, &Gates::NAMES));
            continue;
        };
        match value {
            Value::Bool(true) if GATES_TO_COME.contains(&name.as_str()) => {
                errors.push(FieldError::forbidden(&at, NOT_YET));
            }
            Value::Bool(on) => *gate = on,
            other => errors.push(wrong_type(&at, &other, "true or false")),
        }
    }
    gates
}

fn namespace(value: Value, path: &FieldPath, errors: &mut Vec<FieldError>) -> Option<String> {
    let Value::String(name) = value else {
        errors.push(wrong_type(path, &value, "a string"));
        return None;
    };
    if let Some(wrong) = format::dns_label(&name) {
        errors.push(FieldError::invalid(path, &name, wrong));
    }
    Some(name)
}

pub(super) fn items(list: Value, path: &FieldPath, errors: &mut Vec<FieldError>) -> Vec<Value> {
    match list {
        Value::Null => Vec::new(),
        Value::Array(items) => items,
        other => {
            errors.push(wrong_type(path, &other, "a list"));
            Vec::new()
        }
    }
}

/// The value has another type than `wanted`; what it holds is not shown, it may be a whole manifest.
pub(super) fn wrong_type(path: &FieldPath, found: &Value, wanted: &str) -> FieldError {
    FieldError::new(path, Cause::Type, format!("must be {wanted}, found {}", json::type_name(found)))
}
