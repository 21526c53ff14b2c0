//! Admission of a SidecarSet, as far as it is about identity (`serviceaccounts.md` A3, A7, E5).

use pillion_kubernetes::authorizer::Author;
use pillion_kubernetes::field::FieldError;
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::Lookup;
use pillion_kubernetes::outcome::{Code, Reason};
use pillion_kubernetes::world::World;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::validation::conflicts::Claims;

use super::author::{self, Inquiry, NAMESPACES_MAX};
use super::changes;
use super::conflicts;
use super::declared::{ACCOUNT, Declared, path};
use super::existence::{Existence, exists};
use super::rules::Rules;
use super::validation::{self, Findings};

/// A SidecarSet that is about to be stored.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The set, defaulted.
    pub set: &'a SidecarSet,
    /// The set before an update.
    pub old: Option<&'a SidecarSet>,
    /// Who wants it.
    pub author: &'a Author,
    /// The other sets, defaulted.
    pub others: &'a [SidecarSet],
    /// Whether nothing else is wrong with it. Only then is anybody asked, and other sets are compared with (V-1).
    pub is_fine: bool,
}

/// Everything that is wrong: first what can be told at once, then what has to be asked.
///
/// Nothing is asked of an update that changes nothing which the author has to answer for (P1).
pub fn judge(asked: Asked<'_>, gate: bool, rules: &Rules, world: World<'_>) -> Findings {
    let Asked { set, old, author, others, is_fine } = asked;
    let (declared, mut findings) = if gate {
        validation::check(set, rules)
    } else {
        let invalid = validation::check_gate(set, old);
        (Declared::default(), Findings { invalid, ..Findings::default() })
    };
    if author::uses_feature(set) || rules.require_create_pods {
        findings.invalid.extend(field_of_another_version(set));
    }
    // Whether anything changes comes last: the old object has to be defaulted to tell.
    if !is_fine || !findings.is_fine() || !old.is_none_or(|old| changes::concerns(set, old)) {
        return findings;
    }
    let mut inquiry = Inquiry::new(world.authorizer, world.elapsed);
    findings.refused = author::check(set, &declared, author, rules, &mut inquiry);
    let Some(account) = &declared.service_account else { return findings };
    if findings.refused.is_empty() {
        findings.refused = author::privileged(set, account, rules, &mut inquiry);
    }
    if findings.refused.is_empty() {
        check_existence(set, account, rules, world.lookup, &mut findings);
        let claims = Claims::of(set);
        for other in others {
            if let Ok(theirs) = Declared::of(other) {
                conflicts::check_claims((&claims, &declared), (&Claims::of(other), &theirs), rules, &mut findings);
            }
        }
    }
    findings
}

/// `spec.namespace` in v1beta1, which has no such field. A definition that does not convert versions keeps it, and whoever
/// reads the object in v1alpha1 takes it for the namespace of the set: not the ones that the author is asked about.
fn field_of_another_version(set: &SidecarSet) -> Option<FieldError> {
    let namespace = set.spec(&["namespace"]).filter(|value| !value.is_null() && *value != "")?;
    let detail = format!(
        "v1beta1 has no such field, and v1alpha1 would take {} for the only namespace; remove it, and name the namespace in \
         spec.namespaceSelector by its label kubernetes.io/metadata.name",
        json::shown(namespace)
    );
    Some(FieldError::forbidden("spec.namespace", detail))
}

/// V3, A5-1: the account in each of the namespaces that the set names; elsewhere each Pod shows.
fn check_existence(set: &SidecarSet, account: &str, rules: &Rules, lookup: &dyn Lookup, findings: &mut Findings) {
    let Some(namespaces) = author::closed_list(set) else {
        findings.warnings.push(format!(
            "whether ServiceAccount \"{account}\" exists is checked for each Pod, as the namespaces are not named"
        ));
        return;
    };
    for namespace in namespaces.iter().take(NAMESPACES_MAX) {
        let (problem, remedy, code) = match exists(account, namespace, lookup) {
            Existence::There { .. } => continue,
            Existence::Missing(problem) => (problem, "create it first".to_owned(), Code::Forbidden),
            Existence::Unknown(problem, remedy) => (problem, remedy, Code::Unavailable),
        };
        if rules.strict_existence {
            findings.refused.push(Reason::new(code, path(ACCOUNT), problem, &remedy).about(set.name()));
        } else {
            findings.warnings.push(problem);
        }
    }
    if namespaces.len() > NAMESPACES_MAX {
        findings.warnings.push(format!(
            "whether ServiceAccount \"{account}\" exists was checked in the first {NAMESPACES_MAX} namespaces only"
        ));
    }
}

#[cfg(test)]
mod tests;
