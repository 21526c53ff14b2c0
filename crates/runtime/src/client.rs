//! The client of the API server, which counts and limits its requests.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use http::{Method, Request, Response};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use tower::limit::RateLimitLayer;
use tower::util::option_layer;
use tower::{Layer, Service};

use crate::metrics::Metrics;

/// The time limit for connecting to the API server.
const CONNECT: Duration = Duration::from_secs(5);
/// How many times a second requests may start, if the limit is not lower.
const SHARES: u32 = 10;

/// The most requests that start within a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimit(NonZeroU32);

impl RequestLimit {
    /// Returns the limit of so many requests a second; `None`, which is no limit, for 0.
    pub fn a_second(requests: u32) -> Option<Self> {
        NonZeroU32::new(requests).map(Self)
    }

    fn layer(self) -> RateLimitLayer {
        let at_once = (self.0.get() / SHARES).max(1);
        RateLimitLayer::new(u64::from(at_once), Duration::from_secs(1) * at_once / self.0.get())
    }
}

/// Returns a client for this configuration, on the current runtime. Watches may be silent for any time; each write has
/// its own deadline.
///
/// # Errors
/// The configuration cannot be used. No request is sent yet.
pub fn client(mut config: Config, metrics: Arc<Metrics>, limit: Option<RequestLimit>) -> Result<Client, kube::Error> {
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = None;
    // Callers decide about retries and their delays.
    config.default_retry = false;
    let builder = ClientBuilder::try_from(config)?.with_layer(&option_layer(limit.map(RequestLimit::layer)));
    Ok(builder.with_layer(&Counting(metrics)).build())
}

/// Counts requests by verb.
#[derive(Clone)]
struct Counting(Arc<Metrics>);

impl<S> Layer<S> for Counting {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Counted { inner, metrics: Arc::clone(&self.0) }
    }
}

#[derive(Clone)]
struct Counted<S> {
    inner: S,
    metrics: Arc<Metrics>,
}

impl<S, B> Service<Request<Body>> for Counted<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut TaskContext<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.metrics.request(verb(request.method(), request.uri().query().unwrap_or_default()));
        self.inner.call(request)
    }
}

/// Returns the RBAC verb of a request, except that `get` and `list`, which look the same here, both count as `read`.
pub(crate) fn verb(method: &Method, query: &str) -> &'static str {
    match method.as_str() {
        "GET" if query.split('&').any(|part| matches!(part, "watch=true" | "watch=1")) => "watch",
        "GET" => "read",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use tower::ServiceExt as _;

    use super::*;

    /// A limit spreads requests over the second, and no limit passes them on.
    #[rstest]
    #[case::no_limit(0, 100, 0)]
    #[case::few(5, 11, 2_000)]
    #[case::some(15, 31, 2_000)]
    #[case::many(400, 401, 1_000)]
    #[tokio::test(start_paused = true)]
    async fn requests_start_within_the_limit(#[case] limit: u32, #[case] requests: u32, #[case] took: u128) {
        let echo = tower::service_fn(async |()| Ok::<(), std::convert::Infallible>(()));
        let mut service = option_layer(RequestLimit::a_second(limit).map(RequestLimit::layer)).layer(echo);
        let started = tokio::time::Instant::now();
        for _ in 0..requests {
            service.ready().await.expect("it is ready").call(()).await.expect("an answer");
        }
        let passed = started.elapsed().as_millis();
        assert!((took..took + 20).contains(&passed), "{passed} ms");
    }

    #[rstest]
    #[case::watch(Method::GET, "limit=5&watch=true", "watch")]
    #[case::list(Method::GET, "limit=500", "read")]
    #[case::apply(Method::PATCH, "fieldManager=a", "patch")]
    #[case::delete(Method::DELETE, "", "delete")]
    fn requests_are_counted_by_verb(#[case] method: Method, #[case] query: &str, #[case] counted: &str) {
        assert_eq!(verb(&method, query), counted);
    }
}
