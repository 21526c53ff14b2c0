//! The metrics of a controller, for Prometheus. Times are in seconds.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// A controller, and the result of a reconciliation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    controller: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Sent {
    verb: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    result: &'static str,
}

/// The metrics.
pub struct Metrics {
    registry: Registry,
    leads: Gauge,
    requests: Family<Sent, Counter>,
    reconciliations: Family<Ended, Counter>,
    durations: Family<Of, Histogram>,
    objects: Family<Kind, Gauge>,
    bundle_delay: Histogram,
    first_injection: Histogram,
    bundle_bytes: Gauge,
    bundle_refused: Gauge,
    token_expiry: Gauge,
    token_requests: Family<Answered, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Returns metrics that are all zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("pillion_controller");
        let leads = Gauge::default();
        registry.register("leader", "Whether this replica holds the Lease", leads.clone());
        let requests = Family::default();
        registry.register("api_requests", "Requests to the API server, by verb", requests.clone());
        let reconciliations = Family::default();
        registry.register("reconciliations", "Comparisons of actual and wanted state", reconciliations.clone());
        let durations: Family<Of, Histogram> =
            Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.0005, 2.0, 16)));
        let help = "Duration of a comparison and of the writes that follow it";
        registry.register_with_unit("reconciliation", help, Unit::Seconds, durations.clone());
        let objects = Family::default();
        registry.register("objects", "Objects that the controller keeps in the cluster, by kind", objects.clone());
        let bundle_delay = Histogram::new(exponential_buckets(0.05, 2.0, 14));
        let help = "From a change of a SidecarSet until it is in the bundle";
        registry.register_with_unit("bundle_delay", help, Unit::Seconds, bundle_delay.clone());
        let first_injection = Histogram::new(exponential_buckets(0.05, 2.0, 17));
        let help = "From a change of a SidecarSet until the first Pod is seen that was injected with it";
        registry.register_with_unit("first_injection_delay", help, Unit::Seconds, first_injection.clone());
        let bundle_bytes = Gauge::default();
        registry.register_with_unit("bundle", "The length of the bundle", Unit::Bytes, bundle_bytes.clone());
        let bundle_refused = Gauge::default();
        let help = "SidecarSets that are left out of the bundle, or kept in it as they were, since they are not valid";
        registry.register("bundle_refused_sidecarsets", help, bundle_refused.clone());
        let token_expiry = Gauge::default();
        let help = "When the first token expires, in seconds since 1970";
        registry.register_with_unit("token_first_expiry", help, Unit::Seconds, token_expiry.clone());
        let token_requests = Family::default();
        let help = "Requests for tokens; result is ok or error";
        registry.register("token_requests", help, token_requests.clone());
        Self {
            registry,
            leads,
            requests,
            reconciliations,
            durations,
            objects,
            bundle_delay,
            first_injection,
            bundle_bytes,
            bundle_refused,
            token_expiry,
            token_requests,
        }
    }

    /// Records whether this replica holds the Lease.
    pub fn leads(&self, leads: bool) {
        self.leads.set(i64::from(leads));
    }

    /// Counts a request to the API server.
    pub fn request(&self, verb: &'static str) {
        self.requests.get_or_create(&Sent { verb }).inc();
    }

    /// Records a reconciliation: `result` is `ok`, `error` or `waiting`.
    pub fn reconciled(&self, controller: &'static str, result: &'static str, took: Duration) {
        self.reconciliations.get_or_create(&Ended { controller, result }).inc();
        self.durations.get_or_create(&Of { controller }).observe(took.as_secs_f64());
    }

    /// Records how many objects of a kind are kept.
    pub fn objects(&self, kind: &'static str, count: usize) {
        self.objects.get_or_create(&Kind { kind }).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Records how long a change of a SidecarSet took to get into the bundle.
    pub fn bundle_delay(&self, took: Duration) {
        self.bundle_delay.observe(took.as_secs_f64());
    }

    /// Records how long a change of a SidecarSet took until the first Pod was injected with it.
    pub fn first_injection(&self, took: Duration) {
        self.first_injection.observe(took.as_secs_f64());
    }

    /// Records the length of the bundle in bytes, and the number of SidecarSets whose current version is not in it.
    pub fn bundle(&self, bytes: usize, refused: usize) {
        self.bundle_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.bundle_refused.set(i64::try_from(refused).unwrap_or(i64::MAX));
    }

    /// Records when the first token expires, in seconds since 1970; 0 if there is none.
    pub fn token_expiry(&self, seconds: i64) {
        self.token_expiry.set(seconds);
    }

    /// Counts a request for a token: `result` is `ok` or `error`.
    pub fn token_requested(&self, result: &'static str) {
        self.token_requests.get_or_create(&Answered { result }).inc();
    }

    /// Returns all metrics as text (`OpenMetrics` 1.0).
    pub fn encoded(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_can_be_scraped() {
        let metrics = Metrics::new();
        metrics.leads(true);
        metrics.request("watch");
        metrics.reconciled("merged", "ok", Duration::from_millis(3));
        let text = metrics.encoded();
        for line in [
            "pillion_controller_leader 1",
            "pillion_controller_api_requests_total{verb=\"watch\"} 1",
            "pillion_controller_reconciliations_total{controller=\"merged\",result=\"ok\"} 1",
            "pillion_controller_reconciliation_seconds_count{controller=\"merged\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in:\n{text}");
        }
    }
}
