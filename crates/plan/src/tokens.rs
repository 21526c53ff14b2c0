//! Tokens for isolated sidecars (`serviceaccounts.md` B5 to B7): which Secrets a namespace needs, which of them get a
//! token now, and which nobody needs any more.
//!
//! A Secret is created empty, a token is asked for that is bound to it ([`request`]), and the token is written into it
//! ([`fill`]). Each of the three may be the last that is done for a while: the next plan goes on from what is there.

mod secret;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::Step;
use pillion_identity::names;
use pillion_identity::rules::Rules;
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::hash;

pub use secret::{
    ACCOUNT, ACCOUNT_UID, CHECKSUM, Content, EXPIRES, Foreign, LABELS, RENEW_AFTER, Secret, UNNEEDED_SINCE, seed,
};

/// How long a token lives where nothing else is said, in seconds (B7).
pub const LIFETIME: u32 = 3600;
/// The shortest life that the API server gives, in seconds (B6).
pub const LIFETIME_MIN: u32 = 600;
/// How long a Secret stays that nobody needs, in seconds.
pub const LINGER: i64 = 600;
/// The longest time between two tokens, in seconds (B7).
const PERIOD_MAX: i64 = 24 * 3600;
/// The least that a life is taken for, in seconds: where the clocks differ by more than it lasts, tokens are renewed
/// often, but not all the time.
const LIFE_MIN: i64 = 60;

/// What the Pods of a namespace need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The ServiceAccounts of isolated sidecars, of Pods that are there or that workloads make.
    pub accounts: BTreeSet<String>,
    /// The Secrets that Pods mount which have not ended. They get no Secret that is not there for another reason: who
    /// makes Pods does not choose identities.
    pub mounted: BTreeSet<String>,
}

/// A ServiceAccount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its `metadata.uid`.
    pub uid: String,
    /// Whether it is being deleted: then it counts as missing (A1-11).
    pub is_terminating: bool,
}

/// What is seen of a namespace.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Its name.
    pub namespace: &'a str,
    /// What its Pods need.
    pub needs: &'a Needs,
    /// Its ServiceAccounts, by name.
    pub accounts: &'a BTreeMap<String, Account>,
    /// Our Secrets there, by name.
    pub secrets: &'a BTreeMap<String, Secret>,
}

/// Why a token is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The Secret has none.
    Empty,
    /// The Secret is not as it was written.
    Edited,
    /// There is another ServiceAccount of this name, and the token is of the old one (G13).
    NewAccount,
    /// The one that is there ends soon (B7).
    Due,
}

/// What is to be done about one Secret.
#[derive(Clone, Debug, PartialEq)]
pub enum Move {
    /// Create it ([`seed`]), and then as with [`Move::Mint`].
    Create {
        /// The `metadata.uid` of the ServiceAccount.
        account_uid: String,
    },
    /// Ask for a token ([`request`]) and write it into the Secret ([`fill`]).
    Mint {
        /// The Secret.
        secret: Secret,
        /// The `metadata.uid` of the ServiceAccount.
        account_uid: String,
        /// What for.
        why: Why,
    },
    /// Note on it since when nobody needs it, that somebody does again, or delete what nobody can write to.
    Write(Step),
    /// Delete it, once the API server itself says that no Pod mounts it which has not ended.
    Collect(Secret),
}

/// Why a ServiceAccount gets no token, though somebody needs one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Lack {
    /// There is no such ServiceAccount.
    #[error("there is no such ServiceAccount in this namespace; once there is one, it gets a token")]
    Missing,
    /// It is being deleted.
    #[error("the ServiceAccount is being deleted; a new one of this name gets a new token")]
    Terminating,
    /// The settings do not allow it here (any more): V5, E1.
    #[error(
        "the settings do not allow this ServiceAccount here (serviceAccounts.allowed, serviceAccounts.protectedNamespaces)"
    )]
    NotAllowed,
    /// The Secret is being deleted, and tokens that are bound to it end.
    #[error("the Secret is being deleted, and something keeps it; once it is gone, there is a new one")]
    SecretTerminating,
}

/// What is to be done in a namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// By ServiceAccount.
    pub moves: Vec<(String, Move)>,
    /// What nothing can be done about now, by ServiceAccount.
    pub lacks: BTreeMap<String, Lack>,
    /// When something is to be done, if nothing changes until then.
    pub next: Option<Timestamp>,
}

/// Plans for a namespace that is not being deleted.
pub fn plan(seen: &Seen<'_>, rules: &Rules, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    for account in &seen.needs.accounts {
        let secret = seen.secrets.get(&names::token_secret(account));
        plan.provide(seen, rules, account, secret, now);
    }
    for secret in seen.secrets.values().filter(|secret| !seen.needs.accounts.contains(&secret.account)) {
        if seen.needs.mounted.contains(&secret.name) {
            plan.provide(seen, rules, &secret.account, Some(secret), now);
        } else {
            plan.retire(secret, now);
        }
    }
    plan
}

impl Plan {
    /// For an account that is needed.
    fn provide(&mut self, seen: &Seen<'_>, rules: &Rules, account: &str, secret: Option<&Secret>, now: Timestamp) {
        if let Some(secret) = secret.filter(|secret| secret.unneeded_since.is_some() && !secret.is_terminating) {
            // Before anything else: whoever is about to delete the Secret finds it changed.
            self.add(account, Move::Write(secret.patch(marked(None))));
            return;
        }
        let account_uid = match usable(seen, rules, account, secret) {
            Ok(uid) => uid.to_owned(),
            Err(lack) => {
                self.lacks.insert(account.to_owned(), lack);
                return;
            }
        };
        let Some(secret) = secret else {
            self.add(account, Move::Create { account_uid });
            return;
        };
        let why = match secret.content {
            Content::Empty => Why::Empty,
            Content::Edited => Why::Edited,
            Content::Token { .. } if secret.account_uid != account_uid => Why::NewAccount,
            Content::Token { renew_after, .. } if now >= renew_after => Why::Due,
            Content::Token { renew_after, .. } => {
                self.look_at(renew_after);
                return;
            }
        };
        self.add(
            account,
            // What nobody can write to is made anew.
            if secret.is_immutable {
                Move::Write(delete(secret))
            } else {
                Move::Mint { secret: secret.clone(), account_uid, why }
            },
        );
    }

    /// For a Secret that nobody needs.
    fn retire(&mut self, secret: &Secret, now: Timestamp) {
        if secret.is_terminating {
            return;
        }
        let account = &secret.account;
        // A time that is still to come was written by another clock.
        let Some(since) = secret.unneeded_since.filter(|since| *since <= now) else {
            self.add(account, Move::Write(secret.patch(marked(Some(now)))));
            return;
        };
        let end = Timestamp(since.0.saturating_add(LINGER));
        if now >= end {
            self.add(account, Move::Collect(secret.clone()));
        } else {
            self.look_at(end);
        }
    }

    fn add(&mut self, account: &str, what: Move) {
        self.moves.push((account.to_owned(), what));
    }

    fn look_at(&mut self, time: Timestamp) {
        self.next = Some(self.next.map_or(time, |next| next.min(time)));
    }
}

/// The UID of an account for which there can be a token.
fn usable<'s>(seen: &Seen<'s>, rules: &Rules, account: &str, secret: Option<&Secret>) -> Result<&'s str, Lack> {
    if rules.protects(seen.namespace) || !rules.allows(seen.namespace, account) {
        return Err(Lack::NotAllowed);
    }
    if secret.is_some_and(|secret| secret.is_terminating) {
        return Err(Lack::SecretTerminating);
    }
    match seen.accounts.get(account) {
        None => Err(Lack::Missing),
        Some(Account { is_terminating: true, .. }) => Err(Lack::Terminating),
        Some(Account { uid, .. }) => Ok(uid),
    }
}

/// The patch that notes since when nobody needs a Secret, or removes the note.
fn marked(since: Option<Timestamp>) -> Value {
    json!({"metadata": {"annotations": {UNNEEDED_SINCE: since.map(|since| since.to_string())}}})
}

/// Deletes a Secret as it was seen.
pub fn delete(secret: &Secret) -> Step {
    let (uid, version) = (secret.uid.clone(), secret.resource_version.clone());
    Step::Delete { object: secret.reference(), uid, resource_version: Some(version) }
}

/// The TokenRequest for a ServiceAccount of this UID: for a token that is bound to the Secret, and lives for so many
/// seconds (B5). The API server may give it a shorter life.
pub fn request(secret: &Secret, account_uid: &str, lifetime: u32) -> Value {
    json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        // Kubernetes 1.34 and later refuse the request if another account has the name by now.
        "metadata": {"uid": account_uid},
        "spec": {
            // Without audiences the token is for the API server.
            "audiences": [],
            "boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": secret.name, "uid": secret.uid},
            "expirationSeconds": lifetime.max(LIFETIME_MIN),
        },
    })
}

/// A token that was asked for. It has no `Debug`, so that it cannot get into a log.
pub struct Minted<'a> {
    /// The token in Base64, as it stands in `data`.
    pub data: &'a str,
    /// `status.expirationTimestamp` (B7).
    pub expires: Timestamp,
    /// `spec.expirationSeconds` of the answer.
    pub lifetime: i64,
}

/// Writes a token into the Secret as it was seen; `asked_at` is when it was asked for, by the clock of the plans.
pub fn fill(secret: &Secret, account_uid: &str, minted: &Minted<'_>, asked_at: Timestamp) -> Step {
    let expires = minted.expires.to_string();
    let renew_after = renew_after(&secret.uid, minted, asked_at).to_string();
    let stated = [secret.account.as_str(), account_uid, &expires, &renew_after];
    let checksum = secret::checksum(&secret.uid, stated, minted.data);
    let [account, account_uid, expires, renew_after] = stated;
    let annotations = json!({
        ACCOUNT: account,
        ACCOUNT_UID: account_uid,
        EXPIRES: expires,
        RENEW_AFTER: renew_after,
        CHECKSUM: checksum,
    });
    secret.patch(json!({"metadata": {"annotations": annotations}, "data": {"token": minted.data}}))
}

/// When there is to be another token: after four fifths of its life, or a day, and up to an eighth of that earlier, so
/// that tokens which were made at the same time do not end at the same time for ever (B7).
///
/// It is counted from `asked_at`, so it holds for a clock that differs from the API server's.
fn renew_after(uid: &str, minted: &Minted<'_>, asked_at: Timestamp) -> Timestamp {
    let left = minted.expires.0.saturating_sub(asked_at.0);
    let life = left.min(minted.lifetime).max(LIFE_MIN);
    let period = (life / 5).saturating_mul(4).min(PERIOD_MAX);
    Timestamp(asked_at.0.saturating_add(period - jitter(uid, period / 8)))
}

/// From 0 to `most`, always the same for a UID.
fn jitter(uid: &str, most: i64) -> i64 {
    let drawn = hash::sha256(uid.as_bytes()).bytes().take(8).fold(0_i64, |drawn, digit| {
        let digit = char::from(digit).to_digit(16).unwrap_or_default();
        drawn * 16 + i64::from(digit)
    });
    drawn % (most.max(0) + 1)
}
