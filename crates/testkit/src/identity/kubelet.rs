//! A model of the kubelet: the tokens that it gives to containers (SAP-4, TOK-1).

use std::collections::{BTreeMap, BTreeSet};

use pillion_identity::names;
use pillion_kubernetes::json;
use serde_json::Value;

use super::Accounts;

/// A container, an account as which it can authenticate, and the audience of the token unless that is the API server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// The container.
    pub container: String,
    /// The ServiceAccount.
    pub account: String,
    /// The audience; `""` for the API server itself.
    pub audience: String,
}

impl Pair {
    /// Returns the pair of a container that can authenticate at the API server.
    pub fn new(container: &str, account: &str) -> Self {
        Self { container: container.to_owned(), account: account.to_owned(), audience: String::new() }
    }
}

/// A token in a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stored {
    key: String,
    account: String,
    audience: String,
}

/// The Secrets with tokens of isolated sidecars, by name.
#[derive(Clone, Debug, Default)]
pub struct Secrets(BTreeMap<String, Vec<Stored>>);

impl Secrets {
    /// Returns the Secret of each account.
    pub fn new(accounts: &Accounts) -> Self {
        let mut secrets = Self::default();
        for account in accounts.0.keys() {
            secrets.add(&names::token_secret(account), account, &[]);
        }
        secrets
    }

    /// Adds a Secret with a token for the API server, and one for each of these audiences under this key.
    pub fn add(&mut self, name: &str, account: &str, tokens: &[(&str, &str)]) {
        let stored = [("", "token")].iter().chain(tokens).map(|(audience, key)| Stored {
            key: (*key).to_owned(),
            account: account.to_owned(),
            audience: (*audience).to_owned(),
        });
        self.0.insert(name.to_owned(), stored.collect());
    }

    /// Returns the tokens in a Secret, or only those under these keys.
    fn tokens<'a>(&'a self, name: &str, keys: Option<&'a [Value]>) -> impl Iterator<Item = (String, String)> + 'a {
        let is_there =
            move |key: &str| keys.is_none_or(|items| items.iter().any(|item| json::text(item, &["key"]) == key));
        let stored = self.0.get(name).into_iter().flatten().filter(move |stored| is_there(&stored.key));
        stored.map(|stored| (stored.account.clone(), stored.audience.clone()))
    }
}

/// Returns the identities of all containers in a stored Pod if no SidecarSet has a Secret of its own; see
/// [`pairs_with`].
pub fn pairs(pod: &Value, accounts: &Accounts) -> BTreeSet<Pair> {
    pairs_with(pod, accounts, &Secrets::new(accounts))
}

/// Returns the identities of all containers in a stored Pod.
///
/// A mounted volume with a `serviceAccountToken`, with a `podCertificate`, or of a CSI driver that asks for tokens
/// gives its container the account under which the Pod runs, whatever the volume's name and mount path. One of
/// `secrets`, in any kind of volume or in the environment, gives the tokens in it, or those under the keys that a
/// projected volume lists. There are no other sources. A mount that hides another one does not protect it: both count.
pub fn pairs_with(pod: &Value, accounts: &Accounts, secrets: &Secrets) -> BTreeSet<Pair> {
    let runs_as = json::text(pod, &["spec", "serviceAccountName"]);
    let mut found = BTreeSet::new();
    for list in ["initContainers", "containers"] {
        for container in json::items(pod, &["spec", list]) {
            for (account, audience) in held(pod, container, runs_as, secrets) {
                if accounts.is_alive(&account) {
                    let container = json::text(container, &["name"]).to_owned();
                    found.insert(Pair { container, account, audience });
                }
            }
        }
    }
    found
}

/// Returns the accounts of a container, with audiences.
fn held(pod: &Value, container: &Value, runs_as: &str, secrets: &Secrets) -> Vec<(String, String)> {
    let mut held = Vec::new();
    for mount in json::items(container, &["volumeMounts"]) {
        let name = json::text(mount, &["name"]);
        let volumes = json::items(pod, &["spec", "volumes"]);
        let Some(volume) = volumes.iter().find(|volume| json::text(volume, &["name"]) == name) else { continue };
        held.extend(super::audiences(volume).into_iter().map(|audience| (runs_as.to_owned(), audience.to_owned())));
        for source in json::items(volume, &["projected", "sources"]) {
            let keys = json::at(source, &["secret", "items"]).and_then(Value::as_array);
            held.extend(secrets.tokens(json::text(source, &["secret", "name"]), keys.map(Vec::as_slice)));
        }
        for secret in super::secrets_in_full(volume) {
            held.extend(secrets.tokens(secret, None));
        }
    }
    for variable in json::items(container, &["env"]) {
        held.extend(secrets.tokens(json::text(variable, &["valueFrom", "secretKeyRef", "name"]), None));
    }
    for from in json::items(container, &["envFrom"]) {
        held.extend(secrets.tokens(json::text(from, &["secretRef", "name"]), None));
    }
    held
}
