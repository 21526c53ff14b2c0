//! The watches that only this controller needs: Pillion's token Secrets, and ServiceAccounts.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Secret as SecretObject, ServiceAccount};
use kube::core::PartialObjectMeta;
use kube::{Api, ResourceExt as _};
use pillion_kubernetes::time::Timestamp;
use pillion_plan::sidecar_tokens::{Account, Content, LABELS, Secret};

use super::NAME;
use crate::context::Context;
use crate::watch::{Own, Watch};

/// The kind of changes of these Secrets. Other controllers watch other Secrets.
pub(super) const SECRET: &str = "TokenSecret";

/// The Secrets of a namespace.
pub(super) enum Place {
    /// The Secrets, by name.
    Listed(BTreeMap<String, Secret>),
    /// The Secrets are not listed yet, so the absence of a Secret proves nothing. Holds the problem with the watch, if
    /// known.
    NotListed(Option<String>),
    /// The controller may not read Secrets in this namespace.
    NotGiven,
}

/// The watches that only this controller needs.
pub(super) struct TokenWatches {
    secrets: Secrets,
    pub(super) accounts: Own<Account>,
}

enum Secrets {
    All(Own<Secret>),
    ByNamespace(BTreeMap<String, Own<Secret>>),
}

impl TokenWatches {
    /// Starts the watches. They end when this is dropped.
    pub(super) fn watch(context: &Context, namespaces: Option<BTreeSet<String>>) -> Self {
        let client = &context.client;
        let secrets = match namespaces {
            None => Secrets::All(keep_secrets(context, Watch::new(Api::all(client.clone()), "Secret"))),
            // The owner of a namespace may remove its Role. Events on the Pods that wait for a token tell of that. The
            // process stays ready, since it serves all other namespaces.
            Some(names) => Secrets::ByNamespace(
                names
                    .into_iter()
                    .map(|name| {
                        let watch = Watch::new(Api::namespaced(client.clone(), &name), "Secret").one_of_many();
                        (name, keep_secrets(context, watch))
                    })
                    .collect(),
            ),
        };
        Self { secrets, accounts: keep_accounts(context) }
    }

    /// Waits until everything was listed.
    pub(super) async fn listed(&self) {
        self.accounts.listed().await;
        match &self.secrets {
            Secrets::All(kept) => kept.listed().await,
            Secrets::ByNamespace(all) => {
                for kept in all.values() {
                    kept.listed().await;
                }
            }
        }
    }

    pub(super) fn secrets(&self, namespace: &str) -> Place {
        let kept = match &self.secrets {
            Secrets::All(kept) => kept,
            Secrets::ByNamespace(kept) => match kept.get(namespace) {
                Some(kept) => kept,
                None => return Place::NotGiven,
            },
        };
        if !kept.is_listed() {
            return Place::NotListed(kept.problem());
        }
        Place::Listed(kept.of(namespace).iter().map(|secret| (secret.name.clone(), Secret::clone(secret))).collect())
    }

    /// Returns those of the named accounts that exist.
    pub(super) fn accounts_of<'a>(
        &self,
        namespace: &str,
        names: impl Iterator<Item = &'a str>,
    ) -> BTreeMap<String, Account> {
        let find = |name: &str| Some((name.to_owned(), Account::clone(&*self.accounts.get(namespace, name)?)));
        names.filter_map(find).collect()
    }

    /// Whether an account exists and is not being deleted.
    pub(super) fn is_there(&self, namespace: &str, account: &str) -> bool {
        self.accounts.get(namespace, account).is_some_and(|account| !account.is_terminating)
    }

    /// Returns the number of Secrets, and when the first of their tokens expires.
    pub(super) fn measure(&self) -> (usize, Option<Timestamp>) {
        let all = match &self.secrets {
            Secrets::All(kept) => kept.all(),
            Secrets::ByNamespace(kept) => kept.values().flat_map(|kept| kept.all()).collect(),
        };
        let ends = all.iter().filter_map(|secret| match secret.content {
            // Unneeded tokens are not renewed.
            Content::Token { expires, .. } if secret.unneeded_since.is_none() => Some(expires),
            _ => None,
        });
        (all.len(), ends.min())
    }
}

fn keep_secrets(context: &Context, watch: Watch<SecretObject>) -> Own<Secret> {
    let selector = LABELS.map(|(key, value)| format!("{key}={value}")).join(",");
    // A Secret with Pillion's labels that is not Pillion's is left alone. It is found when Pillion needs its name.
    let see = |secret: SecretObject| Secret::of(&serde_json::to_value(secret).ok()?).ok();
    context.cluster.keep(NAME, watch.labels(&selector).called(SECRET), see)
}

fn keep_accounts(context: &Context) -> Own<Account> {
    let see = |account: PartialObjectMeta<ServiceAccount>| {
        let uid = account.uid()?;
        Some(Account { uid, is_terminating: account.metadata.deletion_timestamp.is_some() })
    };
    let api = Api::<PartialObjectMeta<ServiceAccount>>::all(context.client.clone());
    context.cluster.keep(NAME, Watch::new(api, "ServiceAccount"), see)
}
