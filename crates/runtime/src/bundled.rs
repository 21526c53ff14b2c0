//! The SidecarSets that the policy reads from a bundle, for the controllers that prepare the identities of Pods.
//!
//! The policy injects the versions in the bundle, which may be older than those in the cluster. It would not accept an
//! identity that was prepared for another version.

use std::sync::Arc;
use std::time::Duration;

use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::sidecar_set::SidecarSet;
use tokio::sync::watch;

/// How long a policy server may have a former bundle: its cache keeps an answer for five seconds (HOST-10), and the answer
/// may have been on its way.
const CACHED: Duration = Duration::from_secs(7);

/// Returns how long policy servers may still have the version before, if they may.
pub fn unsettled(is_cached: bool, since: Timestamp, now: Timestamp) -> Option<Duration> {
    let passed = Duration::from_secs(u64::try_from(now.0.saturating_sub(since.0)).unwrap_or_default());
    let left = CACHED.checked_sub(passed).filter(|left| !left.is_zero());
    left.filter(|_| is_cached)
}

/// The SidecarSets of the bundle that this process keeps, if it keeps one.
#[derive(Debug)]
pub struct Bundled(watch::Sender<BundledState>);

#[derive(Clone, Debug, Default)]
enum BundledState {
    /// This process keeps no bundle: the SidecarSets of the cluster count.
    #[default]
    None,
    /// The contents of the bundle are not known yet.
    Awaited,
    /// The bundle contains these SidecarSets.
    Kept(Arc<Vec<SidecarSet>>),
}

impl Default for Bundled {
    fn default() -> Self {
        Self(watch::Sender::new(BundledState::None))
    }
}

impl Bundled {
    /// Returns the SidecarSets in the bundle; `None` if this process keeps no bundle or does not know its contents yet.
    pub fn sets(&self) -> Option<Arc<Vec<SidecarSet>>> {
        match &*self.0.borrow() {
            BundledState::Kept(sets) => Some(Arc::clone(sets)),
            BundledState::None | BundledState::Awaited => None,
        }
    }

    /// Whether the contents of a bundle count, and not the SidecarSets of the cluster.
    pub fn is_kept(&self) -> bool {
        matches!(&*self.0.borrow(), BundledState::Kept(_))
    }

    /// Waits until the contents of the bundle are known. Returns at once if this process keeps no bundle.
    pub async fn known(&self) {
        // This fails only if the sender is dropped, and `self` holds the sender.
        let _ = self.0.subscribe().wait_for(|state| !matches!(state, BundledState::Awaited)).await;
    }

    /// Returns a receiver that is notified when the SidecarSets may have changed.
    pub fn changes(&self) -> watch::Receiver<impl Send + Sync + use<>> {
        self.0.subscribe()
    }

    /// Records that the contents will be known later, or that there will be no bundle.
    pub fn await_it(&self) {
        self.0.send_replace(BundledState::Awaited);
    }

    /// Records that this process keeps no bundle. Returns whether that is new.
    pub fn none(&self) -> bool {
        self.0.send_if_modified(|state| !matches!(std::mem::take(state), BundledState::None))
    }

    /// Records the SidecarSets that are in the bundle now. Returns whether that is new.
    pub fn put(&self, sets: Vec<SidecarSet>) -> bool {
        self.0.send_if_modified(|state| {
            let is_new = !matches!(state, BundledState::Kept(before) if **before == sets);
            if is_new {
                *state = BundledState::Kept(Arc::new(sets));
            }
            is_new
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
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
        assert!(bundled.is_kept());

        assert!(bundled.none() && !bundled.none());
        assert_eq!(bundled.sets(), None);
        assert!(!bundled.is_kept());
    }

    #[rstest]
    #[case::just_read(true, 100, Some(7))]
    #[case::a_moment_ago(true, 104, Some(3))]
    #[case::long_enough(true, 107, None)]
    #[case::long_ago(true, 100_000, None)]
    #[case::a_clock_that_was_put_back(true, 90, Some(7))]
    #[case::read_for_each_request(false, 100, None)]
    fn host10_a_version_is_settled_when_every_policy_server_has_it(
        #[case] is_cached: bool,
        #[case] now: i64,
        #[case] left: Option<u64>,
    ) {
        assert_eq!(unsettled(is_cached, Timestamp(100), Timestamp(now)), left.map(Duration::from_secs));
    }
}
