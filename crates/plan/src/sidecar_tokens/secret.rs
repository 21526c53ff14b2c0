//! The Secret that holds the tokens of isolated sidecars (TOK-5, AUD-4).

use std::collections::{BTreeMap, BTreeSet};

use pillion_identity::audience::AudienceToken;
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::ObjectRef;
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::hash;
use serde_json::{Map, Value, json};

use super::super::Step;
use super::audiences;
use crate::credential::Credential;

/// The labels, name and value, that identify these Secrets. No other object of Pillion has both.
pub const LABELS: [(&str, &str); 2] =
    [("app.kubernetes.io/managed-by", "pillion"), ("app.kubernetes.io/component", "sidecar-token")];
/// Annotation: the name of the ServiceAccount that the token belongs to.
pub const ACCOUNT: &str = "pillion.dev/service-account-name";
/// Annotation: the `metadata.uid` of that ServiceAccount. A later ServiceAccount of the same name has another UID.
pub const ACCOUNT_UID: &str = "pillion.dev/service-account-uid";
/// Annotation: the SidecarSet that has the Secret for itself (AUD-4). Absent if sets share it.
pub const SIDECAR_SET: &str = "pillion.dev/sidecarset";
/// Annotation: the tokens for other audiences that were written, as a list in JSON (AUD-8). Absent if sets share it.
pub const AUDIENCES: &str = "pillion.dev/token-audiences";
/// Annotation: when the first of the tokens expires, as reported by the API server (TOK-7); RFC 3339.
pub const EXPIRES: &str = "pillion.dev/token-expires";
/// Annotation: the time from which the tokens are renewed; RFC 3339.
pub const RENEW_AFTER: &str = "pillion.dev/token-renew-after";
/// Annotation: a checksum that detects edits of the tokens or of these annotations. It is not secret; 64 hexadecimal
/// digits.
pub const CHECKSUM: &str = "pillion.dev/token-checksum";
/// Annotation: the time since which the token is unneeded; RFC 3339.
pub const UNNEEDED_SINCE: &str = "pillion.dev/unneeded-since";

/// The key of the token for the API server.
pub(super) const TOKEN: &str = "token";

/// The contents of a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// No token. Pods that mount the Secret wait until it has one (TOK-4).
    Empty,
    /// Not what Pillion wrote: the Secret was edited or restored from a copy.
    Edited,
    /// The tokens that Pillion wrote.
    Token {
        /// When the first of them expires.
        expires: Timestamp,
        /// The time from which they are renewed.
        renew_after: Timestamp,
    },
}

/// One of Pillion's Secrets, without its tokens.
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
    /// What it is for.
    pub credential: Credential,
    /// The tokens for other audiences that its annotation states.
    pub audiences: Vec<AudienceToken>,
    /// The keys of its data.
    pub keys: BTreeSet<String>,
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
    /// It names no ServiceAccount, or its name is not the one derived from that ServiceAccount and the SidecarSet that
    /// it may name (MRG-2, for tokens; AUD-4).
    #[error(
        "its annotations pillion.dev/service-account-name and pillion.dev/sidecarset are not those of the ServiceAccount and the SidecarSet that its name stands for"
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
    pub fn from_object(secret: &Value) -> Result<Self, Foreign> {
        let text = |key| json::text(secret, &["metadata", key]).to_owned();
        let annotation = |key| json::text(secret, &["metadata", "annotations", key]);
        if LABELS.iter().any(|(key, value)| json::text(secret, &["metadata", "labels", key]) != *value) {
            return Err(Foreign::Label);
        }
        let set = Some(annotation(SIDECAR_SET).to_owned()).filter(|set| !set.is_empty());
        let credential = Credential { account: annotation(ACCOUNT).to_owned(), sidecar_set: set };
        let name = text("name");
        if credential.account.is_empty() || credential.secret() != name {
            return Err(Foreign::Account);
        }
        if !matches!(json::text(secret, &["type"]), "" | "Opaque") {
            return Err(Foreign::Type);
        }
        let uid = text("uid");
        Ok(Self {
            namespace: text("namespace"),
            content: content(secret, &uid, &credential),
            audiences: credential.sidecar_set.iter().flat_map(|_| audiences::read(annotation(AUDIENCES))).collect(),
            keys: json::object(secret, &["data"]).into_iter().flat_map(|data| data.keys().cloned()).collect(),
            credential,
            name,
            uid,
            resource_version: text("resourceVersion"),
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

fn content(secret: &Value, uid: &str, credential: &Credential) -> Content {
    if json::text(secret, &["data", TOKEN]).is_empty() {
        return Content::Empty;
    }
    let annotation = |key| json::text(secret, &["metadata", "annotations", key]);
    let stated = Stated {
        uid,
        account: &credential.account,
        account_uid: annotation(ACCOUNT_UID),
        expires: annotation(EXPIRES),
        renew_after: annotation(RENEW_AFTER),
        sidecar_set: credential.sidecar_set.as_deref(),
        audiences: annotation(AUDIENCES),
    };
    let expected = json::object(secret, &["data"]).map(|data| stated.checksum(data));
    match (Timestamp::parse(stated.expires), Timestamp::parse(stated.renew_after)) {
        (Some(expires), Some(renew_after)) if expected.as_deref() == Some(annotation(CHECKSUM)) => {
            Content::Token { expires, renew_after }
        }
        _ => Content::Edited,
    }
}

/// What the annotations of a Secret state about its tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stated<'a> {
    pub(super) uid: &'a str,
    pub(super) account: &'a str,
    pub(super) account_uid: &'a str,
    pub(super) expires: &'a str,
    pub(super) renew_after: &'a str,
    pub(super) sidecar_set: Option<&'a str>,
    pub(super) audiences: &'a str,
}

impl Stated<'_> {
    /// Returns the checksum over the annotations and the data. It includes the Secret's UID, because the tokens of
    /// another Secret are useless here (TOK-6).
    ///
    /// For a Secret that sets share, it covers only the key `token`, as it always has: other keys reach no Pod, and the
    /// Secrets of earlier versions stay valid. A Secret of one set reaches Pods whole.
    pub(super) fn checksum(&self, data: &Map<String, Value>) -> String {
        let text = |key: &str| data.get(key).and_then(Value::as_str).unwrap_or_default();
        let Self { uid, account, account_uid, expires, renew_after, .. } = *self;
        let mut parts = vec![uid, account, account_uid, expires, renew_after, text(TOKEN)];
        if let Some(set) = self.sidecar_set {
            parts.extend([set, self.audiences]);
            let mut keys: Vec<&str> = data.keys().map(String::as_str).filter(|key| *key != TOKEN).collect();
            keys.sort_unstable();
            parts.extend(keys.into_iter().flat_map(|key| [key, text(key)]));
        }
        hash::sha256(parts.join("\n").as_bytes())
    }
}

/// Returns the Secret to create. It has no token: a token can only be bound to an existing Secret (TOK-5).
pub fn seed(namespace: &str, credential: &Credential) -> Value {
    let mut annotations = json!({ACCOUNT: credential.account});
    if let (Some(set), Some(annotations)) = (&credential.sidecar_set, annotations.as_object_mut()) {
        annotations.insert(SIDECAR_SET.to_owned(), set.as_str().into());
    }
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": credential.secret(),
            "namespace": namespace,
            "labels": BTreeMap::from(LABELS),
            "annotations": annotations,
        },
    })
}
