//! Validation of the identity fields (IDV-1, E1, E3, E4), as far as it needs no questions to the cluster.

use std::collections::BTreeSet;

use pillion_kubernetes::field::{FieldError, FieldPath};
use pillion_kubernetes::outcome::Reason;
use pillion_kubernetes::selector::{Op, Possible, Requirement, Selector, Values};
use pillion_sidecarset::names::NAMESPACE_NAME_LABEL;
use pillion_sidecarset::sidecar_set::SidecarSet;

use super::author;
use super::changes;
use super::content;
use super::declared::{self, ACCOUNT, Declared, FIELDS, MODE, Mode, TOKENS};
use super::rules::{Objection, Rules};

/// The name of the feature gate.
const GATE: &str = "SidecarSetServiceAccountInjection";

/// The result of validating a SidecarSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Errors of fields: the set is refused as invalid.
    pub invalid: Vec<FieldError>,
    /// Reasons to refuse the set, each with its code: the settings or the cluster forbid it, or a question to the
    /// cluster failed.
    pub refused: Vec<Reason>,
    /// Warnings for the author.
    pub warnings: Vec<String>,
}

impl Findings {
    /// Whether there are no errors and no refusals.
    pub fn is_fine(&self) -> bool {
        self.invalid.is_empty() && self.refused.is_empty()
    }

    /// Returns errors and refusals as errors of fields, for settings, which have no status codes.
    pub fn into_errors(self) -> Vec<FieldError> {
        let mut errors = self.invalid;
        for Reason { field, problem, remedy, .. } in self.refused {
            errors.push(FieldError::forbidden(&field, format!("{problem}; {remedy}")));
        }
        errors
    }
}

/// IDV-1: without the gate, a request must not set any of the fields anew. An update may keep or remove old values. If
/// the set names an account, an update must not change other injected fields, either (E23).
pub fn check_gate(set: &SidecarSet, old: Option<&SidecarSet>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let detail = format!("the feature gate {GATE} is off; turn it on in featureGates, or remove this");
    for field in FIELDS {
        let in_spec =
            |set: &SidecarSet| set.spec(&[field.name]).filter(|value| !value.is_null() && **value != "").cloned();
        let value = in_spec(set);
        if value.is_some() && value != old.and_then(in_spec) {
            errors.push(FieldError::forbidden(declared::path(field), detail.as_str()));
        }
        let text = set.annotation(field.annotation);
        if !text.is_empty() && old.is_none_or(|old| old.annotation(field.annotation) != text) {
            errors.push(FieldError::forbidden(declared::annotation_path(field), detail.as_str()));
        }
    }
    // A field that is set anew already has an error.
    let more = old.map(|old| changes::check_while_off(set, old)).unwrap_or_default();
    let is_new = |error: &FieldError| errors.iter().all(|known| known.path != error.path);
    let more: Vec<FieldError> = more.into_iter().filter(is_new).collect();
    errors.extend(more);
    errors
}

/// Checks a defaulted SidecarSet: IDV-2, IDV-5 to IDV-8, E1, E3, E4, E16, ESC-4. If it comes from a bundle, with the
/// stored version that it requests (IDC-9).
pub fn check(set: &SidecarSet, rules: &Rules) -> (Declared, Findings) {
    let mut findings = Findings::default();
    let declared = match Declared::from_sidecar_set(set) {
        Ok(declared) => declared,
        Err(errors) => {
            findings.invalid = errors;
            return (Declared::default(), findings);
        }
    };
    (findings.invalid, findings.warnings) = declared.check();
    findings.refused = author::denied(set.name(), &declared, rules);
    if let Some(account) = &declared.service_account {
        check_place(set, account, rules, &mut findings);
        if declared.mode == Mode::Pod && !rules.allow_pod_mode {
            findings.refused.push(refusal(
                set,
                declared::path(MODE),
                format!("mode Pod would give the app the permissions of \"{account}\""),
                "use SidecarsOnly or Isolate, or set serviceAccounts.allowPodMode",
            ));
        }
        check_audiences(set, &declared, rules, &mut findings);
        findings.invalid.append(&mut content::check(set, &rules.trusted_csi_drivers));
        if let Some(stored) = set.revision() {
            findings.invalid.append(&mut content::check_revision(set, &stored, &rules.trusted_csi_drivers));
        }
    }
    (declared, findings)
}

/// AUD-5: checks the audiences and lifetimes of the tokens.
fn check_audiences(set: &SidecarSet, declared: &Declared, rules: &Rules, findings: &mut Findings) {
    let path = declared::path(TOKENS);
    let path = FieldPath::new(&path);
    for (index, token) in declared.tokens.iter().enumerate() {
        if let Some(Objection { problem, remedy }) = rules.objects_to(token) {
            findings.refused.push(refusal(set, path.index(index).to_string(), problem, remedy));
        }
    }
}

/// E1, IDV-5: checks the namespaces in which the account would be used.
fn check_place(set: &SidecarSet, account: &str, rules: &Rules, findings: &mut Findings) {
    let selector = FieldPath::new("spec.namespaceSelector");
    let Some(namespaces) = author::closed_list(set) else {
        let may_match = may_select(set, &rules.protected_namespaces);
        if !may_match.is_empty() {
            findings.warnings.push(format!(
                "Pods in the protected namespaces {} are refused where this SidecarSet matches them; exclude them in {selector}",
                may_match.join(", ")
            ));
        }
        if !rules.allows_anywhere(account) {
            findings.refused.push(not_allowed(set, account, "in any namespace"));
        }
        return;
    };
    let protected: BTreeSet<_> = rules.protected_namespaces.iter().map(String::as_str).collect();
    let Some(allowed) = rules.allowed_namespaces(account, &namespaces) else {
        let problem = format!("too many namespaces to compare with serviceAccounts.allowed for \"{account}\"");
        let remedy = "select fewer namespaces, or write fewer and shorter globs";
        findings.refused.push(refusal(set, selector.to_string(), problem, remedy));
        return;
    };
    for namespace in namespaces {
        if protected.contains(namespace) {
            let problem = format!("no sidecar gets a ServiceAccount in the protected namespace \"{namespace}\"");
            let remedy = "leave the namespace out, or change serviceAccounts.protectedNamespaces";
            findings.refused.push(refusal(set, selector.to_string(), problem, remedy));
        } else if !allowed.contains(namespace) {
            findings.refused.push(not_allowed(set, account, &format!("in namespace \"{namespace}\"")));
        }
    }
}

fn not_allowed(set: &SidecarSet, account: &str, place: &str) -> Reason {
    let problem = format!("ServiceAccount \"{account}\" is not allowed {place}");
    refusal(set, declared::path(ACCOUNT), problem, "add it to serviceAccounts.allowed")
}

/// Returns those of the namespaces in which the set can match a Pod. The selector is read once: both may be long (E18).
fn may_select<'a>(set: &SidecarSet, namespaces: &'a [String]) -> Vec<&'a str> {
    let selector = set.spec(&["namespaceSelector"]).map(Selector::parse_known).unwrap_or_default();
    let possible = Possible::from_selector(&selector);
    let may_be_in = |namespace: &&str| {
        let named = Requirement { key: NAMESPACE_NAME_LABEL, op: Op::In, values: Values::One(namespace) };
        possible.overlaps(&Possible::from_selector(&Selector::only(named)))
    };
    namespaces.iter().map(String::as_str).filter(may_be_in).collect()
}

pub(super) fn refusal(set: &SidecarSet, field: String, problem: String, remedy: &str) -> Reason {
    Reason::forbidden(field, problem, remedy).about(set.name())
}

#[cfg(test)]
mod tests;
