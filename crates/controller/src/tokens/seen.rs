//! What is watched for tokens alone: our Secrets, and ServiceAccounts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Secret as SecretObject, ServiceAccount};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Config;
use kube::{Api, Client, ResourceExt as _};
use pillion_core::plan::tokens::{Account, Content, LABELS, Secret};
use pillion_core::time::Timestamp;
use tokio::sync::broadcast::error::RecvError;

use crate::context::Context;
use crate::watch::{Change, Changes, Kept, keep};

/// Other controllers look at other Secrets.
const SECRET: &str = "TokenSecret";

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
    pub(super) accounts: Arc<Kept<Account>>,
}

enum Secrets {
    All(Arc<Kept<Secret>>),
    ByNamespace(BTreeMap<String, Arc<Kept<Secret>>>),
}

impl Seen {
    /// Starts to watch. It ends with the other watches.
    pub(super) fn watch(context: &Context, namespaces: Option<BTreeSet<String>>) -> Self {
        let (client, cluster) = (&context.client, &context.cluster);
        let secrets = match namespaces {
            None => {
                let kept = Arc::new(Kept::default());
                cluster.also(keep_secrets(Api::all(client.clone()), Arc::clone(&kept), cluster.notify()));
                Secrets::All(kept)
            }
            Some(names) => Secrets::ByNamespace(
                names
                    .into_iter()
                    .map(|name| {
                        let kept = Arc::new(Kept::default());
                        cluster.also(keep_secrets_of(
                            client.clone(),
                            name.clone(),
                            Arc::clone(&kept),
                            cluster.notify(),
                        ));
                        (name, kept)
                    })
                    .collect(),
            ),
        };
        let accounts = Arc::new(Kept::default());
        cluster.also(keep_accounts(client.clone(), Arc::clone(&accounts), cluster.notify()));
        Self { secrets, accounts }
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

async fn keep_secrets(api: Api<SecretObject>, kept: Arc<Kept<Secret>>, changes: Changes) {
    let selector = LABELS.map(|(key, value)| format!("{key}={value}")).join(",");
    // What has our labels and is not ours is left alone, and is found when one of ours would have its name.
    let see = |secret: SecretObject| Secret::of(&serde_json::to_value(secret).ok()?).ok();
    keep(api, Config::default().labels(&selector), SECRET, kept, see, changes).await;
}

/// A list of one namespace says nothing of the others.
async fn keep_secrets_of(client: Client, namespace: String, kept: Arc<Kept<Secret>>, changes: Changes) {
    let own = Changes::new(16);
    let mut seen = own.subscribe();
    let tell = async {
        while !matches!(seen.recv().await, Err(RecvError::Closed)) {
            // Nobody may be listening yet.
            let _ = changes.send(Change { kind: SECRET, namespace: Some(namespace.clone()) });
        }
    };
    tokio::join!(keep_secrets(Api::namespaced(client, &namespace), kept, own), tell);
}

async fn keep_accounts(client: Client, kept: Arc<Kept<Account>>, changes: Changes) {
    let see = |account: PartialObjectMeta<ServiceAccount>| {
        let uid = account.uid()?;
        Some(Account { uid, is_terminating: account.metadata.deletion_timestamp.is_some() })
    };
    let api = Api::<PartialObjectMeta<ServiceAccount>>::all(client);
    keep(api, Config::default(), "ServiceAccount", kept, see, changes).await;
}
