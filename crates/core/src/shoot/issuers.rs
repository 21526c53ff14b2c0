//! Which issuers may be set (D4 to D10, D13, D14).

use super::config::Signer;
use super::url::Url;
use super::{Change, Judgement, SHOWN, shown};
use crate::field::{FieldError, FieldPath};
use crate::ordered::Set;

/// How much of an issuer stands in the text of an error.
const MESSAGE_SHOWN: usize = 200;
const NO_URL: &str = "must be a valid URL and have https scheme";
const TWICE: &str = "is the issuer, too, and kube-apiserver does not start with an issuer that is given twice; remove it from acceptedIssuers";

pub(super) fn judge(change: &Change<'_>, judgement: &mut Judgement) {
    let new = &change.new;
    if let Some(issuer) = new.issuer {
        judge_url(issuer, &change.at.child("issuer"), judgement);
    }
    // D10. Absent and empty lists are the same.
    let accepted_kept = change.updating && new.present && change.old.present && new.accepted == change.old.accepted;
    let mut seen = Set::new();
    for (index, issuer) in new.accepted.iter().copied().enumerate() {
        let is_issuer = new.issuer == Some(issuer);
        if !accepted_kept {
            let at = change.accepted_at(index);
            judge_url(issuer, &at, judgement);
            if is_issuer {
                let detail =
                    ["acceptedIssuers cannot contains the issuer field value: ", &shown(issuer, MESSAGE_SHOWN)];
                judgement.invalid(FieldError::invalid(&at, issuer, detail.concat()));
            } else if !seen.insert(issuer) {
                judgement.invalid(FieldError::duplicate(&at, issuer));
            }
        }
        // D14: what D10 lets through, and what Gardener does not know when it validates.
        let repeated =
            (accepted_kept && is_issuer) || (change.signer == Signer::Managed && is_managed_url(issuer, change.uid));
        if repeated && change.keeps_issuers() {
            judgement.warn(&["acceptedIssuers: \"", &shown(issuer, SHOWN), "\" ", TWICE]);
        } else if repeated {
            judgement.invalid(FieldError::invalid(&change.accepted_at(index), issuer, TWICE));
        }
    }
}

/// D4 to D6, in Gardener's order. The checks do not exclude each other; a text that is no URL gets the first only.
fn judge_url(text: &str, at: &FieldPath, judgement: &mut Judgement) {
    let url = Url::parse(text);
    let checks = [
        (url.is_none_or(|url| !url.host), NO_URL),
        (url.is_some_and(|url| url.fragment), "must not contain a fragment"),
        (url.is_some_and(|url| url.user), "must not contain a username or password"),
        (url.is_some_and(|url| url.query), "must not contain a query"),
        (url.is_some_and(|url| !url.https), "must have https scheme"),
    ];
    for (fails, detail) in checks {
        if fails {
            judgement.invalid(FieldError::invalid(at, text, detail));
        }
    }
}

/// Whether a URL has the path of this Shoot's managed issuer, `/projects/<project>/shoots/<uid>/issuer` (D20). The host
/// is the discovery server's, and the project that of the namespace, neither of which a policy knows; the uid says it.
fn is_managed_url(url: &str, uid: &str) -> bool {
    let mut parts = url.rsplit('/');
    !uid.is_empty()
        && parts.next() == Some("issuer")
        && parts.next() == Some(uid)
        && parts.next() == Some("shoots")
        && parts.next().is_some_and(|project| !project.is_empty())
        && parts.next() == Some("projects")
        // Nothing but the host is left: `https:`, ``, `<host>`.
        && parts.count() == 3
}
