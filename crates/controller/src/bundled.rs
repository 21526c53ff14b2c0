//! The SidecarSets that the policy has from a bundle, for those who prepare what Pods will need of them.
//!
//! What is injected is what the bundle holds, which may be a version before the one in the cluster. An identity that is
//! prepared for another version is none that the policy takes.

use std::sync::Arc;

use pillion_sidecarset::sidecar_set::SidecarSet;
use tokio::sync::watch;

/// The SidecarSets of the bundle that this process keeps, where it keeps one.
#[derive(Debug)]
pub struct Bundled(watch::Sender<State>);

#[derive(Clone, Debug, Default)]
enum State {
    /// No bundle is kept here: what the cluster has is what there is.
    #[default]
    None,
    /// One will be.
    Awaited,
    /// These are in it.
    Kept(Arc<Vec<SidecarSet>>),
}

impl Default for Bundled {
    fn default() -> Self {
        Self(watch::Sender::new(State::None))
    }
}

impl Bundled {
    /// What is in the bundle; `None` where none is kept here, or not yet.
    pub fn sets(&self) -> Option<Arc<Vec<SidecarSet>>> {
        match &*self.0.borrow() {
            State::Kept(sets) => Some(Arc::clone(sets)),
            State::None | State::Awaited => None,
        }
    }

    /// Waits until it is known what is in the bundle, where one is kept here.
    pub async fn known(&self) {
        // It can only fail without a sender, which is here.
        let _ = self.0.subscribe().wait_for(|state| !matches!(state, State::Awaited)).await;
    }

    /// There will be one, or it will be said that there is none.
    pub(crate) fn await_it(&self) {
        self.0.send_replace(State::Awaited);
    }

    /// None is kept here. Answers whether that is new.
    pub(crate) fn none(&self) -> bool {
        self.0.send_if_modified(|state| !matches!(std::mem::take(state), State::None))
    }

    /// These are in it now. Answers whether that is new.
    pub(crate) fn put(&self, sets: Vec<SidecarSet>) -> bool {
        self.0.send_if_modified(|state| {
            let is_new = !matches!(state, State::Kept(before) if **before == sets);
            if is_new {
                *state = State::Kept(Arc::new(sets));
            }
            is_new
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(name: &str) -> SidecarSet {
        SidecarSet::from_decoded(json!({"metadata": {"name": name}}))
    }

    #[tokio::test]
    async fn what_is_awaited_is_waited_for_and_told_once() {
        let bundled = Bundled::default();
        bundled.known().await;
        bundled.await_it();
        let known = bundled.known();
        tokio::pin!(known);
        assert!(futures_util::poll!(&mut known).is_pending());

        assert!(bundled.put(vec![set("a")]));
        known.await;
        assert!(!bundled.put(vec![set("a")]));
        assert_eq!(bundled.sets().as_deref(), Some(&vec![set("a")]));

        assert!(bundled.none() && !bundled.none());
        assert_eq!(bundled.sets(), None);
    }
}
