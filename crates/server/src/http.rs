//! HTTP: routes, and answers to requests that are not reviews.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use pillion_host::paths;
use tokio::sync::Semaphore;
use tokio::time::{Instant as TokioInstant, timeout_at};

use crate::bodies::{self, Bodies, Complete, NotReceived};
use crate::evaluate::{Judge, Situation};
use crate::gate::{Gate, Turn};
use crate::health::Readiness;
use crate::metrics::{self, Rejection, Shared};
use crate::{Endpoint, Limits, convert, deadline};

/// State that the handlers share.
pub(crate) struct App {
    pub(crate) judge: Arc<Judge>,
    pub(crate) gate: Gate,
    pub(crate) bodies: Bodies,
    pub(crate) metrics: Shared,
    pub(crate) readiness: Readiness,
    pub(crate) limits: Limits,
    /// The evaluations that may occupy a thread of the event loop: one less than there are threads.
    pub(crate) here: Semaphore,
}

/// An HTTP error instead of a review. The API server treats it as a failed webhook call and applies the
/// `failurePolicy`.
struct Rejected {
    status: StatusCode,
    why: Rejection,
    text: String,
}

impl Rejected {
    fn new(status: StatusCode, why: Rejection, text: impl Into<String>) -> Self {
        Self { status, why, text: text.into() }
    }

    fn malformed(error: &impl ToString) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Rejection::Malformed, error.to_string())
    }

    fn late() -> Self {
        let text = "the request was not answered in the time that the API server gives it";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, Rejection::Late, text)
    }

    fn not_received(problem: NotReceived, limit: usize) -> Self {
        match problem {
            NotReceived::TooLarge => {
                let text = format!("the body has more than {limit} bytes");
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, Rejection::TooLarge, text)
            }
            NotReceived::Incomplete => {
                let text = "the body of the request did not come whole";
                Self::new(StatusCode::BAD_REQUEST, Rejection::Unread, text)
            }
            NotReceived::NoRoom => {
                let text = "too many requests at once; try again";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, Rejection::Overloaded, text)
            }
            NotReceived::Displaced => {
                let text = "too many requests at once, and the body of this one came slowly; try again";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, Rejection::Displaced, text)
            }
        }
    }

    fn answer(self, app: &App) -> Response {
        app.metrics.rejected(self.why);
        // The log omits the text, which may quote the request. Most rejections are logged at debug level only, so a
        // flood does not fill the log; the metrics count them.
        let status = self.status.as_u16();
        if self.why == Rejection::Late {
            tracing::warn!(status, reason = self.why.name(), "rejected");
        } else {
            tracing::debug!(status, reason = self.why.name(), "rejected");
        }
        let mut response = (self.status, self.text + "\n").into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// All routes, for the port that the API server calls.
pub(crate) fn router(app: Arc<App>) -> Router {
    let reviews = Endpoint::ALL
        .into_iter()
        .fold(Router::new(), |router, endpoint| router.route(endpoint.path(), post(admit).layer(Extension(endpoint))));
    finished(reviews.route(paths::CONVERT, post(converted)).merge(probes()), app)
}

/// The routes for probes and Prometheus, for a port without TLS.
pub(crate) fn plain_router(app: Arc<App>) -> Router {
    finished(probes(), app)
}

fn finished(router: Router<Arc<App>>, app: Arc<App>) -> Router {
    router.fallback(nowhere).method_not_allowed_fallback(wrong_method).with_state(app)
}

fn probes() -> Router<Arc<App>> {
    Router::new()
        .route(paths::HEALTHZ, get(async || "ok\n"))
        .route(paths::READYZ, get(ready))
        .route(paths::METRICS, get(measured))
}

async fn ready(State(app): State<Arc<App>>) -> Response {
    let (is_ready, text) = app.readiness.report();
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, text).into_response()
}

async fn measured(State(app): State<Arc<App>>) -> Response {
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    app.metrics.running.set(number(app.gate.running()));
    app.metrics.waiting.set(number(app.gate.waiting()));
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], app.metrics.text()).into_response()
}

async fn nowhere(State(app): State<Arc<App>>) -> Response {
    Rejected::new(StatusCode::NOT_FOUND, Rejection::NoSuchPath, "no such path").answer(&app)
}

async fn wrong_method(State(app): State<Arc<App>>) -> Response {
    let text = "the method must be POST for reviews, and GET for everything else";
    Rejected::new(StatusCode::METHOD_NOT_ALLOWED, Rejection::NoSuchPath, text).answer(&app)
}

async fn admit(State(app): State<Arc<App>>, Extension(endpoint): Extension<Endpoint>, request: Request) -> Response {
    let arrived = Instant::now();
    let answered = async {
        let (body, turn, until) = app.let_in(request, arrived, app.limits.body).await?;
        let judge = Arc::clone(&app.judge);
        let situation = Situation { endpoint, core: turn.core(), arrived, until };
        if let Some(review) = app.judge_here(&body, &situation)? {
            return Ok(review);
        }
        compute(turn, until, move || judge.judge(&body, &situation).map_err(|error| Rejected::malformed(&error))).await
    };
    match answered.await {
        Ok(review) => json(review),
        Err(rejected) => rejected.answer(&app),
    }
}

async fn converted(State(app): State<Arc<App>>, request: Request) -> Response {
    let answered = async {
        let (body, turn, until) = app.let_in(request, Instant::now(), app.limits.conversion_body).await?;
        compute(turn, until, move || convert::answer(&body).map_err(|error| Rejected::malformed(&error))).await
    };
    match answered.await {
        Ok((review, is_done)) => {
            app.metrics.converted(is_done);
            if !is_done {
                tracing::warn!("a conversion failed; the API server has the reason");
            }
            json(review)
        }
        Err(rejected) => rejected.answer(&app),
    }
}

/// Runs CPU work on a thread for blocking work, and waits for the result at most until the deadline.
async fn compute<T: Send + 'static>(
    turn: Turn,
    until: Instant,
    work: impl FnOnce() -> Result<T, Rejected> + Send + 'static,
) -> Result<T, Rejected> {
    let working = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        work()
    });
    match timeout_at(TokioInstant::from_std(until), working).await {
        Ok(Ok(done)) => done,
        Ok(Err(error)) => {
            tracing::error!(%error, "a request could not be worked on");
            let text = "the request could not be worked on; the log of pillion says why";
            Err(Rejected::new(StatusCode::SERVICE_UNAVAILABLE, Rejection::Late, text))
        }
        Err(_) => Err(Rejected::late()),
    }
}

/// The longest body, in bytes, whose request is evaluated on the thread of its connection.
const SHORT: usize = 256 * 1024;

impl App {
    /// Evaluates a request on this thread, since another one takes longer to wake up than most evaluations take. Returns
    /// `None` if the body is long, if the evaluation would have to wait for the cluster, or if no other thread would be
    /// left for connections.
    fn judge_here(&self, body: &[u8], situation: &Situation) -> Result<Option<Vec<u8>>, Rejected> {
        let Some(_here) = (body.len() <= SHORT).then(|| self.here.try_acquire().ok()).flatten() else {
            return Ok(None);
        };
        let review = self.judge.judge_at_once(body, situation).map_err(|error| Rejected::malformed(&error))?;
        if review.is_some() && Instant::now() >= situation.until { Err(Rejected::late()) } else { Ok(review) }
    }

    /// Waits for the body and for its turn. Also returns the deadline for the answer.
    async fn let_in(
        &self,
        request: Request,
        arrived: Instant,
        limit: usize,
    ) -> Result<(Complete, Turn, Instant), Rejected> {
        let until = deadline::parse(request.uri().query(), arrived).map_err(|error| Rejected::malformed(&error))?;
        if !is_json(&request) {
            let text = "the content type must be application/json";
            return Err(Rejected::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Rejection::Malformed, text));
        }
        let late = TokioInstant::from_std(until);
        let mut body = request.into_body();
        let received = timeout_at(late, self.bodies.receive(&self.gate, &mut body, limit)).await;
        if let Ok(Err(NotReceived::NoRoom | NotReceived::Displaced)) = received {
            bodies::discard(body);
        }
        let (body, place) = received
            .map_err(|_| {
                let text = "the body of the request did not come in time";
                Rejected::new(StatusCode::REQUEST_TIMEOUT, Rejection::Unread, text)
            })?
            .map_err(|problem| Rejected::not_received(problem, limit))?;
        let turn = timeout_at(late, place.turn()).await.map_err(|_| Rejected::late())?;
        Ok((body, turn, until))
    }
}

fn is_json(request: &Request) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

fn json(body: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}
