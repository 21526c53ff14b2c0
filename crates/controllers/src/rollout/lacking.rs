//! The Pods that lack the sidecar of a SidecarSet (ROLL-67).
//!
//! The other Pods of a cluster are not kept: there may be many thousands that no SidecarSet concerns. A SidecarSet that asks
//! for evictions has a watch of its own, which the API server restricts to the labels that the SidecarSet selects. It keeps
//! only Pods that lack the sidecar and that their controllers create anew, so in most clusters none.

use std::sync::Arc;

use pillion_kubernetes::json;
use pillion_runtime::controller::Controller as _;
use pillion_runtime::store::{Facets, Watch, Watched};
use pillion_runtime::wakes::Keys;
use pillion_sidecarset::sidecar_set::SidecarSet;

use super::SidecarSetRollout;
use crate::pods::injected::{self, InjectedPod};

/// A label that the API server selects Pods by: a key, and a value if it must have this one.
type Term = (String, Option<String>);

/// A watch of the Pods that lack the sidecar of a SidecarSet. It ends when this is dropped.
pub(super) struct Lacking {
    terms: Vec<Term>,
    pods: Arc<Watched<InjectedPod>>,
}

/// Returns labels that each Pod has which the SidecarSet selects.
fn terms(set: &SidecarSet) -> Vec<Term> {
    let Some(selector) = set.spec(&["selector"]) else { return Vec::new() };
    let labels = json::string_map(selector, &["matchLabels"]);
    let mut terms: Vec<Term> = labels.map(|(key, value)| (key.to_owned(), Some(value.to_owned()))).collect();
    let expressions = json::items(selector, &["matchExpressions"]).iter();
    let required = expressions.filter(|one| matches!(json::text(one, &["operator"]), "In" | "Exists"));
    terms.extend(required.map(|one| (json::text(one, &["key"]).to_owned(), None)));
    terms.sort_unstable();
    terms
}

impl SidecarSetRollout {
    /// Returns the Pods that lack the sidecar of a SidecarSet. Starts to watch them if they are not watched yet.
    pub(super) fn lacking(&self, set: &SidecarSet) -> Arc<Watched<InjectedPod>> {
        let (name, terms) = (set.name().to_owned(), terms(set));
        let mut all = self.lacking.lock();
        if let Some(known) = all.get(&name).filter(|known| known.terms == terms) {
            return Arc::clone(&known.pods);
        }
        all.remove(&name);
        let watch = Watch::new(injected::all(&self.context.client), "Pod").one_of_many();
        let watch = terms.iter().fold(watch, |watch, (key, value)| watch.label(key, value.as_deref()));
        let of = name.clone();
        let pods = self.context.store.keep(Self::NAME, watch, move |pod| InjectedPod::lacking(pod, &of));
        let woken = name.clone();
        let facets = Facets::CONTENT | Facets::READINESS;
        self.wakes.on(&pods, facets, move |_| Keys::One(woken.clone()));
        let pods = Arc::new(pods);
        all.insert(name, Lacking { terms, pods: Arc::clone(&pods) });
        pods
    }

    /// Ends the watch of the Pods that lack the sidecar of a SidecarSet.
    pub(super) fn without_lacking(&self, sidecar_set: &str) {
        self.lacking.lock().remove(sidecar_set);
    }
}
