//! The watch of token Secrets.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret as SecretObject;
use kube::Api;
use parking_lot::Mutex;
use pillion_plan::token_controller::{ACCOUNT, ACCOUNT_UID, Gone, Secret, TOKEN_TYPE};
use pillion_runtime::context::Context;
use pillion_runtime::controller::Controller as _;
use pillion_runtime::store::{Facets, Projection, Table, Watch, Watched};

use super::{TokenController, claims};
use crate::authority::Authority;

/// A token Secret, as the table keeps it.
pub(super) struct TokenSecret(pub(super) Secret);

impl Projection for TokenSecret {
    fn differences(&self, Self(next): &Self) -> Facets {
        let is_same = self.0 == Secret { resource_version: self.0.resource_version.clone(), ..next.clone() };
        if is_same { Facets::empty() } else { Facets::CONTENT }
    }
}

/// Starts to watch the token Secrets. No secret data is kept.
pub(super) fn secrets(context: &Context, authority: Option<Authority>) -> Watched<TokenSecret> {
    let watch = Watch::new(Api::<SecretObject>::all(context.client.clone()), "Secret").field("type", TOKEN_TYPE);
    context.store.keep(TokenController::NAME, watch, move |secret| Some(TokenSecret(view(secret, authority.as_ref()))))
}

/// The token Secrets that have been deleted since their namespaces were last compared.
#[derive(Default)]
pub(super) struct Deleted(Arc<Mutex<BTreeMap<String, Vec<Gone>>>>);

impl Deleted {
    /// Follows the deletions from now on.
    pub(super) fn follow(&self, secrets: &Table<TokenSecret>) {
        let deleted = Arc::clone(&self.0);
        secrets.subscribe(move |change| {
            if let Some(TokenSecret(Secret { name, account, account_uid, .. })) = change.before.as_deref()
                && change.after.is_none()
            {
                let gone = Gone { secret: name.clone(), account: account.clone(), account_uid: account_uid.clone() };
                let mut deleted = deleted.lock();
                deleted.entry(change.namespace.clone()).or_default().push(gone);
            }
        });
    }

    /// Returns those of a namespace, each once.
    pub(super) fn take(&self, namespace: &str) -> Vec<Gone> {
        self.0.lock().remove(namespace).unwrap_or_default()
    }
}

/// Reads a Secret, without its secret data.
fn view(secret: SecretObject, authority: Option<&Authority>) -> Secret {
    let SecretObject { metadata, data, .. } = secret;
    let data = data.unwrap_or_default();
    let value = |key| data.get(key).map_or::<&[u8], _>(&[], |value| value.0.as_slice());
    let annotation = |key| metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned().unwrap_or_default();
    let uid = metadata.uid.clone().unwrap_or_default();
    Secret {
        account: annotation(ACCOUNT),
        account_uid: annotation(ACCOUNT_UID),
        is_terminating: metadata.deletion_timestamp.is_some(),
        lacks_authority: authority.is_some_and(|authority| authority.as_pem().as_bytes() != value("ca.crt")),
        lacks_namespace: value("namespace").is_empty(),
        token: claims::token(value("token"), &uid),
        namespace: metadata.namespace.unwrap_or_default(),
        name: metadata.name.unwrap_or_default(),
        resource_version: metadata.resource_version.unwrap_or_default(),
        uid,
    }
}

#[cfg(test)]
mod tests {
    use pillion_plan::token_controller::Token;
    use serde_json::json;

    use super::*;

    fn secret(data: &serde_json::Value) -> SecretObject {
        serde_json::from_value(json!({
            "metadata": {
                "name": "s", "namespace": "shop", "uid": "s1", "resourceVersion": "7",
                "annotations": {"kubernetes.io/service-account.name": "bot"}
            },
            "data": data
        }))
        .expect("a Secret")
    }

    #[test]
    fn tkn6_it_is_seen_what_a_secret_lacks() {
        let seen = view(secret(&json!(null)), None);
        assert_eq!((seen.account.as_str(), seen.account_uid.as_str()), ("bot", ""));
        assert!(seen.lacks_namespace && !seen.lacks_authority, "without an authority none is missing");
        assert_eq!(seen.token, Token::Absent);
        // "x" and "shop" in Base64.
        let seen = view(secret(&json!({"token": "eA==", "namespace": "c2hvcA=="})), None);
        assert!(!seen.lacks_namespace);
        assert_eq!(seen.token, Token::Lasting, "what is not ours stays");
    }

    #[test]
    fn tkn4_a_deletion_is_told_once() {
        let (table, deleted) = (Table::default(), Deleted::default());
        deleted.follow(&table);
        table.put_for_test("shop", "s", 1, TokenSecret(view(secret(&json!(null)), None)));
        assert_eq!(deleted.take("shop"), []);
        table.remove_for_test("shop", "s", "s");
        let gone = Gone { secret: "s".to_owned(), account: "bot".to_owned(), account_uid: String::new() };
        assert_eq!(deleted.take("shop"), [gone]);
        assert_eq!(deleted.take("shop"), []);
    }
}
