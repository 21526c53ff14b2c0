//! Metrics of tokens for isolated sidecars.

use pillion_kubernetes::time::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit;

use crate::metrics::{Kind, Metrics};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    result: &'static str,
}

/// The metrics. Clones share their values.
#[derive(Clone)]
pub(crate) struct TokenMetrics {
    kept: Family<Kind, Gauge>,
    expiry: Gauge,
    requests: Family<Answered, Counter>,
}

impl TokenMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let (expiry, requests) = (Gauge::default(), Family::default());
        metrics.register(|registry| {
            let help = "When the first token expires, in seconds since 1970";
            registry.register_with_unit("token_first_expiry", help, Unit::Seconds, expiry.clone());
            let help = "Requests for tokens; result is ok or error";
            registry.register("token_requests", help, Family::clone(&requests));
        });
        Self { kept: metrics.kept(), expiry, requests }
    }

    /// Counts a request for a token.
    pub(crate) fn requested(&self, is_granted: bool) {
        let result = if is_granted { "ok" } else { "error" };
        self.requests.get_or_create(&Answered { result }).inc();
    }

    /// Records the number of Secrets, and when the first of their tokens expires.
    pub(crate) fn measured(&self, count: usize, first: Option<Timestamp>) {
        self.kept.get_or_create(&Kind { kind: "Secret" }).set(i64::try_from(count).unwrap_or(i64::MAX));
        self.expiry.set(first.map_or(0, |first| first.0));
    }
}
