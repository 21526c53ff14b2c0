//! Reading a `serviceAccountConfig` and annotations out of an object.

use serde_json::Value;

use super::Judgement;
use crate::field::FieldPath;
use crate::json;

/// A `serviceAccountConfig`. A field that is null is absent. [`Default`] is none at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Config<'a> {
    /// There is one, be it empty.
    pub present: bool,
    /// `issuer`; an empty text is one (D13).
    pub issuer: Option<&'a str>,
    /// `acceptedIssuers`, in order.
    pub accepted: Vec<&'a str>,
    /// `extendTokenExpiration`.
    pub extend: Option<bool>,
    /// `maxTokenExpiration`, as it is written.
    pub max: Option<&'a str>,
}

/// Whose tokens a cluster issues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signer<'a> {
    /// The cluster's own address; Gardener accepts it whatever else is set (D15).
    Default,
    /// The one that is set.
    Custom(&'a str),
    /// Gardener's discovery server.
    Managed,
}

impl<'a> Config<'a> {
    /// Whose tokens are issued; an empty issuer signs nothing.
    pub fn signer(&self, managed: bool) -> Signer<'a> {
        match self.issuer {
            _ if managed => Signer::Managed,
            Some(issuer) if !issuer.is_empty() => Signer::Custom(issuer),
            _ => Signer::Default,
        }
    }
}

/// The config at a dotted path; every field of another type is an error below `root`.
pub(super) fn read<'a>(object: &'a Value, path: &str, root: &FieldPath, judgement: &mut Judgement) -> Config<'a> {
    let Some((config, at)) = descend(object, path, root, judgement) else { return Config::default() };
    let mut read = Config { present: true, ..Config::default() };
    let field = |key| config.get(key).unwrap_or(&Value::Null);
    read.issuer = text(field("issuer"), &at.child("issuer"), judgement);
    read.max = text(field("maxTokenExpiration"), &at.child("maxTokenExpiration"), judgement);
    match field("extendTokenExpiration") {
        Value::Null => {}
        Value::Bool(extend) => read.extend = Some(*extend),
        other => judgement.undecodable(&at.child("extendTokenExpiration"), other, "true or false"),
    }
    match field("acceptedIssuers") {
        Value::Null => {}
        Value::Array(issuers) => {
            let at = at.child("acceptedIssuers");
            for (index, issuer) in issuers.iter().enumerate() {
                // Go reads null in a list of texts as an empty one.
                read.accepted.push(text(issuer, &at.index(index), judgement).unwrap_or_default());
            }
        }
        other => judgement.undecodable(&at.child("acceptedIssuers"), other, "a list"),
    }
    read
}

/// The object's annotations.
pub(super) fn annotations<'a>(
    object: &'a Value,
    root: &FieldPath,
    judgement: &mut Judgement,
) -> Option<&'a json::Object> {
    descend(object, "metadata.annotations", root, judgement).map(|(annotations, _)| annotations)
}

/// The uid that the API server gave the object.
pub(super) fn uid<'a>(new: &'a Value, stored: &'a Value) -> &'a str {
    let uid = json::text(new, &["metadata", "uid"]);
    if uid.is_empty() { json::text(stored, &["metadata", "uid"]) } else { uid }
}

/// An annotation; absent and empty are the same.
pub(super) fn annotation<'a>(annotations: Option<&'a json::Object>, key: &str) -> &'a str {
    annotations.and_then(|annotations| annotations.get(key)).and_then(Value::as_str).unwrap_or_default()
}

/// The object at a dotted path and its own path. Nothing where a step of it is absent; an error where one is no object.
fn descend<'a>(
    object: &'a Value,
    path: &str,
    root: &FieldPath,
    judgement: &mut Judgement,
) -> Option<(&'a json::Object, FieldPath)> {
    let mut found = object;
    let mut at = root.clone();
    let mut steps = path.split('.');
    loop {
        match (found, steps.next()) {
            (Value::Null, _) => return None,
            (Value::Object(object), None) => return Some((object, at)),
            (Value::Object(object), Some(step)) => {
                found = object.get(step)?;
                at = at.child(step);
            }
            (other, _) => {
                judgement.undecodable(&at, other, "an object");
                return None;
            }
        }
    }
}

fn text<'a>(value: &'a Value, at: &FieldPath, judgement: &mut Judgement) -> Option<&'a str> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => {
            judgement.undecodable(at, other, "a string");
            None
        }
    }
}
