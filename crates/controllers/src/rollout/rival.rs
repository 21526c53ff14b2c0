//! OpenKruise's manager, which rolls out SidecarSets as well. Two controllers must not upgrade the same Pods.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use parking_lot::Mutex;
use pillion_kubernetes::time::Timestamp;
use pillion_runtime::context::{Clock, Context};
use pillion_runtime::controller::Controller as _;
use pillion_runtime::store::{Facets, Projection, Watch, Watched};

use super::SidecarSetRollout;

/// How long the Lease must not have been renewed before rollouts start, in seconds.
const GONE_AFTER: i64 = 5 * 60;

/// The name of the Lease of an installation by OpenKruise's chart.
pub(super) const LEASE: &str = "kruise-manager";

/// The Lease of OpenKruise's manager: `<namespace>/<name>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Default for LeaseName {
    /// The Lease of an installation by OpenKruise's chart.
    fn default() -> Self {
        Self { namespace: "kruise-system".to_owned(), name: LEASE.to_owned() }
    }
}

/// The text is not the name of a Lease.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not the name of a Lease: write <namespace>/<name>")]
pub struct NoLeaseName(String);

impl FromStr for LeaseName {
    type Err = NoLeaseName;

    fn from_str(text: &str) -> Result<Self, NoLeaseName> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err(NoLeaseName(text.to_owned())),
        }
    }
}

impl fmt::Display for LeaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// `spec.renewTime` of the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Renewed(Timestamp);

impl Projection for Renewed {
    fn differences(&self, next: &Self) -> Facets {
        if self == next { Facets::empty() } else { Facets::CONTENT }
    }
}

/// The last renewal of the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// `spec.renewTime`, by the clock of OpenKruise's manager.
    renewed: Timestamp,
    /// When this process saw the renewal, by its own clock.
    at: Timestamp,
}

impl Seen {
    /// Takes another renewal. The first one that is seen may be old; each later one happens now.
    fn next(before: Option<Self>, renewed: Timestamp, now: Timestamp) -> Self {
        match before {
            Some(before) if before.renewed == renewed => before,
            Some(_) => Self { renewed, at: now },
            None => Self { renewed, at: renewed.min(now) },
        }
    }
}

/// Follows the Lease of OpenKruise's manager.
pub(super) struct Rival {
    seen: Arc<Mutex<Option<Seen>>>,
    clock: Clock,
    lease: LeaseName,
    watched: Watched<Renewed>,
}

impl Rival {
    /// Starts to watch the Lease.
    pub(super) fn watch(context: &Context, lease: LeaseName) -> Self {
        let seen = Arc::<Mutex<Option<Seen>>>::default();
        let (seeing, clock) = (Arc::clone(&seen), context.clock.clone());
        let see = move |lease: Lease| {
            let renewed = Timestamp(lease.spec?.renew_time?.0.as_second());
            let mut seen = seeing.lock();
            *seen = Some(Seen::next(*seen, renewed, clock.now()));
            Some(Renewed(renewed))
        };
        let api = Api::<Lease>::namespaced(context.client.clone(), &lease.namespace);
        let watch = Watch::new(api, "Lease").field("metadata.name", &lease.name);
        let watched = context.store.keep(SidecarSetRollout::NAME, watch, see);
        Self { seen, clock: context.clock.clone(), lease, watched }
    }

    /// Waits until it is known whether the Lease exists.
    pub(super) async fn listed(&self) {
        self.watched.listed().await;
    }

    /// Returns for how many seconds rollouts must still wait, if OpenKruise's manager is at work.
    pub(super) fn is_at_work(&self) -> Option<u64> {
        let seen = (*self.seen.lock())?;
        let left = seen.at.0.saturating_add(GONE_AFTER).saturating_sub(self.clock.now().0);
        u64::try_from(left).ok().filter(|left| *left > 0)
    }

    /// Says that OpenKruise's manager is at work, and what follows from that.
    pub(super) fn text(&self) -> String {
        format!(
            "OpenKruise's manager renews Lease \"{}\", so nothing is rolled out; this controller takes over five minutes \
             after the last renewal",
            self.lease
        )
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn seen(renewed: i64, at: i64) -> Seen {
        Seen { renewed: Timestamp(renewed), at: Timestamp(at) }
    }

    #[rstest]
    #[case::first_and_old(None, 100, 1000, seen(100, 100))]
    #[case::first_by_a_clock_that_is_ahead(None, 2000, 1000, seen(2000, 1000))]
    #[case::renewed(Some(seen(100, 100)), 990, 1000, seen(990, 1000))]
    #[case::renewed_by_a_clock_that_is_behind(Some(seen(100, 900)), 101, 1000, seen(101, 1000))]
    #[case::seen_again(Some(seen(100, 100)), 100, 1000, seen(100, 100))]
    fn renewals_count_from_when_they_are_seen(
        #[case] before: Option<Seen>,
        #[case] renewed: i64,
        #[case] now: i64,
        #[case] expected: Seen,
    ) {
        assert_eq!(Seen::next(before, Timestamp(renewed), Timestamp(now)), expected);
    }

    #[rstest]
    #[case("kruise-system/kruise-manager", Ok("kruise-system/kruise-manager"))]
    #[case("kruise-manager", Err("\"kruise-manager\" is not the name of a Lease: write <namespace>/<name>"))]
    #[case("a/b/c", Err("\"a/b/c\" is not the name of a Lease: write <namespace>/<name>"))]
    fn a_lease_has_a_namespace_and_a_name(#[case] text: &str, #[case] expected: Result<&str, &str>) {
        let read = text.parse::<LeaseName>().map(|lease| lease.to_string()).map_err(|error| error.to_string());
        assert_eq!(read, expected.map(str::to_owned).map_err(str::to_owned));
    }
}
