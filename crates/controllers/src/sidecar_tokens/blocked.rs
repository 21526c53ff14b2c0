//! Foreign Secrets that have a name that Pillion needs. They lack Pillion's labels, so the usual watch does not show
//! them. Each is watched by name for as long as it is in the way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret as SecretObject;
use kube::Api;
use kube::core::PartialObjectMeta;
use pillion_plan::credential::Credential;
use pillion_runtime::context::Context;
use pillion_runtime::controller::Controller as _;
use pillion_runtime::store::{Facets, Projection, Watch, Watched};
use pillion_runtime::wakes::{Wakes, its_namespace};

use super::SidecarTokens;

/// How long to wait for the list of a watch.
const LISTING: Duration = Duration::from_secs(2);

/// A Secret of which only the existence matters.
pub(super) struct Foreign;

impl Projection for Foreign {
    fn differences(&self, _: &Self) -> Facets {
        Facets::empty()
    }
}

/// The watches of one namespace, by what the Secret is for.
#[derive(Default)]
pub(super) struct Blocked(BTreeMap<Credential, Watched<Foreign>>);

impl Blocked {
    /// Starts to watch a Secret that is in the way. Its deletion wakes the namespace.
    pub(super) fn add(&mut self, context: &Context, wakes: &Wakes<String>, namespace: &str, credential: &Credential) {
        self.0.entry(credential.clone()).or_insert_with(|| {
            let api = Api::<PartialObjectMeta<SecretObject>>::namespaced(context.client.clone(), namespace);
            let watch = Watch::new(api, "Secret").field("metadata.name", &credential.secret()).one_of_many();
            let watched = context.store.keep(SidecarTokens::NAME, watch, |_| Some(Foreign));
            wakes.on(&watched, Facets::all(), its_namespace);
            watched
        });
    }

    /// Returns when to look again at a Secret that its watch does not show: the list is not there yet, or the Secret went
    /// before it. No change wakes the namespace then.
    pub(super) fn look_again(&self, credential: &Credential) -> Option<Duration> {
        let watch = self.0.get(credential)?;
        (!watch.is_listed() || watch.is_empty()).then_some(LISTING)
    }

    /// Whether a Secret that was in the way is gone. Returns true once; the watch then ends.
    pub(super) fn is_gone(&mut self, credential: &Credential) -> bool {
        let is_gone = |watch: &Watched<Foreign>| watch.is_listed() && watch.is_empty();
        self.0.get(credential).is_some_and(is_gone) && self.0.remove(credential).is_some()
    }

    /// Drops all watches other than these.
    pub(super) fn settle(&mut self, credentials: &BTreeSet<&Credential>) {
        self.0.retain(|credential, _| credentials.contains(credential));
    }
}
