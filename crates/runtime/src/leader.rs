//! Leader election: of several replicas, the one that holds the Lease (`coordination.k8s.io/v1`) works.
//!
//! The algorithm is that of client-go. The holder renews the Lease. Another replica takes the Lease if it has not seen
//! a renewal for the duration in the Lease. Each replica measures that time on its own clock, so clocks may differ. A
//! holder that cannot renew the Lease for [`Timings::deadline`], which is shorter, stops working before another replica
//! begins.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::{sleep, timeout};

use crate::effects::FIELD_MANAGER;
use crate::problem::{WriteProblem, classify};

/// The timings of leader election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// How long a Lease is valid without renewal; whole seconds.
    pub duration: Duration,
    /// How long the holder tries to renew the Lease before it gives up; shorter than [`Timings::duration`].
    pub deadline: Duration,
    /// The interval at which the holder renews the Lease and the other replicas check it.
    pub period: Duration,
}

impl Default for Timings {
    /// The timings of kube-controller-manager.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { duration: seconds(15), deadline: seconds(10), period: seconds(2) }
    }
}

/// A replica that wants to hold a Lease.
pub struct Candidate {
    leases: Api<Lease>,
    lease: String,
    identity: String,
    timings: Timings,
    /// The Lease at its last observed change, and the time of that observation.
    seen: Option<(LeaseSpec, Instant)>,
    /// The Lease as this replica last wrote it; `None` once another write is known.
    held: Option<Lease>,
}

impl Candidate {
    /// Returns a candidate for the Lease `lease` in `namespace`. `identity` must be unique among the replicas.
    pub fn new(client: Client, namespace: &str, lease: &str, identity: String, timings: Timings) -> Self {
        let leases = Api::namespaced(client, namespace);
        Self { leases, lease: lease.to_owned(), identity, timings, seen: None, held: None }
    }

    /// Waits until this replica holds the Lease, without a time limit.
    pub async fn win(&mut self) {
        let mut logged = None;
        while !matches!(self.attempt().await, Attempt::Held) {
            let holder = self.seen.as_ref().and_then(|(spec, _)| spec.holder_identity.clone());
            if logged != holder {
                tracing::info!(lease = self.lease, holder, "another replica works; waiting");
                logged = holder;
            }
            sleep(self.timings.period).await;
        }
        tracing::info!(lease = self.lease, identity = self.identity, "holding the Lease");
    }

    /// Renews the Lease until it is lost: another replica holds it, or it could not be renewed in time.
    pub async fn hold(&mut self) {
        let mut renewed = Instant::now();
        loop {
            sleep(self.timings.period).await;
            let left = self.timings.deadline.saturating_sub(renewed.elapsed());
            let began = Instant::now();
            match timeout(left, self.attempt()).await {
                Ok(Attempt::Held) => renewed = began,
                Ok(Attempt::Others) => {
                    tracing::error!(lease = self.lease, "another replica has taken the Lease");
                    return;
                }
                Ok(Attempt::Failed) if renewed.elapsed() < self.timings.deadline => {}
                Ok(Attempt::Failed) | Err(_) => {
                    tracing::error!(lease = self.lease, "the Lease could not be renewed in time");
                    return;
                }
            }
        }
    }

    /// Releases the Lease, so that another replica need not wait. Failures are ignored.
    pub async fn release(&mut self) {
        let release = async {
            let Ok(Some(mut lease)) = self.leases.get_opt(&self.lease).await else { return };
            let Some(spec) = lease.spec.as_mut().filter(|spec| spec.holder_identity.as_ref() == Some(&self.identity))
            else {
                return;
            };
            spec.holder_identity = None;
            spec.lease_duration_seconds = Some(1);
            let _ = self.leases.replace(&self.lease, &params(), &lease).await;
        };
        let _ = timeout(self.timings.period, release).await;
    }

    async fn attempt(&mut self) -> Attempt {
        match self.try_once().await {
            Ok(true) => Attempt::Held,
            Ok(false) => Attempt::Others,
            Err(error) => {
                let problem = classify(&error);
                // Two replicas wrote at the same time. The next attempt shows which was first.
                if !matches!(problem, WriteProblem::Conflict | WriteProblem::AlreadyExists) {
                    tracing::warn!(lease = self.lease, %problem, "leader election");
                }
                Attempt::Failed
            }
        }
    }

    /// Makes one attempt to hold the Lease. A holder writes without reading first: one request each time, as in
    /// client-go.
    async fn try_once(&mut self) -> Result<bool, kube::Error> {
        if let Some(held) = self.held.take() {
            match self.write(Some(held), Duration::ZERO).await {
                // The Lease was written or deleted by another client: read it below.
                Err(error) if matches!(classify(&error), WriteProblem::Conflict | WriteProblem::NotFound) => {}
                other => return other,
            }
        }
        let found = self.leases.get_opt(&self.lease).await?;
        let spec = found.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
        if let Some(spec) = spec
            && self.seen.as_ref().is_none_or(|(seen, _)| *seen != spec)
        {
            self.seen = Some((spec, Instant::now()));
        }
        let unchanged = self.seen.as_ref().map_or(Duration::ZERO, |(_, since)| since.elapsed());
        self.write(found, unchanged).await
    }

    /// Writes the Lease if this replica may have it. `unchanged` is the time for which `found` has not changed.
    async fn write(&mut self, found: Option<Lease>, unchanged: Duration) -> Result<bool, kube::Error> {
        let spec = found.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
        let Some(spec) = next(spec.as_ref(), &self.identity, unchanged, Timestamp::now(), self.timings.duration) else {
            return Ok(false);
        };
        let written = if let Some(mut lease) = found {
            lease.spec = Some(spec);
            self.leases.replace(&self.lease, &params(), &lease).await?
        } else {
            let metadata = ObjectMeta { name: Some(self.lease.clone()), ..ObjectMeta::default() };
            self.leases.create(&params(), &Lease { metadata, spec: Some(spec) }).await?
        };
        self.seen = Some((written.spec.clone().unwrap_or_default(), Instant::now()));
        self.held = Some(written);
        Ok(true)
    }
}

enum Attempt {
    Held,
    Others,
    Failed,
}

fn params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

/// Returns the Lease as `identity` writes it; `None` if it has to wait. `unchanged` is the time for which `found` has
/// not changed.
fn next(
    found: Option<&LeaseSpec>,
    identity: &str,
    unchanged: Duration,
    now: Timestamp,
    duration: Duration,
) -> Option<LeaseSpec> {
    let found = found.cloned().unwrap_or_default();
    let holder = found.holder_identity.as_deref().filter(|holder| !holder.is_empty());
    let holds_for = u64::try_from(found.lease_duration_seconds.unwrap_or_default()).unwrap_or_default();
    let is_ours = holder == Some(identity);
    if holder.is_some() && !is_ours && unchanged <= Duration::from_secs(holds_for) {
        return None;
    }
    // The first holder does not count as a transition. A holder after a release does.
    let transitions = match (&found.acquire_time, is_ours) {
        (None, _) => 0,
        (_, true) => found.lease_transitions.unwrap_or_default(),
        (_, false) => found.lease_transitions.unwrap_or_default().saturating_add(1),
    };
    let acquired = found.acquire_time.clone().filter(|_| is_ours).unwrap_or(MicroTime(now));
    Some(LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)),
        acquire_time: Some(acquired),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(transitions),
        ..found
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const DURATION: Duration = Duration::from_secs(15);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn held(by: &str) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(by.to_owned()),
            lease_duration_seconds: Some(15),
            acquire_time: Some(MicroTime(at(100))),
            renew_time: Some(MicroTime(at(200))),
            lease_transitions: Some(3),
            ..LeaseSpec::default()
        }
    }

    #[rstest]
    #[case::there_is_none(None, 0, Some((300, 0)))]
    #[case::it_is_ours(Some(held("a")), 0, Some((100, 3)))]
    #[case::ours_is_renewed_however_late(Some(held("a")), 99, Some((100, 3)))]
    #[case::another_has_it(Some(held("b")), 15, None)]
    #[case::the_other_has_not_renewed_it(Some(held("b")), 16, Some((300, 4)))]
    #[case::it_was_released(Some(held("")), 0, Some((300, 4)))]
    fn who_holds_the_lease(#[case] found: Option<LeaseSpec>, #[case] unchanged: u64, #[case] then: Option<(i64, i32)>) {
        let next = next(found.as_ref(), "a", Duration::from_secs(unchanged), at(300), DURATION);
        let seen = next.as_ref().map(|spec| {
            assert_eq!(spec.holder_identity.as_deref(), Some("a"));
            assert_eq!(spec.lease_duration_seconds, Some(15));
            assert_eq!(spec.renew_time, Some(MicroTime(at(300))));
            (spec.acquire_time.clone().map_or(0, |time| time.0.as_second()), spec.lease_transitions.unwrap_or_default())
        });
        assert_eq!(seen, then);
    }

    #[test]
    fn a_holder_that_cannot_renew_stops_before_another_begins() {
        let timings = Timings::default();
        assert!(timings.deadline + timings.period < timings.duration);
    }
}
