//! SidecarSets that want different accounts for one Pod (IDV-4, IDC-6).

use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json;
use pillion_kubernetes::selector::{Possible, Selector};
use pillion_sidecarset::pod;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::validation::conflicts::{Claims, are_related};
use serde_json::Value;

use super::declared::{ACCOUNT, Declared, Mode, OnConflict, PARTNERS, path};
use super::partners::{self, Side};
use super::rules::{Otherwise, Rules};
use super::tokens::volumes;
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
    check_claims(
        (&Claims::from_sidecar_set(set), declared),
        (&Claims::from_sidecar_set(other), theirs),
        rules,
        findings,
    );
}

/// Like [`check`], but takes [`Claims`], so that a set which is compared with many others is read once.
pub fn check_claims(
    (claims, declared): (&Claims<'_>, &Declared),
    (others, theirs): (&Claims<'_>, &Declared),
    rules: &Rules,
    findings: &mut Findings,
) {
    let (set, other) = (claims.set, others.set);
    if declared.service_account.is_none() {
        return check_tokens(claims, (others, theirs), rules, findings);
    }
    let (Some(account), Some(their_account)) = (shared(declared), shared(theirs)) else { return };
    if account == their_account || are_related(set, other) || !claims.may_meet(others) {
        return;
    }
    let both_merge = declared.on_conflict == OnConflict::Merge && theirs.on_conflict == OnConflict::Merge;
    let side = Side { name: set.name(), declared, origin: set.origin() };
    let their_side = Side { name: other.name(), declared: theirs, origin: other.origin() };
    if both_merge && (rules.merge_cluster_sets || side.trusts(&their_side)) {
        return;
    }
    let (why, remedy) = if both_merge {
        let remedy = partners::remedy(&side, &their_side);
        let remedy =
            format!("{remedy}, or give them one account or the mode Isolate (serviceAccounts.mergeClusterSets)");
        ("the two do not trust each other with a merged one", remedy)
    } else {
        ("not both merge", "give them one account, the behaviour Merge or the mode Isolate".to_owned())
    };
    let name = other.name();
    let problem =
        format!("SidecarSet \"{name}\" wants ServiceAccount \"{their_account}\" for the same Pods, and {why}");
    let certain = !is_paused(set) && !is_paused(other) && (is_within(claims, others) || is_within(others, claims));
    if certain && rules.on_conflict == Otherwise::Deny {
        findings.refused.push(refusal(set, path(ACCOUNT), problem, &remedy));
    } else if both_merge {
        // The API server shows 256 characters of a warning.
        let remedy = format!("name each other in spec.{}", PARTNERS.name);
        findings.warnings.push(format!("where both match: {problem}; {remedy}"));
    } else {
        findings.warnings.push(format!("where both match: {problem}"));
    }
}

/// Whether a set with these identity fields wants an account for the whole Pod. All others are in conflict with nobody.
pub fn wants_account(declared: &Declared) -> bool {
    shared(declared).is_some()
}

/// Whether a set can be in conflict with others: it names an account, or brings a token of the Pod's account along.
pub fn can_conflict(set: &SidecarSet, declared: &Declared, rules: &Rules) -> bool {
    declared.service_account.is_some() || (!set.is_of_settings() && token_volume(set, rules).is_some())
}

/// Returns the first volume of a set that holds a token of the Pod's account, with its index.
fn token_volume<'a>(set: &'a SidecarSet, rules: &Rules) -> Option<(usize, &'a Value)> {
    set.volumes().iter().enumerate().find(|(_, volume)| volumes::given(volume, &rules.trusted_csi_drivers).is_some())
}

/// TRUST-9: refuses a set of the cluster with a volume that holds a token of the Pod's account, if a set of the settings
/// gives its account to the same Pods: the Pod would keep its own account (TOK-0), and the sidecars of the settings would
/// lose their identity. One such set of the settings is reported, since the volumes are searched for each (E18).
fn check_tokens(
    claims: &Claims<'_>,
    (others, theirs): (&Claims<'_>, &Declared),
    rules: &Rules,
    findings: &mut Findings,
) {
    let (set, other) = (claims.set, others.set);
    let is_concerned = !set.is_of_settings() && other.is_of_settings() && findings.refused.is_empty();
    let Some(account) = shared(theirs).filter(|_| is_concerned) else { return };
    if are_related(set, other) || !claims.may_meet(others) {
        return;
    }
    let Some((index, volume)) = token_volume(set, rules) else { return };
    let problem = format!(
        "the volume \"{}\" holds a token of the Pod's ServiceAccount, and SidecarSet \"{}\" of the policy's settings gives \
         the same Pods the ServiceAccount \"{account}\"",
        pod::name(volume),
        other.name()
    );
    let field = FieldPath::new("spec.volumes").index(index).to_string();
    findings.refused.push(refusal(set, field, problem, "remove the volume, or select other Pods"));
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
    let all = Possible::from_selector(&Selector::default());
    let within = |inner: Option<&Possible<'_>>, field: &str| {
        // A missing selector selects everything.
        let Some(outer) = outer.set.spec(&[field]) else { return true };
        inner.unwrap_or(&all).implies(&Selector::parse_known(outer))
    };
    within(inner.namespaces(), "namespaceSelector") && within(inner.selector(), "selector")
}

#[cfg(test)]
mod tests;
