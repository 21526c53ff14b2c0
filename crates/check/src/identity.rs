//! Findings about the ServiceAccounts of `SidecarSet`s, with their places.

use pillion_identity::author::uses_feature;
use pillion_identity::declared::{Declared, FIELDS};
use pillion_identity::partners::Origin;
use pillion_identity::rules::Rules;
use pillion_identity::sharing::{Compared, Versions};
use pillion_identity::validation::{self, Findings};
use pillion_identity::{conflicts, declared};
use pillion_kubernetes::field::{FieldError, FieldPath};
use pillion_kubernetes::json;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use serde_json::Value;

use super::subject::{Spot, Subject};
use crate::report::Finding;

/// The feature gate of the fields.
pub const GATE: &str = "SidecarSetServiceAccountInjection";

/// A `SidecarSet` of a list, with its place if findings about it are wanted.
pub struct Member<'a> {
    set: SidecarSet,
    spot: Option<&'a Spot<'a>>,
}

impl<'a> Member<'a> {
    /// Returns a member whose findings are wanted.
    pub fn new(subject: &'a Subject<'a>, origin: Origin) -> Self {
        Self { set: subject.prepared.clone().with_origin(origin), spot: Some(&subject.spot) }
    }

    /// Returns a member of the settings that serves only for comparison.
    pub fn beside(set: &SidecarSet) -> Self {
        Self { set: prepared(set).with_origin(Origin::Settings), spot: None }
    }
}

/// Checks each member alone, and each that names an account against earlier ones. Assumes that the gate is on.
pub fn judge<'a>(members: &[Member<'a>], rules: &Rules) -> Vec<(&'a Spot<'a>, Findings)> {
    let mut judged = Vec::new();
    let mut earlier = Vec::new();
    for Member { set, spot, .. } in members {
        let (declared, mut findings) = validation::check(set, rules);
        if findings.is_fine() && conflicts::can_conflict(set, &declared, rules) {
            for (other, theirs) in &earlier {
                conflicts::check((set, &declared), (*other, theirs), rules, &mut findings);
            }
            earlier.push((set, declared));
        }
        judged.extend(spot.map(|spot| (spot, findings)));
    }
    judged
}

/// IDC-11: returns an error for each volume that a member shares with an earlier one that it does not trust.
pub fn shared_volumes<'a>(members: &[Member<'a>]) -> Vec<(&'a Spot<'a>, FieldError)> {
    let versions: Vec<Versions<'_>> = members.iter().map(|member| Versions::bundled(&member.set)).collect();
    let used: Vec<_> = versions.iter().map(Versions::used).collect();
    let declared: Vec<Declared> =
        members.iter().map(|member| Declared::from_sidecar_set(&member.set).unwrap_or_default()).collect();
    let parties = members
        .iter()
        .zip(&declared)
        .zip(&used)
        .map(|((Member { set, .. }, declared), used)| Compared::new(set, declared, set.origin(), used));
    let parties: Vec<Compared<'_>> = parties.collect();
    let mut found = Vec::new();
    for (index, (member, party)) in members.iter().zip(&parties).enumerate() {
        let Some(spot) = member.spot else { continue };
        let mut errors = Vec::new();
        for other in parties.iter().take(index) {
            party.check(other, &mut errors);
        }
        found.extend(errors.into_iter().map(|error| (spot, error)));
    }
    found
}

/// Converts warnings about a `SidecarSet`, which are texts, into findings. Most texts name the field.
pub fn warnings(spot: &Spot<'_>, findings: &Findings) -> Vec<Finding> {
    let warning = |text: &String| {
        let path = field_in(text).map_or_else(|| declared::path(declared::ACCOUNT), str::to_owned);
        let text = text.strip_prefix(&format!("{path}: ")).unwrap_or(text);
        let (message, remedy) = text.split_once("; ").unwrap_or((text, ""));
        spot.warning(&path, message, remedy)
    };
    findings.warnings.iter().map(warning).collect()
}

/// Returns the first word that is the path of a field.
fn field_in(text: &str) -> Option<&str> {
    let words = text.split([' ', ',', ';']).map(|word| word.trim_end_matches(':'));
    words.into_iter().find(|word| word.starts_with("spec."))
}

/// IDV-1: returns a finding for a `SidecarSet` of settings that uses the feature although its gate is off.
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

/// Returns findings for lists of audiences that allow more than their author may think: a glob of any audience, and an
/// empty list of the API server's audiences, which replaces the default list (AUD-5).
pub fn audiences(spot: &Spot<'_>) -> Vec<Finding> {
    const ALLOWED: &str = "allowedAudiences";
    const OF_API_SERVER: &str = "apiServerAudiences";
    let list = |name: &str| json::at(spot.raw, &["serviceAccounts", name]).and_then(Value::as_array);
    let is_anything =
        |glob: &Value| glob.as_str().is_some_and(|glob| glob.contains('*') && glob.trim_matches('*').is_empty());
    let mut findings = Vec::new();
    for (index, _) in list(ALLOWED).into_iter().flatten().enumerate().filter(|(_, glob)| is_anything(glob)) {
        let message = "every audience is allowed: a SidecarSet may get tokens for any service that trusts this cluster";
        let path = FieldPath::new("serviceAccounts").item(ALLOWED, index).to_string();
        findings.push(spot.warning(&path, message, "name the audiences of the services that sidecars need"));
    }
    if list(OF_API_SERVER).is_some_and(Vec::is_empty) {
        let message = "no audience counts as one of the API server, so a SidecarSet could get a second token for it";
        let path = FieldPath::new("serviceAccounts").child(OF_API_SERVER).to_string();
        findings.push(spot.warning(
            &path,
            message,
            "leave it out for the default list, or name those of your API server",
        ));
    }
    findings
}

/// Returns a finding for `mergeClusterSets`, which lends every SidecarSet the permissions of the others (TRUST-2).
pub fn alike(spot: &Spot<'_>) -> Option<Finding> {
    const PATH: &str = "serviceAccounts.mergeClusterSets";
    if !json::flag(spot.raw, &["serviceAccounts", "mergeClusterSets"]) {
        return None;
    }
    let message = "whoever may write a SidecarSet gets the permissions of every other one with the behaviour Merge that \
                   matches the same Pods, those of the settings included";
    let remedy =
        "leave it out, and name the SidecarSets that may share an account in spec.serviceAccountPartners of each";
    Some(spot.warning(PATH, message, remedy))
}

/// Returns a finding for an empty `denyPermissions`, which replaces the default list.
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
