//! Foreign Secrets that have a name that Pillion needs. They lack Pillion's labels, so the usual watch does not show
//! them. Each is watched by name for as long as it is in the way.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Secret as SecretObject;
use kube::Api;
use kube::core::PartialObjectMeta;
use pillion_identity::names;

use super::NAME;
use super::watches::SECRET;
use crate::context::Context;
use crate::watch::{Own, Watch};

/// The watches, by namespace and account. They record only that the Secret exists.
#[derive(Default)]
pub(super) struct Blocked(BTreeMap<String, BTreeMap<String, Own<()>>>);

impl Blocked {
    /// Starts to watch a Secret that is in the way. Its deletion is announced as a change of its namespace.
    pub(super) fn add(&mut self, context: &Context, namespace: &str, account: &str) {
        self.0.entry(namespace.to_owned()).or_default().entry(account.to_owned()).or_insert_with(|| {
            let api = Api::<PartialObjectMeta<SecretObject>>::namespaced(context.client.clone(), namespace);
            let by_name = format!("metadata.name={}", names::token_secret(account));
            let watch = Watch::new(api, "Secret").fields(&by_name).called(SECRET).one_of_many();
            context.cluster.keep(NAME, watch, |_| Some(()))
        });
    }

    /// Whether a Secret that was in the way is gone. Returns true once; the watch then ends.
    pub(super) fn is_gone(&mut self, namespace: &str, account: &str) -> bool {
        let Some(accounts) = self.0.get_mut(namespace) else { return false };
        let is_gone = |watch: &Own<()>| watch.is_listed() && watch.is_empty();
        accounts.get(account).is_some_and(is_gone) && accounts.remove(account).is_some()
    }

    /// Drops the watches for all accounts of a namespace other than these.
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
