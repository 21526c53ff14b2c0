//! Tokens for isolated sidecars (TOK-5 to TOK-7): plans which Secrets a namespace needs, which Secrets get a token now,
//! and which Secrets are deleted.
//!
//! A token takes three steps: create an empty Secret, request a token bound to it ([`request`]), write the token into
//! it ([`fill`]). The controller may stop after any step; the next plan continues from the cluster's state.

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

/// Default lifetime of a token, in seconds (TOK-7).
pub const LIFETIME: u32 = 3600;
/// Shortest lifetime that the API server grants, in seconds (TOK-6).
pub const LIFETIME_MIN: u32 = 600;
/// How long an unneeded Secret is kept, in seconds.
pub const LINGER: i64 = 600;
/// Longest time between two tokens, in seconds (TOK-7).
const PERIOD_MAX: i64 = 24 * 3600;
/// Minimum assumed lifetime, in seconds. If clock skew exceeds the real lifetime, this keeps renewals frequent but not
/// continuous.
const LIFE_MIN: i64 = 60;

/// The needs of the Pods of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The ServiceAccounts of isolated sidecars, for existing Pods and for Pods that workloads will create.
    pub accounts: BTreeSet<String>,
    /// Secrets mounted by Pods that have not terminated. Being mounted never creates a Secret: creators of Pods do not
    /// choose identities.
    pub mounted: BTreeSet<String>,
}

/// A ServiceAccount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its `metadata.uid`.
    pub uid: String,
    /// Whether it is being deleted. If so, it counts as missing (SAP-11).
    pub is_terminating: bool,
}

/// The observed state of a namespace.
#[derive(Clone, Copy, Debug)]
pub struct SidecarTokenInput<'a> {
    /// Its name.
    pub namespace: &'a str,
    /// The needs of its Pods.
    pub needs: &'a Needs,
    /// Its ServiceAccounts, by name.
    pub accounts: &'a BTreeMap<String, Account>,
    /// Pillion's Secrets in the namespace, by name.
    pub secrets: &'a BTreeMap<String, Secret>,
}

/// Why a new token is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The Secret has no token.
    Empty,
    /// The Secret's contents differ from what Pillion wrote.
    Edited,
    /// The ServiceAccount was replaced by another of the same name; the token belongs to the old one (MRG-13).
    NewAccount,
    /// The current token expires soon (TOK-7).
    Due,
}

/// An action on one Secret.
#[derive(Clone, Debug, PartialEq)]
pub enum Move {
    /// Create the Secret ([`seed`]), then continue as for [`Move::Mint`].
    Create {
        /// The `metadata.uid` of the ServiceAccount.
        account_uid: String,
    },
    /// Request a token ([`request`]) and write it into the Secret ([`fill`]).
    Mint {
        /// The Secret.
        secret: Secret,
        /// The `metadata.uid` of the ServiceAccount.
        account_uid: String,
        /// Why a new token is requested.
        why: Why,
    },
    /// Mark the Secret as unneeded, remove that mark, or delete an immutable Secret.
    Write(Step),
    /// Delete the Secret, once the API server itself confirms that no Pod that has not terminated mounts it.
    Collect(Secret),
}

/// Why a needed ServiceAccount gets no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Lack {
    /// The ServiceAccount does not exist.
    #[error("there is no such ServiceAccount in this namespace; once there is one, it gets a token")]
    Missing,
    /// The ServiceAccount is being deleted.
    #[error("the ServiceAccount is being deleted; a new one of this name gets a new token")]
    Terminating,
    /// The settings do not allow the ServiceAccount in this namespace, or no longer do: IDV-5, E1.
    #[error(
        "the settings do not allow this ServiceAccount here (serviceAccounts.allowed, serviceAccounts.protectedNamespaces)"
    )]
    NotAllowed,
    /// The Secret is being deleted; tokens bound to it end with it.
    #[error("the Secret is being deleted, and something keeps it; once it is gone, there is a new one")]
    SecretTerminating,
}

/// The actions for a namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The actions, each with the name of its ServiceAccount.
    pub moves: Vec<(String, Move)>,
    /// The needed ServiceAccounts that get no token now, by name.
    pub lacks: BTreeMap<String, Lack>,
    /// When the next action is due if nothing changes before then.
    pub next: Option<Timestamp>,
}

/// Plans for a namespace that is not being deleted.
pub fn plan(seen: &SidecarTokenInput<'_>, rules: &Rules, now: Timestamp) -> Plan {
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
    /// Plans for the Secret of a needed account.
    fn provide(
        &mut self,
        seen: &SidecarTokenInput<'_>,
        rules: &Rules,
        account: &str,
        secret: Option<&Secret>,
        now: Timestamp,
    ) {
        if let Some(secret) = secret.filter(|secret| secret.unneeded_since.is_some() && !secret.is_terminating) {
            // This comes first: it changes the Secret's resource version, so a deletion that is under way fails.
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
            // An immutable Secret is deleted and created again.
            if secret.is_immutable {
                Move::Write(delete(secret))
            } else {
                Move::Mint { secret: secret.clone(), account_uid, why }
            },
        );
    }

    /// Plans for an unneeded Secret.
    fn retire(&mut self, secret: &Secret, now: Timestamp) {
        if secret.is_terminating {
            return;
        }
        let account = &secret.account;
        // A time in the future comes from another clock: replace it.
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

/// Returns the UID of an account if a token can be requested for it.
fn usable<'s>(
    seen: &SidecarTokenInput<'s>,
    rules: &Rules,
    account: &str,
    secret: Option<&Secret>,
) -> Result<&'s str, Lack> {
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

/// Returns the patch that marks a Secret as unneeded since a time, or removes the mark.
fn marked(since: Option<Timestamp>) -> Value {
    json!({"metadata": {"annotations": {UNNEEDED_SINCE: since.map(|since| since.to_string())}}})
}

/// Returns the step that deletes a Secret, if it has not changed since it was observed.
pub fn delete(secret: &Secret) -> Step {
    let (uid, version) = (secret.uid.clone(), secret.resource_version.clone());
    Step::Delete { object: secret.reference(), uid, resource_version: Some(version) }
}

/// Returns the TokenRequest for a token of the ServiceAccount with this UID, bound to the Secret, with a lifetime in
/// seconds (TOK-5). The API server may grant a shorter lifetime.
pub fn request(secret: &Secret, account_uid: &str, lifetime: u32) -> Value {
    json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        // Kubernetes 1.34 and later refuse the request if another account has the name now.
        "metadata": {"uid": account_uid},
        "spec": {
            // Without audiences the token is for the API server.
            "audiences": [],
            "boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": secret.name, "uid": secret.uid},
            "expirationSeconds": lifetime.max(LIFETIME_MIN),
        },
    })
}

/// A token from the API server. The type has no `Debug`, so that the token cannot get into a log.
pub struct Minted<'a> {
    /// The token in Base64, as in `data` of the Secret.
    pub data: &'a str,
    /// `status.expirationTimestamp` (TOK-7).
    pub expires: Timestamp,
    /// `spec.expirationSeconds` of the answer, in seconds.
    pub lifetime: i64,
}

/// Returns the step that writes a token into the Secret, if it has not changed since it was observed. `asked_at` is the
/// time of the request, by the clock of the plans.
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

/// Returns when the token is due for renewal: after four fifths of its life or after a day, whichever is shorter, less
/// up to an eighth of that time. The variation spreads the renewals of tokens that were requested together (TOK-7).
///
/// The time counts from `asked_at`, so it holds for a clock that differs from the API server's.
fn renew_after(uid: &str, minted: &Minted<'_>, asked_at: Timestamp) -> Timestamp {
    let left = minted.expires.0.saturating_sub(asked_at.0);
    let life = left.min(minted.lifetime).max(LIFE_MIN);
    let period = (life / 5).saturating_mul(4).min(PERIOD_MAX);
    Timestamp(asked_at.0.saturating_add(period - jitter(uid, period / 8)))
}

/// Returns a number from 0 to `most`, always the same for the same UID.
fn jitter(uid: &str, most: i64) -> i64 {
    let drawn = hash::sha256(uid.as_bytes()).bytes().take(8).fold(0_i64, |drawn, digit| {
        let digit = char::from(digit).to_digit(16).unwrap_or_default();
        drawn * 16 + i64::from(digit)
    });
    drawn % (most.max(0) + 1)
}
