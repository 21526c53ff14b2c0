//! Secrets of others that have the names of ours. No watch of ours shows them, since it selects labels that they do not
//! have, so each is watched by its name for as long as it is in the way.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Secret as SecretObject;
use kube::Api;
use kube::core::PartialObjectMeta;
use pillion_identity::names;

use super::NAME;
use super::seen::SECRET;
use crate::context::Context;
use crate::watch::{Own, Watch};

/// By namespace and account. Of the Secrets, nothing is kept but that they are there.
#[derive(Default)]
pub(super) struct Blocked(BTreeMap<String, BTreeMap<String, Own<()>>>);

impl Blocked {
    /// A Secret was found in the way. That it goes is told as a change of its namespace.
    pub(super) fn add(&mut self, context: &Context, namespace: &str, account: &str) {
        self.0.entry(namespace.to_owned()).or_default().entry(account.to_owned()).or_insert_with(|| {
            let api = Api::<PartialObjectMeta<SecretObject>>::namespaced(context.client.clone(), namespace);
            let by_name = format!("metadata.name={}", names::token_secret(account));
            let watch = Watch::new(api, "Secret").fields(&by_name).called(SECRET).one_of_many();
            context.cluster.keep(NAME, watch, |_| Some(()))
        });
    }

    /// Whether a Secret that was in the way is gone; it is not asked for again then.
    pub(super) fn is_gone(&mut self, namespace: &str, account: &str) -> bool {
        let Some(accounts) = self.0.get_mut(namespace) else { return false };
        let is_gone = |watch: &Own<()>| watch.is_listed() && watch.is_empty();
        accounts.get(account).is_some_and(is_gone) && accounts.remove(account).is_some()
    }

    /// Keeps those of these accounts.
    pub(super) fn settle(&mut self, namespace: &str, accounts: &BTreeSet<&str>) {
        if let Some(blocked) = self.0.get_mut(namespace) {
            blocked.retain(|account, _| accounts.contains(account.as_str()));
            if blocked.is_empty() {
                self.0.remove(namespace);
            }
        }
    }

    /// Forgets a namespace.
    pub(super) fn forget(&mut self, namespace: &str) {
        self.0.remove(namespace);
    }
}
