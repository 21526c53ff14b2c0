//! The watch that only this controller needs: Pillion's token Secrets.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Secret as SecretObject;
use kube::Api;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::credential::Credential;
use pillion_plan::sidecar_tokens::{Account, Content, LABELS, Secret};
use pillion_runtime::context::Context;
use pillion_runtime::controller::Controller as _;
use pillion_runtime::store::{Facets, Projection, Store, Watch, Watched};

use super::SidecarTokens;
use super::metrics::Measured;

/// How long a token may be due before it counts as overdue, in seconds. A tenth of the shortest life is left then.
const LATE: i64 = 60;

/// A token Secret, as the table keeps it.
pub(super) struct TokenSecret(Secret);

impl Projection for TokenSecret {
    fn differences(&self, Self(next): &Self) -> Facets {
        let is_same = self.0 == Secret { resource_version: self.0.resource_version.clone(), ..next.clone() };
        if is_same { Facets::empty() } else { Facets::CONTENT }
    }
}

/// The Secrets of a namespace.
pub(super) enum NamespaceSecrets {
    /// The Secrets, by name.
    Listed(BTreeMap<String, Secret>),
    /// The Secrets are not listed yet, so the absence of a Secret proves nothing. Holds the problem with the watch, if
    /// known.
    NotListed(Option<String>),
    /// The controller may not read Secrets in this namespace.
    NotGiven,
}

impl NamespaceSecrets {
    /// Returns what the listed Secrets are for.
    pub(super) fn credentials(&self) -> impl Iterator<Item = &Credential> {
        let secrets = if let Self::Listed(secrets) = self { Some(secrets) } else { None };
        secrets.into_iter().flat_map(|secrets| secrets.values().map(|secret| &secret.credential))
    }
}

/// The watches of token Secrets.
pub(super) enum TokenSecrets {
    /// One for all namespaces.
    All(Watched<TokenSecret>),
    /// One for each namespace.
    ByNamespace(BTreeMap<String, Watched<TokenSecret>>),
}

impl TokenSecrets {
    /// Starts the watches. They end when this is dropped.
    pub(super) fn watch(context: &Context, namespaces: Option<BTreeSet<String>>) -> Self {
        let client = &context.client;
        let Some(names) = namespaces else {
            return Self::All(keep(context, Watch::new(Api::all(client.clone()), "Secret")));
        };
        // The owner of a namespace may remove its Role. Events on the Pods that wait for a token tell of that. The
        // process stays ready, since it serves all other namespaces.
        let kept = names.into_iter().map(|name| {
            let watch = Watch::new(Api::namespaced(client.clone(), &name), "Secret").one_of_many();
            (name, keep(context, watch))
        });
        Self::ByNamespace(kept.collect())
    }

    /// Waits until everything was listed.
    pub(super) async fn listed(&self) {
        for kept in self.each() {
            kept.listed().await;
        }
    }

    /// Returns the watches.
    pub(super) fn each(&self) -> impl Iterator<Item = &Watched<TokenSecret>> {
        let (all, by_namespace) = match self {
            Self::All(kept) => (Some(kept), None),
            Self::ByNamespace(kept) => (None, Some(kept.values())),
        };
        all.into_iter().chain(by_namespace.into_iter().flatten())
    }

    pub(super) fn secrets(&self, namespace: &str) -> NamespaceSecrets {
        let kept = match self {
            Self::All(kept) => kept,
            Self::ByNamespace(kept) => match kept.get(namespace) {
                Some(kept) => kept,
                None => return NamespaceSecrets::NotGiven,
            },
        };
        if !kept.is_listed() {
            return NamespaceSecrets::NotListed(kept.problem());
        }
        NamespaceSecrets::Listed(
            kept.in_namespace(namespace).iter().map(|secret| (secret.0.name.clone(), secret.0.clone())).collect(),
        )
    }

    /// Measures all Secrets at a time.
    pub(super) fn measure(&self, now: Timestamp) -> Measured {
        let mut measured = Measured::default();
        for secret in self.each().flat_map(|kept| kept.all()) {
            let TokenSecret(secret) = &*secret;
            measured.count += 1;
            // Unneeded tokens are not renewed.
            if let Content::Token { expires, renew_after } = secret.content
                && secret.unneeded_since.is_none()
            {
                measured.overdue += usize::from(renew_after.0.saturating_add(LATE) <= now.0);
                measured.first = Some(measured.first.map_or(expires, |first| first.min(expires)));
            }
        }
        measured
    }
}

/// Returns those of the named accounts that exist.
pub(super) fn accounts_of<'a>(
    store: &Store,
    namespace: &str,
    names: impl Iterator<Item = &'a str>,
) -> BTreeMap<String, Account> {
    let find = |name: &str| {
        let account = store.accounts().get(namespace, name)?;
        let (uid, is_terminating) = (account.known.uid.clone(), account.known.is_terminating);
        Some((name.to_owned(), Account { uid, is_terminating }))
    };
    names.filter_map(find).collect()
}

/// Whether an account exists and is not being deleted.
pub(super) fn is_there(store: &Store, namespace: &str, account: &str) -> bool {
    store.accounts().get(namespace, account).is_some_and(|account| !account.known.is_terminating)
}

fn keep(context: &Context, watch: Watch<SecretObject>) -> Watched<TokenSecret> {
    let watch = LABELS.into_iter().fold(watch, |watch, (key, value)| watch.label(key, Some(value)));
    // A Secret with Pillion's labels that is not Pillion's is left alone. It is found when Pillion needs its name.
    let see = |secret: SecretObject| Secret::from_object(&serde_json::to_value(secret).ok()?).ok().map(TokenSecret);
    context.store.keep(SidecarTokens::NAME, watch, see)
}
