//! The faults, and the answers that stand for them.

use std::io;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use serde_json::{Value, json};

/// The body of an answer.
pub type Answer = UnsyncBoxBody<Bytes, io::Error>;

/// The fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection is closed, and the API server sees nothing.
    Refused,
    /// The API server performs the request, and its answer is lost.
    Lost,
    /// The request arrives late.
    Delayed,
    /// The API server answers with this code and does nothing.
    Answered(u16),
    /// The answer is not JSON. That of a watch goes on after a line that is not JSON.
    Garbage,
    /// The watch ends with the event that says that its version is too old (410). Only watches have this fault.
    Expired,
    /// The program is killed before the request arrives, and started again.
    KilledBefore,
    /// The API server performs the request, and the program is killed before it sees the answer. It is started again.
    KilledAfter,
}

/// Every fault.
pub const FAULTS: [Fault; 12] = [
    Fault::Refused,
    Fault::Lost,
    Fault::Delayed,
    Fault::Answered(409),
    Fault::Answered(410),
    Fault::Answered(429),
    Fault::Answered(500),
    Fault::Answered(503),
    Fault::Garbage,
    Fault::Expired,
    Fault::KilledBefore,
    Fault::KilledAfter,
];

/// The time by which a request is delayed.
pub const DELAY: Duration = Duration::from_millis(1500);
/// The time for which a program must wait after the answer 429.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How long a watch works before its version is too old.
const WATCHED: Duration = Duration::from_millis(300);
const BROKEN: &str = "{\"type\": \"ADDED\", \"object\": {\n";

impl Fault {
    /// Whether this can happen to such a request.
    pub fn suits(self, is_watch: bool) -> bool {
        is_watch || self != Self::Expired
    }
}

/// Returns the answer with which the API server refuses a request.
pub fn refusal(code: u16) -> Response<Answer> {
    let mut answer = Response::new(whole(status(code).to_string()));
    *answer.status_mut() = StatusCode::from_u16(code).unwrap();
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if code == 429 {
        headers.insert(header::RETRY_AFTER, RETRY_AFTER.as_secs().into());
    }
    answer
}

/// Returns the answer to a list, a read or a write without its JSON.
pub fn garbled() -> Response<Answer> {
    Response::new(whole(BROKEN))
}

/// Puts a line that is not JSON before the events of a watch.
pub fn with_broken_line(watch: Response<Answer>) -> Response<Answer> {
    watch.map(|body| {
        let events = body.into_data_stream();
        streamed(stream::iter([Ok(Bytes::from_static(BROKEN.as_bytes()))]).chain(events))
    })
}

/// Ends a watch with the event that says that its version is too old.
pub fn expiring(watch: Response<Answer>) -> Response<Answer> {
    let last = format!("{}\n", json!({"type": "ERROR", "object": status(410)}));
    watch.map(|body| {
        let events = body.into_data_stream();
        let events = events.take_until(tokio::time::sleep(WATCHED));
        streamed(events.chain(stream::iter([Ok(Bytes::from(last))])))
    })
}

/// Returns a body that is known completely.
pub fn whole(content: impl Into<Bytes>) -> Answer {
    Full::new(content.into()).map_err(|never| match never {}).boxed_unsync()
}

fn streamed(chunks: impl futures_util::Stream<Item = Result<Bytes, io::Error>> + Send + 'static) -> Answer {
    StreamBody::new(chunks.map_ok(Frame::data)).boxed_unsync()
}

/// Returns the Status with which the API server refuses a request.
fn status(code: u16) -> Value {
    let reason = match code {
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let mut status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": "a test says so"
    });
    if code == 429 {
        status["details"] = json!({"retryAfterSeconds": RETRY_AFTER.as_secs()});
    }
    status
}
