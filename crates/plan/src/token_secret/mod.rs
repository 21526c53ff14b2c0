//! Secrets of the type `kubernetes.io/service-account-token`: what is filled into them, and when they go
//! (`serviceaccounts.md` C2).
//!
//! kube-controller-manager fills in tokens that never expire. Without its signing key they come from TokenRequest:
//! bound to the Secret, and replaced before they end (B6, B7).

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

/// The annotation that says which ServiceAccount a Secret is of.
pub const ACCOUNT: &str = secret::ACCOUNT;
/// The annotation with its UID.
pub const ACCOUNT_UID: &str = secret::UID;
/// No token is kept for longer than this, in seconds (B7).
const LONGEST: i64 = 24 * 60 * 60;
/// How kube-controller-manager made up the names of the Secrets that it made for ServiceAccounts (until 1.24): the
/// account's name and `-token-`, cut to so many characters, and so many of these.
const START_MAX: usize = 58;
const SUFFIX: (usize, &str) = (5, "bcdfghjklmnpqrstvwxz2456789");

/// A ServiceAccount, as far as tokens need it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Its `metadata.uid`.
    pub uid: String,
    /// The names in its `secrets`.
    pub secrets: Vec<String>,
    /// Whether it is being deleted: then it has no new tokens (A1.11).
    pub is_terminating: bool,
}

impl Account {
    /// What is needed of a ServiceAccount.
    pub fn of(account: &Value) -> Self {
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

/// A token Secret without what is secret in it.
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
    /// The ServiceAccount's name, by the annotation [`ACCOUNT`]; the API server wants one.
    pub account: String,
    /// The ServiceAccount's UID, by the annotation [`ACCOUNT_UID`]; `""` where there is none.
    pub account_uid: String,
    /// Whether it is being deleted.
    pub is_terminating: bool,
    /// Its `data.ca.crt` is not what it should be. Never, where it is not known what it should be.
    pub lacks_authority: bool,
    /// Its `data.namespace` is empty.
    pub lacks_namespace: bool,
    /// Its `data.token`.
    pub token: Token,
}

/// What is known of the token in a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Token {
    /// There is none.
    #[default]
    Absent,
    /// It is somebody else's, or does not end: it stays for as long as the Secret does.
    Lasting,
    /// It came from TokenRequest, bound to this very Secret.
    Bound(Life),
}

/// From when to when a token holds, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// `iat`.
    pub issued: Timestamp,
    /// `exp`.
    pub expires: Timestamp,
    /// The UID of its ServiceAccount.
    pub account_uid: String,
}

/// A token Secret that was there before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gone {
    /// Its name.
    pub secret: String,
    /// Its ServiceAccount's name.
    pub account: String,
    /// Its ServiceAccount's UID, or `""` where it did not say.
    pub account_uid: String,
}

/// What is seen of a namespace.
pub struct Seen<'a> {
    /// Whether it is [`ACTIVE`](super::default_account::ACTIVE): elsewhere nothing is filled in any more.
    pub is_active: bool,
    /// Its ServiceAccounts.
    pub accounts: &'a [&'a Account],
    /// Its token Secrets.
    pub secrets: &'a [&'a Secret],
    /// Those that were there before.
    pub gone: &'a [Gone],
    /// Whether to look for what was missed while nobody watched (C2.9).
    pub sweeps: bool,
}

/// One thing to do. Each begins with a look at the live object that decides, and they do not depend on each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Its ServiceAccount seems to be gone, or to be another one by now (C2.3, C2.5).
    Delete(Secret),
    /// Something is missing in it (C2.6).
    Fill(Fill),
    /// A ServiceAccount names a Secret that seems to be gone (C2.4).
    Dereference {
        /// The ServiceAccount's name.
        account: String,
        /// Its UID.
        account_uid: String,
        /// The name that goes.
        secret: String,
    },
}

/// What a Secret gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The Secret.
    pub secret: Secret,
    /// The UID of its ServiceAccount.
    pub account_uid: String,
    /// Whether it gets a token, too.
    pub token: bool,
}

/// What is to be done in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In any order.
    pub tasks: Vec<Task>,
    /// When the next token is to be replaced.
    pub next: Option<Timestamp>,
}

/// What is to be done in a namespace. A Secret that lacks nothing is not written, not even its annotations (C2.6), and
/// one that names no ServiceAccount is left alone (C2.8).
pub fn plan(seen: &Seen<'_>, now: Timestamp) -> Plan {
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
    // In a namespace that goes, ServiceAccounts go, too.
    if seen.is_active {
        plan.tasks.extend(dangling(seen));
    }
    plan
}

/// The references of ServiceAccounts to Secrets that are gone. What an account names is looked up when the time comes,
/// since it may have been told of a Secret just now. An account may name Secrets of any type, so one that was never
/// seen counts only where its name is one that kube-controller-manager made up.
fn dangling(seen: &Seen<'_>) -> Vec<Task> {
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
    /// Whether it is of this ServiceAccount: of its name and, where it says one, its UID.
    pub fn is_of(&self, account: &Account) -> bool {
        self.account == account.name && (self.account_uid.is_empty() || self.account_uid == account.uid)
    }

    /// From when on it needs another token; never, where its token lasts.
    fn token_due(&self, account_uid: &str) -> Option<Timestamp> {
        match &self.token {
            Token::Absent => Some(Timestamp(i64::MIN)),
            Token::Lasting => None,
            Token::Bound(life) if life.account_uid != account_uid => Some(Timestamp(i64::MIN)),
            Token::Bound(life) => Some(rotation(life, &self.uid)),
        }
    }
}

/// When a token is replaced: after 80 % of its life, or after a day (B7), or up to a tenth of that earlier, so that
/// tokens that came together do not go together. The same Secret always has the same share of that tenth.
pub fn rotation(life: &Life, uid: &str) -> Timestamp {
    let whole = life.expires.0.saturating_sub(life.issued.0).max(0);
    let kept = (whole - whole / 5).min(LONGEST);
    Timestamp(life.issued.0.saturating_add(kept - ((kept / 10 * share(uid)) >> 32)))
}

/// A number below 2^32 that is always the same for a UID: what is done for many is not done for all at once.
pub fn share(uid: &str) -> i64 {
    let digits = hash::sha256(uid.as_bytes());
    i64::from_str_radix(digits.get(..8).unwrap_or_default(), 16).unwrap_or_default()
}
