//! Admission of the identity fields of a SidecarSet (IDV-1, ESC-1, E5).

use pillion_kubernetes::authorizer::Author;
use pillion_kubernetes::field::FieldError;
use pillion_kubernetes::lookup::Lookup;
use pillion_kubernetes::outcome::{Code, Reason};
use pillion_kubernetes::world::World;
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::validation::conflicts::Claims;

use super::author::{self, Inquiry, NAMESPACES_MAX};
use super::changes;
use super::conflicts;
use super::content;
use super::declared::{ACCOUNT, Declared, path};
use super::existence::{Existence, exists};
use super::partners::Origin;
use super::rules::Rules;
use super::sharing::{Compared, Versions};
use super::validation::{self, Findings};

/// A request to create or update a SidecarSet.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The new set, defaulted.
    pub set: &'a SidecarSet,
    /// The old set, if this is an update.
    pub old: Option<&'a SidecarSet>,
    /// The user who sends the request.
    pub author: &'a Author,
    /// The other sets, defaulted.
    pub others: &'a [SidecarSet],
    /// Finds the stored version that the new set requests; `None` if it requests none, or if it cannot be known here.
    /// The error says that the cluster did not answer.
    pub stored: &'a dyn Fn() -> Result<Option<ControllerRevision>, Reason>,
    /// Whether the set is valid otherwise. Only then are permissions checked and other sets compared (VAL-1).
    pub is_fine: bool,
}

/// Returns all problems: first those of the set alone, then those that need questions to the cluster.
///
/// The cluster is not asked about an update that changes no field which requires a check of the author (ESC-1).
pub fn judge(asked: Asked<'_>, gate: bool, rules: &Rules, world: World<'_>) -> Findings {
    let Asked { set, old, author, others, is_fine, .. } = asked;
    let (declared, mut findings) = if gate {
        validation::check(set, rules)
    } else {
        let invalid = validation::check_gate(set, old);
        (Declared::default(), Findings { invalid, ..Findings::default() })
    };
    if author::uses_feature(set) || rules.require_create_pods {
        findings.invalid.extend(field_of_another_version(set));
    }
    // Compare with the old object last: the comparison must default it first, which takes time.
    if !is_fine || !findings.is_fine() || !old.is_none_or(|old| changes::concerns(set, old)) {
        return findings;
    }
    if gate {
        check_versions(asked, &declared, rules, &mut findings);
        if !findings.is_fine() {
            return findings;
        }
    }
    let mut inquiry = Inquiry::new(world.authorizer, world.elapsed);
    findings.refused = author::check(set, &declared, author, rules, &mut inquiry);
    if !gate || !conflicts::can_conflict(set, &declared, rules) {
        return findings;
    }
    if let Some(account) = &declared.service_account
        && findings.refused.is_empty()
    {
        findings.refused = author::privileged(set, account, rules, &mut inquiry);
    }
    if findings.refused.is_empty() {
        if let Some(account) = &declared.service_account {
            check_existence(set, account, rules, world.lookup, &mut findings);
        }
        let claims = Claims::from_sidecar_set(set);
        for other in others {
            if let Ok(theirs) = Declared::from_sidecar_set(other) {
                conflicts::check_claims(
                    (&claims, &declared),
                    (&Claims::from_sidecar_set(other), &theirs),
                    rules,
                    &mut findings,
                );
            }
        }
    }
    findings
}

/// IDC-9, IDC-11: checks the stored version that the set requests, and the volumes that it shares with other sets in
/// either version.
fn check_versions(asked: Asked<'_>, declared: &Declared, rules: &Rules, findings: &mut Findings) {
    let set = asked.set;
    let stored = match (asked.stored)() {
        Ok(stored) => stored,
        Err(reason) => return findings.refused.push(reason),
    };
    if let Some(revision) = stored.as_ref().filter(|_| declared.service_account.is_some()) {
        findings.invalid.append(&mut content::check_revision(set, revision, &rules.trusted_csi_drivers));
    }
    let versions = Versions::new(set, stored.and_then(|revision| content::version(set, &revision)));
    let used = versions.used();
    let own = Compared::new(set, declared, Origin::Cluster, &used);
    for other in asked.others {
        let versions = Versions::bundled(other);
        let used = versions.used();
        // Most sets use other volumes. Do not read their identities.
        if own.shares_a_name(&used)
            && let Ok(theirs) = Declared::from_sidecar_set(other)
        {
            let other = Compared::new(other, &theirs, other.origin(), &used);
            own.check(&other, &mut findings.invalid);
        }
    }
}

/// Checks for `spec.namespace` in v1beta1, which has no such field. A CRD that does not convert versions keeps the
/// field, and readers of v1alpha1 take it for the namespace of the set. That need not be one of the namespaces for
/// which the author's permissions are checked.
fn field_of_another_version(set: &SidecarSet) -> Option<FieldError> {
    let namespace = set.spec(&["namespace"]).filter(|value| !value.is_null() && *value != "")?;
    let detail = format!(
        "v1beta1 has no such field, and v1alpha1 would take {namespace} for the only namespace; remove it, and name the \
         namespace in spec.namespaceSelector by its label kubernetes.io/metadata.name"
    );
    Some(FieldError::forbidden("spec.namespace", detail))
}

/// IDV-3, IDC-1: checks that the account exists in each namespace that the set names. Without a list of namespaces, the
/// check happens for each Pod.
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
