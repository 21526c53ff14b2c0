//! Checks Kubewarden's policies as their definitions and Kubewarden's own webhook do. The source is
//! kubewarden-controller at `3460bb71`: the definitions in `charts/kubewarden-crds`, and
//! `api/policies/v1/*_validation.go`.

use pillion_install::policy_fields::{CONDITIONS_MAX, Field, Kind, SPEC, Shape, TIMEOUT};
use pillion_install::schema;
use pillion_kubernetes::field::{Cause, FieldError, FieldErrors, FieldPath};
use pillion_kubernetes::json;
use serde_json::Value;

use super::documents::{GROUPS, KUBEWARDEN, POLICIES, settings_key};
use super::subject::Spot;
use crate::report::Finding;

/// The versions of the definitions. Groups only have the first.
const VERSIONS: [&str; 2] = ["v1", "v1alpha2"];
/// The keys of a policy.
const OBJECT: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];
/// The default of `timeoutSeconds`.
const TIMEOUT_DEFAULT: i64 = 10;

/// Returns the errors for which the API server would refuse a policy, except errors in its settings.
pub(super) fn judge(spot: &Spot<'_>) -> Vec<Finding> {
    let mut errors = Vec::new();
    identity(spot.raw, &mut errors);
    unknown(spot.raw, &OBJECT, &FieldPath::default(), |_| None, &mut errors);
    let kind = Kind::parse(json::text(spot.raw, &["kind"]));
    if let Some(spec) = spot.raw.get("spec") {
        let at = FieldPath::new("spec");
        object(spec, SPEC, kind, &at, &mut errors);
        timeouts(spec, &at, &mut errors);
        let default = json::at(spec, &["timeoutSeconds"]).and_then(Value::as_i64).unwrap_or(TIMEOUT_DEFAULT);
        for (name, member) in json::object(spec, &["policies"]).into_iter().flatten() {
            evaluation(member, default, &at.child("policies").child(name), &mut errors);
        }
    }
    errors.iter().map(|error| spot.error(error)).collect()
}

/// Checks group, version and kind.
fn identity(policy: &Value, errors: &mut Vec<FieldError>) {
    let (api_version, kind) = (json::text(policy, &["apiVersion"]), json::text(policy, &["kind"]));
    let is_group = GROUPS.contains(&kind);
    let kinds: Vec<&str> = POLICIES.into_iter().chain(GROUPS).collect();
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported("kind", kind, &kinds));
    }
    let versions: Vec<String> =
        VERSIONS.iter().take(if is_group { 1 } else { 2 }).map(|version| format!("{KUBEWARDEN}/{version}")).collect();
    if !versions.iter().any(|version| version == api_version) {
        let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
        errors.push(FieldError::not_supported("apiVersion", api_version, &versions));
    }
}

/// Checks the fields of an object and their values.
fn object(value: &Value, fields: &[Field], kind: Kind, at: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let Some(entries) = value.as_object() else {
        return errors.wrong_type(at, "an object", value);
    };
    let here: Vec<&Field> = fields.iter().filter(|field| field.is_in(kind)).collect();
    let names: Vec<&str> = here.iter().map(|field| field.name).collect();
    let remedy = |key: &str| {
        if let Some(field) = fields.iter().find(|field| field.name == key) {
            return Some(format!("only {} has this field", field.owners()));
        }
        let is_setting = schema::members("").any(|(name, _)| name == key) && names.contains(&"settings");
        is_setting.then(|| format!("{key} is a setting; write it below {at}.settings"))
    };
    unknown(value, &names, at, remedy, errors);
    for field in here {
        let at = at.child(field.name);
        match entries.get(field.name) {
            None | Some(Value::Null) => {}
            Some(value) => shape(value, field.shape, kind, &at, errors),
        }
    }
}

/// Reports unknown keys. `remedy` may return a better remedy for a key than the list of known keys.
fn unknown(
    object: &Value,
    known: &[&str],
    at: &FieldPath<'_>,
    remedy: impl Fn(&str) -> Option<String>,
    errors: &mut Vec<FieldError>,
) {
    let keys = object.as_object().into_iter().flat_map(|object| object.keys());
    for key in keys.filter(|key| !known.contains(&key.as_str())) {
        let detail = remedy(key).unwrap_or_else(|| format!("known here: {}", known.join(", ")));
        errors.push(FieldError::new(at.child(key), Cause::Unknown, detail));
    }
}

fn shape(value: &Value, shape: Shape, kind: Kind, at: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    match shape {
        Shape::Any => {}
        Shape::Text => {
            if !value.is_string() {
                errors.wrong_type(at, "a string", value);
            }
        }
        Shape::Flag => {
            if !value.is_boolean() {
                errors.wrong_type(at, "true or false", value);
            }
        }
        Shape::Seconds => seconds(value, at, errors),
        Shape::OneOf(words) => match value.as_str() {
            // An empty string means absent.
            Some(text) if text.is_empty() || words.contains(&text) => {}
            Some(text) => errors.push(FieldError::not_supported(at, text, words)),
            None => errors.wrong_type(at, "a string", value),
        },
        Shape::Map => match value.as_object() {
            Some(entries) => {
                for (key, value) in entries.iter().filter(|(_, value)| !value.is_string()) {
                    errors.wrong_type(&at.key(key), "a string", value);
                }
            }
            None => errors.wrong_type(at, "an object", value),
        },
        Shape::Object(fields) => object(value, fields, kind, at, errors),
        Shape::Members(fields) => match value.as_object() {
            Some(members) => {
                for (name, member) in members {
                    object(member, fields, kind, &at.child(name), errors);
                }
            }
            None => errors.wrong_type(at, "an object", value),
        },
        Shape::List(item) => match value.as_array() {
            Some(items) => {
                for (index, value) in items.iter().enumerate() {
                    self::shape(value, *item, kind, &at.index(index), errors);
                }
            }
            None => errors.wrong_type(at, "a list", value),
        },
        Shape::Conditions(list) => {
            self::shape(value, *list, kind, at, errors);
            conditions(value, at, errors);
        }
    }
}

/// Checks `matchConditions`: their number, and that their names are unique.
fn conditions(value: &Value, at: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let items = value.as_array().map_or(&[][..], Vec::as_slice);
    if items.len() > CONDITIONS_MAX {
        let detail = format!("at most {CONDITIONS_MAX} conditions; join some of them with &&");
        errors.push(FieldError::invalid(at, items.len(), detail));
    }
    for (index, item) in items.iter().enumerate() {
        let name = json::text(item, &["name"]);
        let is_taken = items.iter().take(index).any(|other| json::text(other, &["name"]) == name);
        if !name.is_empty() && is_taken {
            errors.push(FieldError::duplicate(at.index(index).child("name"), name));
        }
    }
}

fn seconds(value: &Value, at: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let (least, most) = (*TIMEOUT.start(), *TIMEOUT.end());
    match value.as_i64() {
        Some(seconds) if TIMEOUT.contains(&seconds) => {}
        Some(seconds) => {
            let detail = format!("must be from {least} to {most} seconds");
            errors.push(FieldError::invalid(at, seconds, detail));
        }
        None => errors.wrong_type(at, "a whole number of seconds", value),
    }
}

fn timeouts(spec: &Value, at: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let whole = json::at(spec, &["timeoutSeconds"]).and_then(Value::as_i64).unwrap_or(TIMEOUT_DEFAULT);
    evaluation(spec, whole, at, errors);
}

/// Checks that `timeoutEvalSeconds` is at most `timeoutSeconds`: the evaluation is part of the request.
fn evaluation(owner: &Value, whole: i64, at: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "timeoutEvalSeconds";
    let evaluation = json::at(owner, &[FIELD]).and_then(Value::as_i64);
    if let Some(seconds) = evaluation.filter(|seconds| TIMEOUT.contains(seconds) && *seconds > whole) {
        let detail = format!("is more than timeoutSeconds, which is {whole}; lower it, or raise timeoutSeconds");
        errors.push(FieldError::invalid(at.child(FIELD), seconds, detail));
    }
}

/// Returns the path of the settings in a policy, or in a member of a group at the path `at`.
pub(super) fn settings_path(spec: &Value, at: &FieldPath<'_>) -> String {
    at.child(settings_key(spec)).to_string()
}
