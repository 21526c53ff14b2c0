//! SidecarSets that want different accounts for one Pod (IDV-4, IDC-6).

use pillion_kubernetes::json;
use pillion_kubernetes::selector::{Possible, Selector};
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::validation::conflicts::{Claims, are_related};

use super::declared::{ACCOUNT, Declared, Mode, OnConflict, path};
use super::partners::{self, Side};
use super::rules::{Otherwise, Rules};
use super::validation::{Findings, refusal};

/// Checks whether `set` and another SidecarSet want different accounts for one Pod. They do not conflict if both merge
/// and trust each other (TRUST-2), or if one is a canary of the other.
///
/// Refuses `set` if one of the two selects only Pods that the other selects, neither is paused, and `onConflict` is
/// `Deny`: every such Pod would be refused. Otherwise warns if both could select the same Pod.
pub fn check(
    (set, declared): (&SidecarSet, &Declared),
    (other, theirs): (&SidecarSet, &Declared),
    rules: &Rules,
    findings: &mut Findings,
) {
    check_claims((&Claims::of(set), declared), (&Claims::of(other), theirs), rules, findings);
}

/// Like [`check`], but takes [`Claims`], so that a set which is compared with many others is read once.
pub fn check_claims(
    (claims, declared): (&Claims<'_>, &Declared),
    (others, theirs): (&Claims<'_>, &Declared),
    rules: &Rules,
    findings: &mut Findings,
) {
    let (set, other) = (claims.set, others.set);
    let (Some(account), Some(their_account)) = (shared(declared), shared(theirs)) else { return };
    if account == their_account || are_related(set, other) || !claims.may_meet(others) {
        return;
    }
    let both_merge = declared.on_conflict == OnConflict::Merge && theirs.on_conflict == OnConflict::Merge;
    let side = Side { name: set.name(), declared, origin: set.origin() };
    let their_side = Side { name: other.name(), declared: theirs, origin: other.origin() };
    let (why, remedy) = match both_merge {
        true if rules.merge_cluster_sets || side.trusts(&their_side) => return,
        true => {
            let remedy = partners::remedy(&side, &their_side);
            let remedy =
                format!("{remedy}, or give them one account or the mode Isolate (serviceAccounts.mergeClusterSets)");
            ("the two do not trust each other with a merged one", remedy)
        }
        false => ("not both merge", "give them one account, the behaviour Merge or the mode Isolate".to_owned()),
    };
    let name = other.name();
    let problem =
        format!("SidecarSet \"{name}\" wants ServiceAccount \"{their_account}\" for the same Pods, and {why}");
    let certain = !is_paused(set) && !is_paused(other) && (is_within(claims, others) || is_within(others, claims));
    if certain && rules.on_conflict == Otherwise::Deny {
        findings.refused.push(refusal(set, path(ACCOUNT), problem, &remedy));
    } else if both_merge {
        findings.warnings.push(format!("where both match: {problem}; {remedy}"));
    } else {
        findings.warnings.push(format!("where both match: {problem}"));
    }
}

/// Returns the account that a set wants the Pod to run under, if any. Mode `Isolate` never conflicts (IDP-7).
fn shared(declared: &Declared) -> Option<&str> {
    declared.service_account.as_deref().filter(|_| declared.mode != Mode::Isolate)
}

fn is_paused(set: &SidecarSet) -> bool {
    json::flag(set.as_value(), &["spec", "injectionStrategy", "paused"])
}

/// Whether `outer` selects every Pod that `inner` selects.
fn is_within(inner: &Claims<'_>, outer: &Claims<'_>) -> bool {
    let all = Possible::of(&Selector::default());
    let within = |inner: Option<&Possible<'_>>, field: &str| {
        // A missing selector selects everything.
        let Some(outer) = outer.set.spec(&[field]) else { return true };
        inner.unwrap_or(&all).implies(&Selector::parse_known(outer))
    };
    within(inner.namespaces(), "namespaceSelector") && within(inner.selector(), "selector")
}

#[cfg(test)]
mod tests;
