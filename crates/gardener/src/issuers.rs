//! Rules for issuers (D4 to D10, D13, D14).

use std::collections::BTreeSet;

use pillion_kubernetes::field::{FieldErrors, FieldPath};

use super::config::Signer;
use super::url::Url;
use super::{Change, Judgement, SHOWN, shown};

/// The most characters of an issuer in the text of an error.
const MESSAGE_SHOWN: usize = 200;
const TWICE: &str = "is the issuer, too, and kube-apiserver does not start with an issuer that is given twice; remove it from acceptedIssuers";

pub(super) fn judge(change: &Change<'_>, judgement: &mut Judgement) {
    let Change { new, old, .. } = change;
    if let Some(issuer) = new.issuer {
        judge_url(issuer, &change.at.child("issuer"), judgement);
    }
    // D10.
    let accepted_kept = change.keeps_accepted();
    let issuers_kept = accepted_kept && change.signer == change.old_signer && new.issuer == old.issuer;
    let list = change.at.child("acceptedIssuers");
    let mut seen = BTreeSet::new();
    for (index, issuer) in new.accepted.iter().copied().enumerate() {
        let at = list.index(index);
        let is_issuer = new.issuer == Some(issuer);
        if !accepted_kept {
            judge_url(issuer, &at, judgement);
            if is_issuer {
                let text =
                    format!("acceptedIssuers cannot contains the issuer field value: {}", shown(issuer, MESSAGE_SHOWN));
                judgement.invalid.invalid(&at, issuer, &text);
            } else if !seen.insert(issuer) {
                judgement.invalid.duplicate(&at, issuer);
            }
        }
        // D14: report duplicates that D10 accepts, and the managed issuer, which Gardener does not know during
        // validation.
        if (accepted_kept && is_issuer) || (change.signer == Signer::Managed && is_managed_url(issuer, change.uid)) {
            if issuers_kept {
                judgement.warn(format!("acceptedIssuers: \"{}\" {TWICE}", shown(issuer, SHOWN)));
            } else {
                judgement.invalid.invalid(&at, issuer, TWICE);
            }
        }
    }
}

/// Checks D4 to D6, in Gardener's order. Several checks can fail, but a text that is not a URL only fails the first.
fn judge_url(text: &str, at: &FieldPath<'_>, judgement: &mut Judgement) {
    let unparsable = Url { https: true, host: false, user: false, query: false, fragment: false, path: &[] };
    let url = Url::parse(text).unwrap_or(unparsable);
    let checks = [
        (url.host, "must be a valid URL and have https scheme"),
        (!url.fragment, "must not contain a fragment"),
        (!url.user, "must not contain a username or password"),
        (!url.query, "must not contain a query"),
        (url.https, "must have https scheme"),
    ];
    for (holds, detail) in &checks {
        if !holds {
            judgement.invalid.invalid(at, text, detail);
        }
    }
}

/// Whether a URL has the path of this Shoot's managed issuer, `/projects/<project>/shoots/<uid>/issuer` (D20). A policy
/// knows neither the host of the discovery server nor the project of the namespace, but the uid is enough.
fn is_managed_url(url: &str, uid: &str) -> bool {
    let project = Url::parse(url)
        .and_then(|url| url.path.strip_prefix(b"/projects/"))
        .and_then(|path| path.strip_suffix(b"/issuer")?.strip_suffix(uid.as_bytes())?.strip_suffix(b"/shoots/"));
    !uid.is_empty() && project.is_some_and(|project| !project.is_empty() && !project.contains(&b'/'))
}
