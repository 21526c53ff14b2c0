//! What `SidecarSet`s say of ServiceAccounts: what the core finds, at its place.

use pillion_admission::words::nearest;
use pillion_identity::author::uses_feature;
use pillion_identity::declared::FIELDS;
use pillion_identity::rules::Rules;
use pillion_identity::validation::{self, Findings};
use pillion_identity::{conflicts, declared};
use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use serde_json::Value;

use super::subject::{Spot, Subject};
use crate::report::Finding;

/// The gate that the fields need.
pub const GATE: &str = "SidecarSetServiceAccountInjection";
/// Annotations with this prefix can only be meant for the policy.
const PREFIX: &str = "pillion.dev/service-account-";

/// A `SidecarSet` among others, and where it stands if it is one of those that findings are wanted of.
pub struct Member<'a> {
    set: SidecarSet,
    spot: Option<&'a Spot<'a>>,
}

impl<'a> Member<'a> {
    /// One that findings are wanted of.
    pub fn of(subject: &'a Subject<'a>) -> Self {
        Self { set: subject.prepared.clone(), spot: Some(&subject.spot) }
    }

    /// One that others are compared with.
    pub fn beside(set: &SidecarSet) -> Self {
        Self { set: prepared(set), spot: None }
    }
}

/// What the core finds, with the gate on: each alone, and those that name an account each with those before it.
pub fn judge<'a>(members: &[Member<'a>], rules: &Rules) -> Vec<(&'a Spot<'a>, Findings)> {
    let mut judged = Vec::new();
    let mut earlier = Vec::new();
    for Member { set, spot } in members {
        let (declared, mut findings) = validation::check(set, rules);
        if findings.is_fine() && declared.service_account.is_some() {
            for (other, theirs) in &earlier {
                conflicts::check((set, &declared), (*other, theirs), rules, &mut findings);
            }
            earlier.push((set, declared));
        }
        judged.extend(spot.map(|spot| (spot, findings)));
    }
    judged
}

/// The warnings of the core about a `SidecarSet`. They are texts, most of which name the field that they are about.
pub fn warnings(spot: &Spot<'_>, findings: &Findings) -> Vec<Finding> {
    let warning = |text: &String| {
        let path = field_in(text).map_or_else(|| declared::path(declared::ACCOUNT), str::to_owned);
        let text = text.strip_prefix(&format!("{path}: ")).unwrap_or(text);
        let (message, remedy) = text.split_once("; ").unwrap_or((text, ""));
        spot.warning(&path, message, remedy)
    };
    findings.warnings.iter().map(warning).collect()
}

/// The first word that is the path of a field.
fn field_in(text: &str) -> Option<&str> {
    let words = text.split([' ', ',', ';']).map(|word| word.trim_end_matches(':'));
    words.into_iter().find(|word| word.starts_with("spec."))
}

/// V1: a `SidecarSet` of settings that uses the feature although its gate is off.
pub fn unheeded(subject: &Subject<'_>) -> Option<Finding> {
    if !uses_feature(&subject.set) {
        return None;
    }
    let is_set = |field: &&declared::Field| subject.set.spec(&[field.name]).is_some_and(|value| !value.is_null());
    let is_annotated = |field: &&declared::Field| !subject.set.annotation(field.annotation).is_empty();
    let field = FIELDS.iter().find(|field| is_set(field) || is_annotated(field))?;
    let message = format!("the SidecarSet is injected without its ServiceAccount: the feature gate {GATE} is off");
    let remedy = "turn it on in featureGates, or remove what is said of ServiceAccounts";
    Some(subject.spot.warning(declared::path(*field).as_str(), message, remedy))
}

/// Annotations that look like those that stand for fields, and that nobody reads.
pub fn misspelt(spot: &Spot<'_>) -> Vec<Finding> {
    let known = FIELDS.map(|field| field.annotation);
    let annotations = json::object(spot.raw, &["metadata", "annotations"]);
    let keys = annotations.into_iter().flat_map(|annotations| annotations.keys());
    let wrong = keys.filter(|key| key.starts_with(PREFIX) && !known.contains(&key.as_str()));
    wrong
        .map(|key| {
            let path = FieldPath::new("metadata.annotations").key(key).to_string();
            let remedy = match nearest(key, known) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("known are {}", known.join(", ")),
            };
            spot.warning(&path, "nothing reads this annotation", remedy)
        })
        .collect()
}

/// An empty `denyPermissions`: the list stands instead of the default one.
pub fn denials(spot: &Spot<'_>) -> Vec<Finding> {
    const PATH: &str = "serviceAccounts.denyPermissions";
    let Some(rules) = json::at(spot.raw, &["serviceAccounts", "denyPermissions"]).and_then(Value::as_array) else {
        return Vec::new();
    };
    if !rules.is_empty() {
        return Vec::new();
    }
    let message = "nothing is denied: a SidecarSet may grant whatever its author holds, escalate and bind included";
    vec![spot.warning(PATH, message, "leave it out for the default list")]
}
