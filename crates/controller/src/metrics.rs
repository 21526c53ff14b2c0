//! The metrics of the process, for Prometheus. Times are in seconds. A controller registers its own with
//! [`Metrics::register`].

use std::sync::{Mutex, PoisonError};
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

/// A kind of objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Kind {
    /// `Role`, `Secret`, ...
    pub kind: &'static str,
}

/// The metrics.
pub struct Metrics {
    registry: Mutex<Registry>,
    leads: Gauge,
    requests: Family<Sent, Counter>,
    reconciliations: Family<Ended, Counter>,
    durations: Family<Of, Histogram>,
    objects: Family<Kind, Gauge>,
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
        Self { registry: Mutex::new(registry), leads, requests, reconciliations, durations, objects }
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

    /// Returns the numbers of objects that controllers keep in the cluster, by kind.
    pub fn kept(&self) -> Family<Kind, Gauge> {
        self.objects.clone()
    }

    /// Registers metrics of one controller.
    pub fn register<T>(&self, metrics: impl FnOnce(&mut Registry) -> T) -> T {
        metrics(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns all metrics as text (`OpenMetrics` 1.0).
    pub fn encoded(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry.lock().unwrap_or_else(PoisonError::into_inner));
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
