//! The Secret that holds the token of an isolated sidecar's ServiceAccount (`serviceaccounts.md` B5).

use std::collections::BTreeMap;

use pillion_identity::names;
use pillion_kubernetes::format;
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::ObjectRef;
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::hash;
use serde_json::{Value, json};

use super::super::Step;

/// The labels that all of these Secrets have, and no other object of Pillion's: name and value.
pub const LABELS: [(&str, &str); 2] =
    [("app.kubernetes.io/managed-by", "pillion"), ("app.kubernetes.io/component", "sidecar-token")];
/// Whose token it is.
pub const ACCOUNT: &str = "pillion.dev/service-account-name";
/// The `metadata.uid` of that ServiceAccount: one of the same name that is created later has another.
pub const ACCOUNT_UID: &str = "pillion.dev/service-account-uid";
/// When the token ends, as the API server said (B7); RFC 3339.
pub const EXPIRES: &str = "pillion.dev/token-expires";
/// From when on there will be another token; RFC 3339.
pub const RENEW_AFTER: &str = "pillion.dev/token-renew-after";
/// What shows that nobody has edited the token or these annotations; no secret, 64 hexadecimal digits.
pub const CHECKSUM: &str = "pillion.dev/token-checksum";
/// Since when nobody needs the token; RFC 3339.
pub const UNNEEDED_SINCE: &str = "pillion.dev/unneeded-since";

/// What is in a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// No token yet, or not any more. Pods that mount it wait until there is one (B4).
    Empty,
    /// Not what was written here: somebody edited it, or it was restored from a copy.
    Edited,
    /// The token that was written here.
    Token {
        /// When it ends.
        expires: Timestamp,
        /// From when on there is to be another.
        renew_after: Timestamp,
    },
}

/// A Secret of ours, without its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its `metadata.uid`. Its tokens are bound to it (B6).
    pub uid: String,
    /// Its `metadata.resourceVersion`.
    pub resource_version: String,
    /// The ServiceAccount whose token it holds.
    pub account: String,
    /// Its `metadata.uid`, as far as the Secret has a token.
    pub account_uid: String,
    /// What is in it.
    pub content: Content,
    /// Since when nobody needs it, where that was noted.
    pub unneeded_since: Option<Timestamp>,
    /// Whether it is being deleted.
    pub is_terminating: bool,
    /// Whether the API server lets nobody change its data.
    pub is_immutable: bool,
}

/// Why a Secret is not ours; it is never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Foreign {
    /// One of [`LABELS`] is missing, or says something else.
    #[error(
        "it does not have the labels app.kubernetes.io/managed-by=pillion and app.kubernetes.io/component=sidecar-token"
    )]
    Label,
    /// It names no ServiceAccount, or one whose Secret has another name (G2, for tokens).
    #[error(
        "its annotation pillion.dev/service-account-name is not that of the ServiceAccount that its name stands for"
    )]
    Account,
    /// Others fill Secrets of other types.
    #[error("its type is not Opaque")]
    Type,
}

impl Secret {
    /// What is seen of a Secret.
    ///
    /// # Errors
    /// It is not ours: label, annotation, name and type have to agree.
    pub fn of(secret: &Value) -> Result<Self, Foreign> {
        let text = |key| json::text(secret, &["metadata", key]).to_owned();
        let annotation = |key| json::text(secret, &["metadata", "annotations", key]);
        if LABELS.iter().any(|(key, value)| json::text(secret, &["metadata", "labels", key]) != *value) {
            return Err(Foreign::Label);
        }
        let (name, account) = (text("name"), annotation(ACCOUNT).to_owned());
        if account.is_empty() || names::token_secret(&account) != name {
            return Err(Foreign::Account);
        }
        if !matches!(json::text(secret, &["type"]), "" | "Opaque") {
            return Err(Foreign::Type);
        }
        let uid = text("uid");
        Ok(Self {
            namespace: text("namespace"),
            content: content(secret, &uid),
            name,
            uid,
            resource_version: text("resourceVersion"),
            account,
            account_uid: annotation(ACCOUNT_UID).to_owned(),
            unneeded_since: Timestamp::parse(annotation(UNNEEDED_SINCE)),
            is_terminating: json::is_terminating(secret),
            is_immutable: json::flag(secret, &["immutable"]),
        })
    }

    /// Which object it is.
    pub fn reference(&self) -> ObjectRef {
        ObjectRef {
            api_version: "v1",
            kind: "Secret",
            namespace: Some(self.namespace.clone()),
            name: self.name.clone(),
        }
    }

    /// A change of this Secret as it was seen, and of no other.
    pub(super) fn patch(&self, patch: Value) -> Step {
        let version = Some(self.resource_version.clone());
        Step::Patch { object: self.reference(), uid: self.uid.clone(), resource_version: version, patch }
    }
}

fn content(secret: &Value, uid: &str) -> Content {
    let token = json::text(secret, &["data", "token"]);
    if token.is_empty() {
        return Content::Empty;
    }
    let annotation = |key| json::text(secret, &["metadata", "annotations", key]);
    let [account, account_uid, expires, renew_after] = [ACCOUNT, ACCOUNT_UID, EXPIRES, RENEW_AFTER].map(annotation);
    let expected = checksum(uid, [account, account_uid, expires, renew_after], token);
    match (Timestamp::parse(expires), Timestamp::parse(renew_after)) {
        (Some(expires), Some(renew_after)) if annotation(CHECKSUM) == expected => {
            Content::Token { expires, renew_after }
        }
        _ => Content::Edited,
    }
}

/// The Secret's UID is in it, since the token of another Secret is no good here (B6).
pub(super) fn checksum(uid: &str, [account, account_uid, expires, renew_after]: [&str; 4], token: &str) -> String {
    hash::sha256(format::joined(&[uid, account, account_uid, expires, renew_after, token], "\n").as_bytes())
}

/// The Secret as it is created: without a token, which can only be bound to what is there (B5).
pub fn seed(namespace: &str, account: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": names::token_secret(account),
            "namespace": namespace,
            "labels": BTreeMap::from(LABELS),
            "annotations": {ACCOUNT: account},
        },
    })
}
