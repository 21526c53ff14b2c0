//! Secrets of the type `kubernetes.io/service-account-token`: plans their contents and their deletion (TKN-1).
//!
//! kube-controller-manager fills in tokens that never expire. Without its signing key, the tokens come from
//! TokenRequest: they are bound to the Secret and are replaced before they expire (TOK-6, TOK-7).

pub mod rival;
pub mod write;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use pillion_identity::guards::secret;
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::hash;
use serde_json::Value;

/// The type of the Secrets.
pub use secret::TOKEN_TYPE;

/// The annotation with the name of the ServiceAccount that a Secret belongs to.
pub const ACCOUNT: &str = secret::ACCOUNT;
/// The annotation with the UID of that ServiceAccount.
pub const ACCOUNT_UID: &str = secret::UID;
/// The longest time for which a token is kept, in seconds (TOK-7).
const LONGEST: i64 = 24 * 60 * 60;
/// The pattern of the Secret names that kube-controller-manager generated for ServiceAccounts until 1.24: the account's
/// name and `-token-`, cut to `START_MAX` characters, followed by `SUFFIX.0` of the characters in `SUFFIX.1`.
const START_MAX: usize = 58;
const SUFFIX: (usize, &str) = (5, "bcdfghjklmnpqrstvwxz2456789");

/// The parts of a ServiceAccount that token Secrets depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Its `metadata.uid`.
    pub uid: String,
    /// The names in its `secrets`.
    pub secrets: Vec<String>,
    /// Whether it is being deleted. If so, it gets no new tokens (SAP-11).
    pub is_terminating: bool,
}

impl Account {
    /// Reads a ServiceAccount.
    pub fn from_object(account: &Value) -> Self {
        Self {
            name: json::text(account, &["metadata", "name"]).to_owned(),
            uid: json::text(account, &["metadata", "uid"]).to_owned(),
            secrets: json::items(account, &["secrets"])
                .iter()
                .map(|secret| json::text(secret, &["name"]).to_owned())
                .collect(),
            is_terminating: json::is_terminating(account),
        }
    }
}

/// A token Secret without its token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secret {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its `metadata.uid`.
    pub uid: String,
    /// Its `metadata.resourceVersion`.
    pub resource_version: String,
    /// The ServiceAccount's name from the annotation [`ACCOUNT`]. The API server requires one.
    pub account: String,
    /// The ServiceAccount's UID from the annotation [`ACCOUNT_UID`]; `""` if there is none.
    pub account_uid: String,
    /// Whether it is being deleted.
    pub is_terminating: bool,
    /// Whether its `data.ca.crt` differs from the wanted certificates. Always false if those are unknown.
    pub lacks_authority: bool,
    /// Whether its `data.namespace` is empty.
    pub lacks_namespace: bool,
    /// The kind of token in its `data.token`.
    pub token: Token,
}

/// The kind of token in a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Token {
    /// There is no token.
    #[default]
    Absent,
    /// It is not bound to this Secret or never expires: it stays for as long as the Secret does.
    Lasting,
    /// It came from TokenRequest and is bound to this Secret.
    Bound(Life),
}

/// The lifetime of a token, and its ServiceAccount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// `iat`.
    pub issued: Timestamp,
    /// `exp`.
    pub expires: Timestamp,
    /// The UID of its ServiceAccount.
    pub account_uid: String,
}

/// A token Secret that existed before and is gone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gone {
    /// Its name.
    pub secret: String,
    /// Its ServiceAccount's name.
    pub account: String,
    /// Its ServiceAccount's UID, or `""` if the Secret did not have it.
    pub account_uid: String,
}

/// The observed state of a namespace.
pub struct TokenControllerInput<'a> {
    /// Whether it is [`ACTIVE`](super::default_account::ACTIVE). In other phases, Secrets are no longer filled.
    pub is_active: bool,
    /// Its ServiceAccounts.
    pub accounts: &'a [&'a Account],
    /// Its token Secrets.
    pub secrets: &'a [&'a Secret],
    /// Token Secrets that existed before and are gone.
    pub gone: &'a [Gone],
    /// Whether to look for changes that were missed during a pause (TKN-9).
    pub sweeps: bool,
}

/// One task. Each task first reads the live object that decides about it. Tasks do not depend on each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Delete the Secret: its ServiceAccount seems to be gone or replaced by another one (TKN-3, TKN-5).
    Delete(Secret),
    /// Fill the Secret: something is missing in it (TKN-6).
    Fill(Fill),
    /// Remove from a ServiceAccount the name of a Secret that seems to be gone (TKN-4).
    Dereference {
        /// The ServiceAccount's name.
        account: String,
        /// Its UID.
        account_uid: String,
        /// The name of the Secret.
        secret: String,
    },
}

/// A Secret to fill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The Secret.
    pub secret: Secret,
    /// The UID of its ServiceAccount.
    pub account_uid: String,
    /// Whether it also gets a new token.
    pub token: bool,
}

/// The tasks for a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The tasks; their order does not matter.
    pub tasks: Vec<Task>,
    /// When the next token must be replaced.
    pub next: Option<Timestamp>,
}

/// Plans the tasks for a namespace. A complete Secret is not written, not even its annotations (TKN-6). A Secret that
/// names no ServiceAccount is left alone (TKN-8).
pub fn plan(seen: &TokenControllerInput<'_>, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    for &secret in seen.secrets.iter().filter(|secret| !secret.is_terminating && !secret.account.is_empty()) {
        let account = seen.accounts.iter().find(|account| secret.is_of(account));
        let Some(account) = account else {
            plan.tasks.push(Task::Delete(secret.clone()));
            continue;
        };
        if !seen.is_active || account.is_terminating {
            continue;
        }
        let due = secret.token_due(&account.uid);
        let token = due.is_some_and(|due| due <= now);
        if token || secret.lacks_authority || secret.lacks_namespace {
            plan.tasks.push(Task::Fill(Fill { secret: secret.clone(), account_uid: account.uid.clone(), token }));
        }
        if let Some(due) = due.filter(|due| *due > now) {
            plan.next = Some(plan.next.map_or(due, |next| next.min(due)));
        }
    }
    // If the namespace is being deleted, its ServiceAccounts are deleted too.
    if seen.is_active {
        plan.tasks.extend(dangling(seen));
    }
    plan
}

/// Returns tasks for the references of ServiceAccounts to Secrets that are gone. A task reads the live account later,
/// because the observed account may lack a reference that was added just now. An account may name Secrets of any type,
/// so a Secret that was never observed counts only if its name matches the pattern of kube-controller-manager.
fn dangling(seen: &TokenControllerInput<'_>) -> Vec<Task> {
    let there: BTreeSet<&str> = seen.secrets.iter().map(|secret| secret.name.as_str()).collect();
    let of_account = |account: &&Account| {
        let is_of = |gone: &&Gone| {
            gone.account == account.name && (gone.account_uid.is_empty() || gone.account_uid == account.uid)
        };
        let gone = seen.gone.iter().filter(is_of).map(|gone| &gone.secret);
        let missed = account.secrets.iter().filter(|name| seen.sweeps && is_generated(name, &account.name));
        let names: BTreeSet<&String> = gone.chain(missed).filter(|name| !there.contains(name.as_str())).collect();
        let task = |secret: &String| Task::Dereference {
            account: account.name.clone(),
            account_uid: account.uid.clone(),
            secret: secret.clone(),
        };
        names.into_iter().map(task).collect::<Vec<_>>()
    };
    seen.accounts.iter().flat_map(of_account).collect()
}

fn is_generated(secret: &str, account: &str) -> bool {
    let (length, characters) = SUFFIX;
    let start = format!("{account}-token-");
    let suffix = secret.strip_prefix(start.get(..START_MAX).unwrap_or(&start));
    suffix.is_some_and(|suffix| suffix.len() == length && suffix.chars().all(|one| characters.contains(one)))
}

impl Secret {
    /// Whether it belongs to this ServiceAccount: the name matches and, if the Secret has a UID, the UID matches.
    pub fn is_of(&self, account: &Account) -> bool {
        self.account == account.name && (self.account_uid.is_empty() || self.account_uid == account.uid)
    }

    /// Returns the time from which the Secret needs a new token; `None` if its token stays.
    fn token_due(&self, account_uid: &str) -> Option<Timestamp> {
        match &self.token {
            Token::Absent => Some(Timestamp(i64::MIN)),
            Token::Lasting => None,
            Token::Bound(life) if life.account_uid != account_uid => Some(Timestamp(i64::MIN)),
            Token::Bound(life) => Some(rotation(life, &self.uid)),
        }
    }
}

/// Returns when a token is replaced: after 80 % of its life or after a day (TOK-7), whichever is shorter, less up to a
/// tenth of that time. The variation spreads the renewals of tokens that were issued together. It is always the same
/// for the same Secret.
pub fn rotation(life: &Life, uid: &str) -> Timestamp {
    let whole = life.expires.0.saturating_sub(life.issued.0).max(0);
    let kept = (whole - whole / 5).min(LONGEST);
    Timestamp(life.issued.0.saturating_add(kept - ((kept / 10 * share(uid)) >> 32)))
}

/// Returns a number below 2^32 that is always the same for a UID. It spreads the work on many objects over time.
pub fn share(uid: &str) -> i64 {
    let digits = hash::sha256(uid.as_bytes());
    i64::from_str_radix(digits.get(..8).unwrap_or_default(), 16).unwrap_or_default()
}
