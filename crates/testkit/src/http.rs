//! An HTTP server on a loopback address, for stand-ins of an API server that a program or a client reaches over HTTP.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures_util::{StreamExt as _, stream};
use hyper::{Request, Response};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::time::sleep;

/// The date in all answers.
const DATE: &str = "Fri, 02 Jan 2026 03:04:05 GMT";
/// The time before each event of a watch.
const PAUSE: Duration = Duration::from_millis(50);

/// An answer of the server.
pub struct Answer {
    status: u16,
    delay: Duration,
    body: Body,
}

impl Answer {
    /// Answers with a text of any kind.
    pub fn text(status: u16, text: impl Into<Body>) -> Self {
        Self { status, delay: Duration::ZERO, body: text.into() }
    }

    /// Answers a watch with these events, one after the other; then it ends.
    pub fn watch(events: Vec<Value>) -> Self {
        let lines = stream::iter(events).then(async |event| {
            sleep(PAUSE).await;
            Ok::<_, std::io::Error>(format!("{event}\n"))
        });
        Self::text(200, Body::from_stream(lines))
    }

    /// Answers after this time.
    #[must_use]
    pub fn late(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }
}

impl From<(u16, Value)> for Answer {
    /// Answers with this status and JSON.
    fn from((status, body): (u16, Value)) -> Self {
        Self::text(status, body.to_string())
    }
}

/// Starts a server, which ends with the test program. `answer` gets a request as `PATCH /path?query`, and its body.
/// Returns the host and the port.
pub fn start<A: Into<Answer>>(answer: impl Fn(&str, &[u8]) -> A + Send + Sync + 'static) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = Arc::new(answer);
    let handler = move |request: Request<Body>| {
        let answer = Arc::clone(&answer);
        async move {
            let (head, body) = request.into_parts();
            let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            let Answer { status, delay, body } = answer(&format!("{} {}", head.method, head.uri), &body).into();
            sleep(delay).await;
            let built = Response::builder().status(status).header("date", DATE);
            built.header("content-type", "application/json").body(body).unwrap()
        }
    };
    std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            axum::serve(listener, Router::new().fallback(handler)).await.unwrap();
        });
    });
    address
}
