//! The metrics of the process, for Prometheus. Times are in seconds. A controller registers its own with
//! [`Metrics::register`].

use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Held {
    lease: String,
}

/// A controller, and the reason of a problem, as in the Events about it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Troubled {
    controller: &'static str,
    reason: String,
}

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

/// Counts in a gauge until it is dropped.
#[derive(Debug)]
#[must_use = "it counts until it is dropped"]
pub struct Raised(Gauge);

impl Raised {
    fn in_gauge(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The metrics.
pub struct Metrics {
    registry: Mutex<Registry>,
    leads: Family<Held, Gauge>,
    is_ready: Gauge,
    has_newest_settings: Gauge,
    problems: Family<Troubled, Gauge>,
    failing: Family<Of, Gauge>,
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
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The version of pillion", version);
        let leads = Family::default();
        registry.register("leader", "Whether this replica holds the Lease", leads.clone());
        let is_ready = Gauge::default();
        registry.register("ready", "Whether this replica is ready, as /readyz says", is_ready.clone());
        let has_newest_settings = Gauge::default();
        has_newest_settings.set(1);
        let help = "1 while the settings in use are those of the file, 0 while the file is not valid";
        registry.register("settings_current", help, has_newest_settings.clone());
        let problems = Family::default();
        let help = "Problems that hold now and that an Event tells about; reason is that of the Event";
        registry.register("problems", help, problems.clone());
        let failing = Family::default();
        registry.register("failing", "Keys whose last reconciliation has failed", failing.clone());
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
        Self {
            registry: Mutex::new(registry),
            leads,
            is_ready,
            has_newest_settings,
            problems,
            failing,
            requests,
            reconciliations,
            durations,
            objects,
        }
    }

    /// Records whether this replica holds the Lease of this name.
    pub fn leads(&self, lease: &str, leads: bool) {
        self.leads.get_or_create(&Held { lease: lease.to_owned() }).set(i64::from(leads));
    }

    /// Records whether this replica is ready.
    pub fn ready(&self, is_ready: bool) {
        self.is_ready.set(i64::from(is_ready));
    }

    /// Records whether the settings in use are those of the file.
    pub fn settings_current(&self, is_current: bool) {
        self.has_newest_settings.set(i64::from(is_current));
    }

    /// Counts a problem that an Event tells about, until the returned value is dropped.
    pub fn problem(&self, controller: &'static str, reason: &str) -> Raised {
        Raised::in_gauge(self.problems.get_or_create_owned(&Troubled { controller, reason: reason.to_owned() }))
    }

    /// Counts a key whose reconciliation has failed, until the returned value is dropped.
    pub fn failing(&self, controller: &'static str) -> Raised {
        Raised::in_gauge(self.failing.get_or_create_owned(&Of { controller }))
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
        metrics(&mut self.registry.lock())
    }

    /// Returns all metrics as text (`OpenMetrics` 1.0).
    pub fn encoded(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry.lock());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_can_be_scraped() {
        let metrics = Metrics::new();
        metrics.leads("pillion-controller", true);
        metrics.ready(true);
        metrics.settings_current(false);
        metrics.request("watch");
        metrics.reconciled("merged", "ok", Duration::from_millis(3));
        let text = metrics.encoded();
        for line in [
            "pillion_controller_leader{lease=\"pillion-controller\"} 1",
            "pillion_controller_ready 1",
            "pillion_controller_settings_current 0",
            "pillion_controller_api_requests_total{verb=\"watch\"} 1",
            "pillion_controller_reconciliations_total{controller=\"merged\",result=\"ok\"} 1",
            "pillion_controller_reconciliation_seconds_count{controller=\"merged\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in:\n{text}");
        }
    }

    #[test]
    fn a_failure_counts_until_it_is_over() {
        let metrics = Metrics::new();
        let count = |expected: &str| {
            let line = format!("pillion_controller_failing{{controller=\"test\"}} {expected}\n");
            assert!(metrics.encoded().contains(&line), "{line} is not in:\n{}", metrics.encoded());
        };
        let (first, second) = (metrics.failing("test"), metrics.failing("test"));
        count("2");
        drop(first);
        count("1");
        drop(second);
        count("0");
    }
}
