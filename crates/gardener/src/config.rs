//! Reads a `serviceAccountConfig` and annotations from an object.

use pillion_kubernetes::field::{FieldErrors, FieldPath};
use pillion_kubernetes::json;
use pillion_kubernetes::node::Node;
use serde_json::Value;

use super::Judgement;

/// A `serviceAccountConfig`. A null field counts as absent. [`Default`] is an absent config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Config<'a> {
    /// Whether the object has a config, even an empty one.
    pub present: bool,
    /// `issuer`; it may be an empty text (D13).
    pub issuer: Option<&'a str>,
    /// `acceptedIssuers`, in order.
    pub accepted: Vec<&'a str>,
    /// `extendTokenExpiration`.
    pub extend: Option<bool>,
    /// `maxTokenExpiration`, as it is written.
    pub max: Option<&'a str>,
}

/// The issuer in the tokens of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signer<'a> {
    /// The cluster's own address. Gardener always accepts it (D15).
    Default,
    /// The issuer in the config.
    Custom(&'a str),
    /// Gardener's discovery server.
    Managed,
}

impl<'a> Config<'a> {
    /// Returns the issuer of tokens. An empty issuer counts as none.
    pub fn signer(&self, managed: bool) -> Signer<'a> {
        match self.issuer {
            _ if managed => Signer::Managed,
            Some(issuer) if !issuer.is_empty() => Signer::Custom(issuer),
            _ => Signer::Default,
        }
    }
}

/// Reads the config at a dotted path. Every field of the wrong type is an error below `root`.
pub(super) fn read<'a>(object: &'a Value, path: &str, root: &FieldPath<'_>, judgement: &mut Judgement) -> Config<'a> {
    let mut read = Config::default();
    let Some(config) = descend(object, path, root, judgement) else { return read };
    let config = Node { value: config, place: root.child(path) };
    read.present = true;
    read.issuer = text(&config.part("issuer"), judgement);
    read.max = text(&config.part("maxTokenExpiration"), judgement);
    let extend = config.part("extendTokenExpiration");
    match extend.value {
        Value::Null => {}
        Value::Bool(extend) => read.extend = Some(*extend),
        other => judgement.undecodable.wrong_type(&extend.place, "true or false", other),
    }
    let accepted = config.part("acceptedIssuers");
    match accepted.value {
        Value::Null => {}
        Value::Array(issuers) => {
            for (index, issuer) in issuers.iter().enumerate() {
                // Go reads null in a list of strings as an empty string.
                let issuer = Node { value: issuer, place: accepted.place.index(index) };
                read.accepted.push(text(&issuer, judgement).unwrap_or_default());
            }
        }
        other => judgement.undecodable.wrong_type(&accepted.place, "a list", other),
    }
    read
}

/// Returns the object's annotations; null if there are none.
pub(super) fn annotations<'a>(object: &'a Value, root: &FieldPath<'_>, judgement: &mut Judgement) -> &'a Value {
    descend(object, "metadata.annotations", root, judgement).unwrap_or(&Value::Null)
}

/// Returns the uid that the API server gave the object.
pub(super) fn uid<'a>(new: &'a Value, stored: &'a Value) -> &'a str {
    let uid = json::text(new, &["metadata", "uid"]);
    if uid.is_empty() { json::text(stored, &["metadata", "uid"]) } else { uid }
}

/// Returns the object at a dotted path. Returns `None` if a step is absent, and also adds an error if a step is not an
/// object.
fn descend<'a>(object: &'a Value, path: &str, root: &FieldPath<'_>, judgement: &mut Judgement) -> Option<&'a Value> {
    let mut found = object;
    let mut walked = 0;
    let mut steps = path.split('.');
    while let Some(fields) = found.as_object() {
        let Some(step) = steps.next() else { return Some(found) };
        found = fields.get(step)?;
        // The step and the dot after it.
        walked += step.len() + 1;
    }
    if !found.is_null() {
        let walked = path.get(..walked.saturating_sub(1)).unwrap_or_default();
        let place = if walked.is_empty() { *root } else { root.child(walked) };
        judgement.undecodable.wrong_type(&place, "an object", found);
    }
    None
}

fn text<'a>(field: &Node<'a, '_>, judgement: &mut Judgement) -> Option<&'a str> {
    match field.value {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => {
            judgement.undecodable.wrong_type(&field.place, "a string", other);
            None
        }
    }
}
