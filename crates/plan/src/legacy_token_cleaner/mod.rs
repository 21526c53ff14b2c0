//! Cleans up unused tokens that never expire: first invalidates them, then deletes them (CLN-2).
//!
//! The API server records the day on which such a token was last used, and the day since which it records uses. All
//! days are in UTC, in the form `2026-01-02`, and are compared as text.

pub mod mounted;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use pillion_kubernetes::json;
use pillion_kubernetes::lookup::ObjectRef;
use pillion_kubernetes::time::Timestamp;
use serde_json::{Value, json};

use super::Step;
use super::token_controller::{ACCOUNT, ACCOUNT_UID, Account};

/// The namespace of the ConfigMap that tells since when the API server records uses.
pub const TRACKING_NAMESPACE: &str = "kube-system";
/// The name of that ConfigMap.
pub const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
/// Label of a Secret: the day of the token's last use.
pub(crate) const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
/// Label of a Secret: the day since which the API server treats the token as invalid.
pub(crate) const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
const DAY: i64 = 24 * 60 * 60;

/// Why tokens that seem unused may be in use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTracked {
    /// Uses have not been recorded for a whole period.
    #[error("the API server has noted uses of tokens only since {0}")]
    TooShort(String),
    /// The start of the recording is unknown.
    #[error("ConfigMap \"{TRACKING_NAMESPACE}/{TRACKING}\" does not say since when uses of tokens are noted")]
    Unknown,
}

/// Checks that uses have been recorded for a whole period, in seconds. The period starts at the end of the day in the
/// tracking ConfigMap.
///
/// # Errors
/// Uses have not been recorded for that long, or the start is unknown.
pub fn is_tracked(config_map: &Value, period: i64, now: Timestamp) -> Result<(), NotTracked> {
    let since = json::text(config_map, &["data", "since"]);
    let start = start_of(since).ok_or(NotTracked::Unknown)?;
    if now.0 < start.0.saturating_add(DAY).saturating_add(period) {
        return Err(NotTracked::TooShort(since.to_owned()));
    }
    Ok(())
}

/// A token Secret without its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The name of its ServiceAccount; `""` if it names none.
    pub account: String,
    /// The UID of its ServiceAccount; `""` if it has none.
    pub account_uid: String,
    uid: String,
    resource_version: String,
    created: Option<Timestamp>,
    is_terminating: bool,
    last_used: Option<String>,
    invalid_since: Option<String>,
}

impl Secret {
    /// Reads a Secret.
    pub fn from_object(secret: &Value) -> Self {
        let text = |path: &[&str]| json::text(secret, path).to_owned();
        let label = |key| json::at(secret, &["metadata", "labels", key]).and_then(Value::as_str).map(str::to_owned);
        Self {
            namespace: text(&["metadata", "namespace"]),
            name: text(&["metadata", "name"]),
            account: text(&["metadata", "annotations", ACCOUNT]),
            account_uid: text(&["metadata", "annotations", ACCOUNT_UID]),
            uid: text(&["metadata", "uid"]),
            resource_version: text(&["metadata", "resourceVersion"]),
            created: Timestamp::parse(json::text(secret, &["metadata", "creationTimestamp"])),
            is_terminating: json::is_terminating(secret),
            last_used: label(LAST_USED),
            invalid_since: label(INVALID_SINCE),
        }
    }
}

/// The decision on a token Secret.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The Secret stays as it is.
    Kept(Kept),
    /// Its token becomes invalid. Removing the label makes the token valid again.
    Invalidate(Step),
    /// The Secret is deleted.
    Delete(Step),
}

/// Why a token Secret stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It was created within the period, or is being deleted.
    New,
    /// Its token was used within the period.
    Used,
    /// Its creation time is missing or unreadable, or its day of last use is unreadable.
    Unclear,
    /// Its ServiceAccount is gone or does not list it: it counts as created by hand.
    Manual,
    /// A Pod mounts it.
    Mounted,
    /// Its token has not been invalid for a whole period.
    Invalid,
}

/// Checks that a token Secret has existed for a period, in seconds, without being used. The other conditions need
/// requests to the API server ([`verdict`]).
///
/// # Errors
/// Why the Secret stays as it is.
pub fn is_unused(secret: &Secret, period: i64, now: Timestamp) -> Result<(), Kept> {
    let created = secret.created.ok_or(Kept::Unclear)?;
    let oldest = Timestamp(now.0.saturating_sub(period));
    if created >= oldest || secret.is_terminating {
        return Err(Kept::New);
    }
    let Some(used) = &secret.last_used else { return Ok(()) };
    start_of(used).ok_or(Kept::Unclear)?;
    if *used >= day_of(oldest) { Err(Kept::Used) } else { Ok(()) }
}

/// Decides on a token Secret. `account` is its ServiceAccount, if that exists; `mounted` are the Secrets that Pods of
/// the namespace use; `period` is in seconds.
pub fn verdict(
    secret: &Secret,
    account: Option<&Account>,
    mounted: &BTreeSet<String>,
    period: i64,
    now: Timestamp,
) -> Verdict {
    if let Err(kept) = is_unused(secret, period, now) {
        return Verdict::Kept(kept);
    }
    let is_named = account.is_some_and(|account| {
        (secret.account_uid.is_empty() || secret.account_uid == account.uid) && account.secrets.contains(&secret.name)
    });
    if secret.account.is_empty() || !is_named {
        return Verdict::Kept(Kept::Manual);
    }
    if mounted.contains(&secret.name) {
        return Verdict::Kept(Kept::Mounted);
    }
    let object = ObjectRef {
        api_version: "v1",
        kind: "Secret",
        namespace: Some(secret.namespace.clone()),
        name: secret.name.clone(),
    };
    let (uid, resource_version) = (secret.uid.clone(), Some(secret.resource_version.clone()));
    match secret.invalid_since.as_deref().filter(|since| start_of(since).is_some()) {
        None => {
            let patch = json!({"metadata": {"labels": {INVALID_SINCE: day_of(now)}}});
            Verdict::Invalidate(Step::Patch { object, uid, resource_version, patch })
        }
        Some(since) if *since >= *day_of(Timestamp(now.0.saturating_sub(period))) => Verdict::Kept(Kept::Invalid),
        Some(_) => Verdict::Delete(Step::Delete { object, uid, resource_version }),
    }
}

/// Returns the first second of a day; `None` if the text is not a day.
fn start_of(day: &str) -> Option<Timestamp> {
    if day.len() == 10 { Timestamp::parse(&format!("{day}T00:00:00Z")) } else { None }
}

fn day_of(time: Timestamp) -> String {
    let text = time.to_string();
    text.split_once('T').map(|(day, _)| day.to_owned()).unwrap_or(text)
}
