//! Watches of token Secrets and ServiceAccounts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::{Secret as SecretObject, ServiceAccount};
use kube::{Api, ResourceExt as _};
use pillion_plan::token_controller::{ACCOUNT, ACCOUNT_UID, Account, Gone, Secret, TOKEN_TYPE};

use super::{CONTROLLER, claims};
use crate::authority::Authority;
use crate::context::Context;
use crate::watch::{Own, Watch};

/// The observed token Secrets and ServiceAccounts, and a memory of earlier token Secrets.
pub(super) struct TokenSecretWatches {
    pub(super) accounts: Own<Account>,
    pub(super) secrets: Own<Secret>,
    memory: Memory,
}

/// The token Secrets that have existed.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Remembered>>);

#[derive(Default)]
struct Remembered {
    /// The Secrets, by namespace and name.
    secrets: BTreeMap<String, BTreeMap<String, Gone>>,
    /// The namespaces that have not been checked yet for changes missed before the start.
    unswept: BTreeSet<String>,
}

impl TokenSecretWatches {
    /// Starts the watches and waits until everything was listed. Keeps no secret data.
    pub(super) async fn watch(context: &Context, authority: Option<Authority>) -> Self {
        let all = Watch::new(Api::<ServiceAccount>::all(context.client.clone()), "ServiceAccount");
        let account = |account| serde_json::to_value(account).ok().map(|account| Account::of(&account));
        let accounts = context.cluster.keep(CONTROLLER, all, account);
        let memory = Memory::default();
        let all = Watch::new(Api::<SecretObject>::all(context.client.clone()), "Secret");
        let remembers = memory.clone();
        let secret = move |secret| {
            let secret = view(secret, authority.as_ref());
            remembers.add(&secret);
            Some(secret)
        };
        let secrets = context.cluster.keep(CONTROLLER, all.fields(&format!("type={TOKEN_TYPE}")), secret);
        let seen = Self { accounts, secrets, memory };
        seen.accounts.listed().await;
        seen.secrets.listed().await;
        context.cluster.listed().await;
        seen.memory.sweep(context.cluster.namespaces.state().iter().map(|namespace| namespace.name_any()));
        seen
    }

    /// Returns the token Secrets that have disappeared from a namespace. Each is returned once.
    pub(super) fn gone(&self, namespace: &str) -> Vec<Gone> {
        self.memory.gone(namespace, |name| self.secrets.get(namespace, name).is_some())
    }

    /// Whether this is the first check of a namespace that existed before the start. Returns true once.
    pub(super) fn is_first_look(&self, namespace: &str) -> bool {
        self.memory.is_first_look(namespace)
    }
}

impl Memory {
    fn sweep(&self, namespaces: impl Iterator<Item = String>) {
        self.lock().unswept.extend(namespaces);
    }

    fn add(&self, secret: &Secret) {
        let gone = Gone {
            secret: secret.name.clone(),
            account: secret.account.clone(),
            account_uid: secret.account_uid.clone(),
        };
        self.lock().secrets.entry(secret.namespace.clone()).or_default().insert(secret.name.clone(), gone);
    }

    fn gone(&self, namespace: &str, is_there: impl Fn(&str) -> bool) -> Vec<Gone> {
        let mut memory = self.lock();
        let Some(known) = memory.secrets.get_mut(namespace) else { return Vec::new() };
        let gone = known.extract_if(.., |name, _| !is_there(name)).map(|(_, gone)| gone).collect();
        if known.is_empty() {
            memory.secrets.remove(namespace);
        }
        gone
    }

    fn is_first_look(&self, namespace: &str) -> bool {
        self.lock().unswept.remove(namespace)
    }

    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn tkn4_what_is_gone_is_told_once() {
        let memory = Memory::default();
        memory.add(&view(secret(&json!(null)), None));
        let gone = Gone { secret: "s".to_owned(), account: "bot".to_owned(), account_uid: String::new() };
        assert_eq!(memory.gone("shop", |_| true), []);
        assert_eq!(memory.gone("shop", |_| false), [gone]);
        assert_eq!(memory.gone("shop", |_| false), []);
    }

    #[test]
    fn tkn9_a_namespace_is_swept_once() {
        let seen = Memory::default();
        seen.sweep(["shop".to_owned()].into_iter());
        assert!(seen.is_first_look("shop"));
        assert!(!seen.is_first_look("shop"));
        assert!(!seen.is_first_look("new"), "nothing was missed there");
    }
}
