//! Warnings about fields and annotations of a `SidecarSet` that nothing reads (WARN-3).

use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json;
use pillion_kubernetes::words::nearest;
use pillion_sidecarset::sidecar_set::version::Version;
use pillion_sidecarset::warnings::{Rule, Warning, unknown_fields};
use serde_json::Value;

use super::declared::FIELDS;

/// The prefix of annotations that are only meant for the policy.
const PREFIX: &str = "pillion.dev/service-account-";

/// Returns warnings about what nothing reads: fields that neither the API nor identities have, and annotations that look
/// like those that replace the fields of identities. The object may be undecodable.
pub fn unread(object: &Value, version: Version) -> Vec<Warning> {
    let mut found = unknown_fields(object, version, &FIELDS.map(|field| field.name));
    annotations(object, &mut found);
    found
}

fn annotations(object: &Value, found: &mut Vec<Warning>) {
    let known = FIELDS.map(|field| field.annotation);
    for key in json::object(object, &["metadata", "annotations"]).into_iter().flat_map(|annotations| annotations.keys())
    {
        if !key.starts_with(PREFIX) || known.contains(&key.as_str()) {
            continue;
        }
        let path = FieldPath::new("metadata.annotations").key(key).to_string();
        let remedy = match nearest(key, known) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("known are {}", listed(&known)),
        };
        found.push(Warning::new(Rule::UnknownAnnotation, path, "nothing reads this annotation", remedy));
    }
}

/// Returns the keys, of which only the first has the prefix: the API server passes on 256 characters of a warning.
fn listed(known: &[&str]) -> String {
    let rest = known
        .iter()
        .skip(1)
        .map(|key| key.strip_prefix(PREFIX).map_or_else(|| (*key).to_owned(), |end| format!("-{end}")));
    known.first().map(|first| (*first).to_owned()).into_iter().chain(rest).collect::<Vec<_>>().join(", ")
}
