//! Rules for changes of issuers, so that tokens in use stay valid (W1 to W4, W7).
//!
//! A token names its issuer, and kube-apiserver accepts only the issuer and the accepted issuers. A change away from
//! the default issuer needs no preparation (W2): Gardener still accepts it.

use std::collections::BTreeSet;

use pillion_kubernetes::field::FieldErrors;
use pillion_kubernetes::json;
use serde_json::Value;

use super::config::Signer;
use super::{Change, Judgement, SHOWN, shown};
use crate::settings::Migration;

/// Annotation of a Shoot: the issuers, joined by commas, whose removal from acceptedIssuers has been prepared (W3).
const ACKNOWLEDGED: &str = "pillion.dev/acknowledge-removed-issuer";
const LOSES_TOKENS: &str = " is no longer the issuer, and its tokens stop working at once; add it to acceptedIssuers until they have been replaced";
const BOTH_AT_ONCE: &str =
    " is removed while the issuer changes; change the issuer first, and remove it once its tokens have been replaced";
const CHECKLIST: &str = " is removed and its tokens stop working. First: short-lived projected tokens, Pods rolled, token Secrets recreated, 12h waited. Acknowledge: ";
/// The warning W7, at most once for an object.
pub(super) const TRUST: &str = "the issuer of tokens changes: systems outside the cluster that trust the old one (cloud identities, OIDC clients) read the claim iss and must trust the new issuer, too";

pub(super) fn judge(change: &Change<'_>, annotations: &Value, migration: Migration, judgement: &mut Judgement) {
    let accepted: BTreeSet<_> = change.new.accepted.iter().copied().collect();
    let accepts = |issuer: &str| change.signer == Signer::Custom(issuer) || accepted.contains(issuer);
    let acknowledged: BTreeSet<_> = json::text(annotations, &[ACKNOWLEDGED]).split(',').map(str::trim_ascii).collect();
    let at = change.at.child("acceptedIssuers");
    let signer_changes = change.signer != change.old_signer;
    if let Signer::Custom(issuer) = change.old_signer
        && signer_changes
        && !accepts(issuer)
    {
        let text = format!("\"{}\"{LOSES_TOKENS}", shown(issuer, SHOWN));
        match migration {
            Migration::Deny => judgement.forbidden.forbidden(&at, &text),
            Migration::Warn => judgement.warn(text),
        }
    }
    for issuer in change.old.accepted.iter().copied().filter(|issuer| !accepts(issuer)) {
        let quoted = format!("\"{}\"", shown(issuer, SHOWN));
        if signer_changes {
            judgement.forbidden.forbidden(&at, &format!("{quoted}{BOTH_AT_ONCE}"));
        }
        if !acknowledged.contains(issuer) {
            judgement.warn(format!("{quoted}{CHECKLIST}annotation {ACKNOWLEDGED}"));
        }
    }
}
