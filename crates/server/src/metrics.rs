//! The metrics of the server. Every label has a closed set of values, so clients cannot add any.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::labels::{Refusal, Request};

/// A gauge in seconds.
pub type Seconds = Gauge<f64, AtomicU64>;

/// The content type of [`Metrics::text`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// From a quarter of a millisecond, the duration of an admission without SidecarSets, to the API server's longest
/// timeout.
const BUCKETS: [f64; 16] =
    [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Path {
    path: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
}

/// The kind of object that a cache gauge covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Kind {
    /// `Namespace`, `ServiceAccount`, ...
    pub kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LookUp {
    kind: String,
    answer: &'static str,
}

/// Why a request got an HTTP error before any evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// 503: the queue is full.
    Overloaded,
    /// 503: the body arrived slowly while other requests came.
    Displaced,
    /// 503: the API server's timeout has passed.
    Late,
    /// 413.
    TooLarge,
    /// 400 or 408: the body did not arrive.
    Unread,
    /// 400, 415: not a review.
    Malformed,
    /// 404, 405.
    NoSuchPath,
}

impl Rejection {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Overloaded => "overloaded",
            Self::Displaced => "displaced",
            Self::Late => "late",
            Self::TooLarge => "too_large",
            Self::Unread => "unread",
            Self::Malformed => "malformed",
            Self::NoSuchPath => "no_such_path",
        }
    }
}

/// Why a connection was closed without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The maximum number of connections is open.
    TooMany,
    /// The maximum number of connections was open, and this one had made no request for the longest time.
    Displaced,
    /// The TLS handshake failed or took too long.
    Handshake,
    /// No request arrived in time.
    Silent,
}

impl Refused {
    const fn name(self) -> &'static str {
        match self {
            Self::TooMany => "too_many",
            Self::Displaced => "displaced",
            Self::Handshake => "handshake",
            Self::Silent => "silent",
        }
    }
}

type BeforeScrape = Box<dyn Fn(&Metrics) + Send + Sync>;

/// The metrics of a server. Create them before it, so that its inputs (settings, cache, certificates) can count as
/// well.
pub struct Metrics {
    registry: Mutex<Registry>,
    before_scrape: Mutex<Vec<BeforeScrape>>,
    requests: Family<Request, Counter>,
    refusals: Family<Refusal, Counter>,
    rejections: Family<Reason, Counter>,
    duration: Family<Path, Histogram, fn() -> Histogram>,
    evaluation: Histogram,
    injected: Counter,
    conversions: Family<Outcome, Counter>,
    pub(crate) running: Gauge,
    pub(crate) waiting: Gauge,
    pub(crate) connections: Gauge,
    lost_connections: Family<Reason, Counter>,
    reloads: Family<Outcome, Counter>,
    has_newest_settings: Gauge,
    settings_loaded: Seconds,
    certificate_expiry: Seconds,
    cache_age: Family<Kind, Seconds>,
    cache_objects: Family<Kind, Gauge>,
    cache_look_ups: Family<LookUp, Counter>,
    memory: Gauge,
    peak_memory: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Creates metrics with nothing counted.
    pub fn new() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let metrics = Self {
            registry: Mutex::default(),
            before_scrape: Mutex::default(),
            requests: Family::default(),
            refusals: Family::default(),
            rejections: Family::default(),
            duration: Family::new_with_constructor(histogram),
            evaluation: histogram(),
            injected: Counter::default(),
            conversions: Family::default(),
            running: Gauge::default(),
            waiting: Gauge::default(),
            connections: Gauge::default(),
            lost_connections: Family::default(),
            reloads: Family::default(),
            has_newest_settings: Gauge::default(),
            settings_loaded: Seconds::default(),
            certificate_expiry: Seconds::default(),
            cache_age: Family::default(),
            cache_objects: Family::default(),
            cache_look_ups: Family::default(),
            memory: Gauge::default(),
            peak_memory: Gauge::default(),
        };
        metrics.register(|registry| metrics.enter(registry));
        metrics.has_newest_settings.set(1);
        for result in ["loaded", "rejected"] {
            // Alerts on an increase need the series to exist from the start.
            let _ = metrics.reloads.get_or_create(&Outcome { result });
        }
        metrics
    }

    fn enter(&self, registry: &mut Registry) {
        registry.register(
            "pillion_build",
            "The version of pillion",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        registry.register("pillion_admission_requests", "Admission requests that were answered", self.requests.clone());
        registry.register("pillion_admission_refusals", "Admission requests that were refused", self.refusals.clone());
        registry.register(
            "pillion_admission_duration_seconds",
            "From the request to the answer, waiting included",
            self.duration.clone(),
        );
        registry.register(
            "pillion_evaluation_duration_seconds",
            "Evaluations of the policy, look-ups included",
            self.evaluation.clone(),
        );
        registry.register("pillion_evaluations_running", "Evaluations that have begun", self.running.clone());
        registry.register("pillion_evaluations_waiting", "Requests that wait for an evaluation", self.waiting.clone());
        registry.register("pillion_injected_containers", "Containers that were added to Pods", self.injected.clone());
        registry.register("pillion_conversions", "ConversionReviews that were answered", self.conversions.clone());
        registry.register(
            "pillion_http_rejections",
            "Requests that were answered with an HTTP error",
            self.rejections.clone(),
        );
        registry.register("pillion_connections", "Connections that are open", self.connections.clone());
        registry.register(
            "pillion_connections_refused",
            "Connections that came to nothing",
            self.lost_connections.clone(),
        );
        registry.register("pillion_settings_reloads", "Changes of the settings' file", self.reloads.clone());
        registry.register(
            "pillion_settings_current",
            "1 while the settings in use are those of the file, 0 while the file is not valid",
            self.has_newest_settings.clone(),
        );
        registry.register(
            "pillion_settings_loaded_timestamp_seconds",
            "When the settings in use were loaded",
            self.settings_loaded.clone(),
        );
        registry.register(
            "pillion_certificate_expiry_timestamp_seconds",
            "When the certificate in use expires",
            self.certificate_expiry.clone(),
        );
        registry.register(
            "pillion_cache_age_seconds",
            "How old the copy of the cluster's objects may be",
            self.cache_age.clone(),
        );
        registry.register("pillion_cache_objects", "Objects that are kept", self.cache_objects.clone());
        registry.register(
            "pillion_cache_lookups",
            "Look-ups of kinds that are watched, by what answered them",
            self.cache_look_ups.clone(),
        );
        registry.register("process_resident_memory_bytes", "Resident memory", self.memory.clone());
        registry.register("pillion_peak_resident_memory_bytes", "The most there was of it", self.peak_memory.clone());
    }

    /// Adds metrics of other parts of the program.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.registry.lock());
    }

    /// Calls `update` before each output of the metrics, for values that are measured rather than counted.
    pub fn before_scrape(&self, update: impl Fn(&Self) + Send + Sync + 'static) {
        self.before_scrape.lock().push(Box::new(update));
    }

    /// Sets the maximum age of the cached objects of this kind.
    pub fn cache_age(&self, kind: &str, age: Duration) {
        self.cache_age.get_or_create(&Kind { kind: kind.to_owned() }).set(age.as_secs_f64());
    }

    /// Sets the number of cached objects of this kind.
    pub fn cache_objects(&self, kind: &str, objects: usize) {
        let objects = i64::try_from(objects).unwrap_or(i64::MAX);
        self.cache_objects.get_or_create(&Kind { kind: kind.to_owned() }).set(objects);
    }

    /// Sets the number of look-ups of this kind that the cache and the API server have answered so far.
    pub fn cache_look_ups(&self, kind: &str, answered: u64, passed_on: u64) {
        for (answer, count) in [("cache", answered), ("live", passed_on)] {
            let counter = self.cache_look_ups.get_or_create_owned(&LookUp { kind: kind.to_owned(), answer });
            counter.inner().store(count, Ordering::Relaxed);
        }
    }

    /// Sets when the current settings were loaded.
    pub(crate) fn settings_in_use(&self, loaded: SystemTime) {
        self.settings_loaded.set(timestamp(loaded));
    }

    /// Counts a change of the settings file and whether the new settings are in use.
    pub fn settings_reloaded(&self, is_loaded: bool) {
        let result = if is_loaded { "loaded" } else { "rejected" };
        self.reloads.get_or_create(&Outcome { result }).inc();
        self.has_newest_settings.set(i64::from(is_loaded));
    }

    pub(crate) fn certificate_in_use(&self, expires: SystemTime) {
        self.certificate_expiry.set(timestamp(expires));
    }

    pub(crate) fn answered(&self, request: &Request, refusal: Option<&Refusal>, injected: u64, took: Duration) {
        self.duration.get_or_create(&Path { path: request.path }).observe(took.as_secs_f64());
        self.requests.get_or_create(request).inc();
        if let Some(refusal) = refusal {
            self.refusals.get_or_create(refusal).inc();
        }
        self.injected.inc_by(injected);
    }

    pub(crate) fn evaluated(&self, took: Duration) {
        self.evaluation.observe(took.as_secs_f64());
    }

    pub(crate) fn converted(&self, is_done: bool) {
        let result = if is_done { "success" } else { "failure" };
        self.conversions.get_or_create(&Outcome { result }).inc();
    }

    pub(crate) fn rejected(&self, rejection: Rejection) {
        self.rejections.get_or_create(&Reason { reason: rejection.name() }).inc();
    }

    pub(crate) fn lost(&self, refused: Refused) {
        self.lost_connections.get_or_create(&Reason { reason: refused.name() }).inc();
    }

    /// Returns all metrics in the text format of Prometheus (`OpenMetrics` 1.0).
    pub fn text(&self) -> String {
        for update in self.before_scrape.lock().iter() {
            update(self);
        }
        if let Some((now, peak)) = memory() {
            self.memory.set(now);
            self.peak_memory.set(peak);
        }
        let mut text = String::new();
        let registry = self.registry.lock();
        match text::encode(&mut text, &registry) {
            Ok(()) => text,
            // Writing to a String cannot fail.
            Err(fmt::Error) => String::new(),
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// A shared handle for every part that counts.
pub(crate) type Shared = Arc<Metrics>;

fn timestamp(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map(|time| time.as_secs_f64()).unwrap_or_default()
}

/// Returns the resident memory of this process in bytes, current and peak; `None` without `/proc`.
fn memory() -> Option<(i64, i64)> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes = |key: &str| -> Option<i64> {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    Some((kilobytes("VmRSS:")? * 1024, kilobytes("VmHWM:")? * 1024))
}
