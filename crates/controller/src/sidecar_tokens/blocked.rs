//! Foreign Secrets that have a name that Pillion needs. They lack Pillion's labels, so the usual watch does not show
//! them. Each is watched by name for as long as it is in the way.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Secret as SecretObject;
use kube::Api;
use kube::core::PartialObjectMeta;
use pillion_identity::names;

use super::SidecarTokens;
use crate::context::Context;
use crate::controller::Controller as _;
use crate::store::{Facets, Projection, Watch, Watched};
use crate::wakes::{Wakes, its_namespace};

/// A Secret of which only the existence matters.
pub(super) struct Foreign;

impl Projection for Foreign {
    fn differences(&self, _: &Self) -> Facets {
        Facets::empty()
    }
}

/// The watches of one namespace, by account.
#[derive(Default)]
pub(super) struct Blocked(BTreeMap<String, Watched<Foreign>>);

impl Blocked {
    /// Starts to watch a Secret that is in the way. Its deletion wakes the namespace.
    pub(super) fn add(&mut self, context: &Context, wakes: &Wakes<String>, namespace: &str, account: &str) {
        self.0.entry(account.to_owned()).or_insert_with(|| {
            let api = Api::<PartialObjectMeta<SecretObject>>::namespaced(context.client.clone(), namespace);
            let watch = Watch::new(api, "Secret").field("metadata.name", &names::token_secret(account)).one_of_many();
            let watched = context.store.keep(SidecarTokens::NAME, watch, |_| Some(Foreign));
            wakes.on(&watched, Facets::all(), its_namespace);
            watched
        });
    }

    /// Whether a Secret that was in the way is gone. Returns true once; the watch then ends.
    pub(super) fn is_gone(&mut self, account: &str) -> bool {
        let is_gone = |watch: &Watched<Foreign>| watch.is_listed() && watch.is_empty();
        self.0.get(account).is_some_and(is_gone) && self.0.remove(account).is_some()
    }

    /// Drops the watches for all accounts other than these.
    pub(super) fn settle(&mut self, accounts: &BTreeSet<&str>) {
        self.0.retain(|account, _| accounts.contains(account.as_str()));
    }
}
