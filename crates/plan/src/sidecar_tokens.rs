//! Tokens for isolated sidecars (TOK-5 to TOK-7, AUD-7, AUD-8): plans which Secrets a namespace needs, which Secrets get
//! tokens now, and which Secrets are deleted.
//!
//! Tokens take three steps: create an empty Secret, request each token, bound to the Secret ([`request`]), write all of
//! them into it at once ([`fill`]). The controller may stop after any step; the next plan continues from the cluster's
//! state.

mod audiences;
mod mint;
mod secret;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::Step;
use crate::credential::Credential;
use pillion_identity::audience::AudienceToken;
use pillion_identity::rules::Rules;
use pillion_kubernetes::time::Timestamp;

pub use mint::{Minted, Tokens, fill, request};
pub use secret::{
    ACCOUNT, ACCOUNT_UID, AUDIENCES, CHECKSUM, Content, EXPIRES, Foreign, LABELS, RENEW_AFTER, SIDECAR_SET, Secret,
    UNNEEDED_SINCE, seed,
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
    /// What isolated sidecars need, of existing Pods and of Pods that workloads will create: the credentials, each with
    /// the tokens for other audiences that its SidecarSet asks for.
    pub credentials: BTreeMap<Credential, Vec<AudienceToken>>,
    /// Secrets mounted by Pods that have not terminated. Being mounted never creates a Secret: creators of Pods do not
    /// choose identities.
    pub mounted: BTreeSet<String>,
    /// The tokens for other audiences that SidecarSets ask for now, of those credentials that Pods only mount. A
    /// credential whose set is gone or names another account is not in it.
    pub declared: BTreeMap<Credential, Vec<AudienceToken>>,
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

/// Why new tokens are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The Secret has no token.
    Empty,
    /// The Secret's contents differ from what Pillion wrote.
    Edited,
    /// The ServiceAccount was replaced by another of the same name; the token belongs to the old one (MRG-13).
    NewAccount,
    /// The list of tokens for other audiences is another one (AUD-8).
    Changed,
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
        /// The tokens for other audiences, beside that for the API server.
        audiences: Vec<AudienceToken>,
    },
    /// Request the tokens ([`request`]) and write them into the Secret ([`fill`]).
    Mint {
        /// The Secret.
        secret: Secret,
        /// The `metadata.uid` of the ServiceAccount.
        account_uid: String,
        /// The tokens for other audiences, beside that for the API server.
        audiences: Vec<AudienceToken>,
        /// Why new tokens are requested.
        why: Why,
    },
    /// Mark the Secret as unneeded, remove that mark, or delete an immutable Secret.
    Write(Step),
    /// Delete the Secret, once the API server itself confirms that no Pod that has not terminated mounts it.
    Collect(Secret),
}

/// Why a needed ServiceAccount gets no token, or not every token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
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
    /// The settings no longer allow an audience of a Secret that Pods mount (AUD-5). Holds the problem and the remedy.
    #[error("the Secret no longer has every token: {0}")]
    AudienceNotAllowed(String),
    /// The Secret is being deleted; tokens bound to it end with it.
    #[error("the Secret is being deleted, and something keeps it; once it is gone, there is a new one")]
    SecretTerminating,
}

/// The actions for a namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The actions, each with what its Secret is for.
    pub moves: Vec<(Credential, Move)>,
    /// What gets no token now, or not every token.
    pub lacks: BTreeMap<Credential, Lack>,
    /// When the next action is due if nothing changes before then.
    pub next: Option<Timestamp>,
}

/// Plans for a namespace that is not being deleted.
pub fn plan(seen: &SidecarTokenInput<'_>, rules: &Rules, now: Timestamp) -> Plan {
    let Needs { credentials, mounted, declared } = seen.needs;
    let mut plan = Plan::default();
    for (credential, tokens) in credentials {
        let secret = seen.secrets.get(&credential.secret());
        plan.provide(seen, rules, (credential, tokens), secret, now);
    }
    for secret in seen.secrets.values().filter(|secret| !credentials.contains_key(&secret.credential)) {
        let credential = &secret.credential;
        if mounted.contains(&secret.name) {
            // Without its SidecarSet, a Pod keeps what it has for as long as it runs.
            let tokens = declared.get(credential).unwrap_or(&secret.audiences);
            plan.provide(seen, rules, (credential, tokens), Some(secret), now);
        } else {
            plan.retire(secret, now);
        }
    }
    plan
}

impl Plan {
    /// Plans for a needed Secret with these tokens for other audiences.
    fn provide(
        &mut self,
        seen: &SidecarTokenInput<'_>,
        rules: &Rules,
        (credential, tokens): (&Credential, &[AudienceToken]),
        secret: Option<&Secret>,
        now: Timestamp,
    ) {
        if let Some(secret) = secret.filter(|secret| secret.unneeded_since.is_some() && !secret.is_terminating) {
            // This comes first: it changes the Secret's resource version, so a deletion that is under way fails.
            self.add(credential, Move::Write(secret.patch(marked(None))));
            return;
        }
        let account_uid = match usable(seen, rules, &credential.account, secret) {
            Ok(uid) => uid.to_owned(),
            Err(lack) => {
                self.lacks.insert(credential.clone(), lack);
                return;
            }
        };
        let (audiences, objection) = match credential.sidecar_set {
            Some(_) => audiences::allowed(tokens, rules),
            None => (Vec::new(), None),
        };
        if let Some(objection) = objection {
            self.lacks.insert(credential.clone(), Lack::AudienceNotAllowed(objection));
        }
        let Some(secret) = secret else {
            self.add(credential, Move::Create { account_uid, audiences });
            return;
        };
        let why = match secret.content {
            Content::Empty => Why::Empty,
            Content::Edited => Why::Edited,
            Content::Token { .. } if secret.account_uid != account_uid => Why::NewAccount,
            Content::Token { .. } if !audiences::are_same(&secret.audiences, &audiences) => Why::Changed,
            Content::Token { renew_after, .. } if now >= renew_after => Why::Due,
            Content::Token { renew_after, .. } => {
                self.look_at(renew_after);
                return;
            }
        };
        self.add(
            credential,
            // An immutable Secret is deleted and created again.
            if secret.is_immutable {
                Move::Write(delete(secret))
            } else {
                Move::Mint { secret: secret.clone(), account_uid, audiences, why }
            },
        );
    }

    /// Plans for an unneeded Secret.
    fn retire(&mut self, secret: &Secret, now: Timestamp) {
        if secret.is_terminating {
            return;
        }
        let credential = &secret.credential;
        // A time in the future comes from another clock: replace it.
        let Some(since) = secret.unneeded_since.filter(|since| *since <= now) else {
            self.add(credential, Move::Write(secret.patch(marked(Some(now)))));
            return;
        };
        let end = Timestamp(since.0.saturating_add(LINGER));
        if now >= end {
            self.add(credential, Move::Collect(secret.clone()));
        } else {
            self.look_at(end);
        }
    }

    fn add(&mut self, credential: &Credential, what: Move) {
        self.moves.push((credential.clone(), what));
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
