//! What is watched for tokens alone: our Secrets, and ServiceAccounts.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Secret as SecretObject, ServiceAccount};
use kube::core::PartialObjectMeta;
use kube::{Api, ResourceExt as _};
use pillion_kubernetes::time::Timestamp;
use pillion_plan::tokens::{Account, Content, LABELS, Secret};

use super::NAME;
use crate::context::Context;
use crate::watch::{Own, Watch};

/// Other controllers look at other Secrets.
pub(super) const SECRET: &str = "TokenSecret";

/// The Secrets of a namespace.
pub(super) enum Place {
    /// By name.
    Listed(BTreeMap<String, Secret>),
    /// Nothing may be concluded yet from what is not there. With what keeps the list away, where that is known.
    NotListed(Option<String>),
    /// They may not be looked at.
    NotGiven,
}

/// What is watched for tokens alone.
pub(super) struct Seen {
    secrets: Secrets,
    pub(super) accounts: Own<Account>,
}

enum Secrets {
    All(Own<Secret>),
    ByNamespace(BTreeMap<String, Own<Secret>>),
}

impl Seen {
    /// Starts to watch. It ends when this is dropped.
    pub(super) fn watch(context: &Context, namespaces: Option<BTreeSet<String>>) -> Self {
        let client = &context.client;
        let secrets = match namespaces {
            None => Secrets::All(keep_secrets(context, Watch::new(Api::all(client.clone()), "Secret"))),
            // Whoever owns a namespace may take its Role away: that is told on the Pods that wait for a token, and is no
            // reason to call a process that serves all the others not ready.
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

    /// Those of these accounts that are there.
    pub(super) fn accounts_of<'a>(
        &self,
        namespace: &str,
        names: impl Iterator<Item = &'a str>,
    ) -> BTreeMap<String, Account> {
        let find = |name: &str| Some((name.to_owned(), Account::clone(&*self.accounts.get(namespace, name)?)));
        names.filter_map(find).collect()
    }

    /// Whether there is an account that can be used.
    pub(super) fn is_there(&self, namespace: &str, account: &str) -> bool {
        self.accounts.get(namespace, account).is_some_and(|account| !account.is_terminating)
    }

    /// How many Secrets there are, and when the first of their tokens ends.
    pub(super) fn measure(&self) -> (usize, Option<Timestamp>) {
        let all = match &self.secrets {
            Secrets::All(kept) => kept.all(),
            Secrets::ByNamespace(kept) => kept.values().flat_map(|kept| kept.all()).collect(),
        };
        let ends = all.iter().filter_map(|secret| match secret.content {
            // A token that nobody needs is not renewed.
            Content::Token { expires, .. } if secret.unneeded_since.is_none() => Some(expires),
            _ => None,
        });
        (all.len(), ends.min())
    }
}

fn keep_secrets(context: &Context, watch: Watch<SecretObject>) -> Own<Secret> {
    let selector = LABELS.map(|(key, value)| format!("{key}={value}")).join(",");
    // What has our labels and is not ours is left alone, and is found when one of ours would have its name.
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
