//! Metrics of tokens for isolated sidecars.

use pillion_kubernetes::time::Timestamp;
use pillion_runtime::metrics::{Kind, Metrics};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    result: &'static str,
    kind: &'static str,
}

/// What is known about all Secrets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measured {
    /// Their number.
    pub(crate) count: usize,
    /// The number of those whose tokens were due for renewal some time ago.
    pub(crate) overdue: usize,
    /// When the first of their tokens expires.
    pub(crate) first: Option<Timestamp>,
}

/// The metrics. Clones share their values.
#[derive(Clone)]
pub(crate) struct TokenMetrics {
    kept: Family<Kind, Gauge>,
    expiry: Gauge,
    overdue: Gauge,
    requests: Family<Answered, Counter>,
}

impl TokenMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let (expiry, overdue, requests) = (Gauge::default(), Gauge::default(), Family::default());
        metrics.register(|registry| {
            let help = "When the first token expires, in seconds since 1970";
            registry.register_with_unit("token_first_expiry", help, Unit::Seconds, expiry.clone());
            let help = "Secrets whose tokens should have been renewed a while ago";
            registry.register("token_secrets_overdue", help, overdue.clone());
            let help = "Requests for tokens; result is ok or error; kind is api_server or audience";
            registry.register("token_requests", help, Family::clone(&requests));
        });
        Self { kept: metrics.kept(), expiry, overdue, requests }
    }

    /// Counts a request for a token. Audiences are no label: there is no limit to their number.
    pub(crate) fn requested(&self, has_audience: bool, is_granted: bool) {
        let result = if is_granted { "ok" } else { "error" };
        let kind = if has_audience { "audience" } else { "api_server" };
        self.requests.get_or_create(&Answered { result, kind }).inc();
    }

    /// Records what is known about all Secrets.
    pub(crate) fn measured(&self, Measured { count, overdue, first }: Measured) {
        let number = |count| i64::try_from(count).unwrap_or(i64::MAX);
        self.kept.get_or_create(&Kind { kind: "Secret" }).set(number(count));
        self.overdue.set(number(overdue));
        self.expiry.set(first.map_or(0, |first| first.0));
    }
}
