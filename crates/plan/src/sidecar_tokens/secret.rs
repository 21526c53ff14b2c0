//! The Secret that holds the token of an isolated sidecar's ServiceAccount (TOK-5).

use std::collections::BTreeMap;

use pillion_identity::names;
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::ObjectRef;
use pillion_kubernetes::strings;
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::hash;
use serde_json::{Value, json};

use super::super::Step;

/// The labels, name and value, that identify these Secrets. No other object of Pillion has both.
pub const LABELS: [(&str, &str); 2] =
    [("app.kubernetes.io/managed-by", "pillion"), ("app.kubernetes.io/component", "sidecar-token")];
/// Annotation: the name of the ServiceAccount that the token belongs to.
pub const ACCOUNT: &str = "pillion.dev/service-account-name";
/// Annotation: the `metadata.uid` of that ServiceAccount. A later ServiceAccount of the same name has another UID.
pub const ACCOUNT_UID: &str = "pillion.dev/service-account-uid";
/// Annotation: when the token expires, as reported by the API server (TOK-7); RFC 3339.
pub const EXPIRES: &str = "pillion.dev/token-expires";
/// Annotation: the time from which the token is renewed; RFC 3339.
pub const RENEW_AFTER: &str = "pillion.dev/token-renew-after";
/// Annotation: a checksum that detects edits of the token or of these annotations. It is not secret; 64 hexadecimal
/// digits.
pub const CHECKSUM: &str = "pillion.dev/token-checksum";
/// Annotation: the time since which the token is unneeded; RFC 3339.
pub const UNNEEDED_SINCE: &str = "pillion.dev/unneeded-since";

/// The contents of a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// No token. Pods that mount the Secret wait until it has one (TOK-4).
    Empty,
    /// Not what Pillion wrote: the Secret was edited or restored from a copy.
    Edited,
    /// The token that Pillion wrote.
    Token {
        /// When the token expires.
        expires: Timestamp,
        /// The time from which the token is renewed.
        renew_after: Timestamp,
    },
}

/// One of Pillion's Secrets, without its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its `metadata.uid`. Its tokens are bound to it (TOK-6).
    pub uid: String,
    /// Its `metadata.resourceVersion`.
    pub resource_version: String,
    /// The ServiceAccount whose token it holds.
    pub account: String,
    /// The `metadata.uid` of that ServiceAccount; empty if the Secret has no token.
    pub account_uid: String,
    /// Its contents.
    pub content: Content,
    /// The time since which it is unneeded, if it is marked so.
    pub unneeded_since: Option<Timestamp>,
    /// Whether it is being deleted.
    pub is_terminating: bool,
    /// Whether it is immutable: the API server then refuses changes of its data.
    pub is_immutable: bool,
}

/// Why a Secret is not Pillion's. Pillion never writes such a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Foreign {
    /// One of [`LABELS`] is missing or has another value.
    #[error(
        "it does not have the labels app.kubernetes.io/managed-by=pillion and app.kubernetes.io/component=sidecar-token"
    )]
    Label,
    /// It names no ServiceAccount, or its name is not the one derived from that ServiceAccount (MRG-2, for tokens).
    #[error(
        "its annotation pillion.dev/service-account-name is not that of the ServiceAccount that its name stands for"
    )]
    Account,
    /// Its type is not `Opaque`. Other controllers fill Secrets of other types.
    #[error("its type is not Opaque")]
    Type,
}

impl Secret {
    /// Reads an observed Secret.
    ///
    /// # Errors
    /// The Secret is not Pillion's: its labels, annotation, name and type must agree.
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

    /// Returns the reference to this Secret.
    pub fn reference(&self) -> ObjectRef {
        ObjectRef {
            api_version: "v1",
            kind: "Secret",
            namespace: Some(self.namespace.clone()),
            name: self.name.clone(),
        }
    }

    /// Returns the step that patches this Secret, if it has not changed since it was observed.
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

/// Returns the checksum over the token and its annotations. It includes the Secret's UID, because the token of another
/// Secret is useless here (TOK-6).
pub(super) fn checksum(uid: &str, [account, account_uid, expires, renew_after]: [&str; 4], token: &str) -> String {
    hash::sha256(strings::joined(&[uid, account, account_uid, expires, renew_after, token], "\n").as_bytes())
}

/// Returns the Secret to create. It has no token: a token can only be bound to an existing Secret (TOK-5).
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
