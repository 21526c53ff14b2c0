//! A proxy between a program and the API server that applies a fault to each request once.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::program::Program;

/// The fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection is closed, and the API server sees nothing.
    Refused,
    /// The API server performs the request, and its answer is lost.
    Lost,
    /// The request arrives late.
    Delayed,
    /// The API server answers with this code and does nothing. A watch ends with an error event if the code is 410.
    Answered(u16),
    /// The answer is no JSON.
    Garbage,
    /// The program is killed before the request arrives, and started again.
    KilledBefore,
    /// The API server performs the request, and the program is killed before it sees the answer. It is started again.
    KilledAfter,
}

/// The time by which a request is delayed.
const DELAY: Duration = Duration::from_millis(1500);

/// A running proxy. It ends when this is dropped.
pub struct Proxy {
    shared: Arc<Shared>,
    _task: JoinSet<()>,
}

struct Shared {
    client: Client,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The namespace of the current run.
    namespace: String,
    /// The fault of the current run, and the program to kill.
    fault: Option<(Fault, Arc<Program>)>,
    /// The requests of the run, without names that differ between runs.
    seen: BTreeSet<String>,
    /// The requests to which the fault was applied.
    fired: BTreeSet<String>,
    /// How often each object of the namespace was created.
    created: BTreeMap<String, usize>,
    last: Option<Instant>,
    /// Whether every request for a Lease is refused.
    has_no_leases: bool,
}

impl Proxy {
    /// Starts a proxy in front of the API server of this client. Returns it with its port.
    pub async fn start(client: Client) -> (Self, u16) {
        let shared = Arc::new(Shared { client, state: Mutex::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut task = JoinSet::new();
        let serving = Arc::clone(&shared);
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&serving);
                connections.spawn(async move {
                    let service = service_fn(move |request| Arc::clone(&shared).answer(request));
                    // A connection that a fault closes ends with an error.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        (Self { shared, _task: task }, port)
    }

    /// Begins a run in this namespace. Without a fault, the requests are only recorded.
    pub fn begin(&self, namespace: &str, fault: Option<(Fault, Arc<Program>)>) {
        *self.shared.state() = State { namespace: namespace.to_owned(), fault, ..State::default() };
    }

    /// From now on, closes the connection of every request for a Lease.
    pub fn cut_leases(&self) {
        self.shared.state().has_no_leases = true;
    }

    /// Returns the requests of the run.
    pub fn seen(&self) -> BTreeSet<String> {
        self.shared.state().seen.clone()
    }

    /// Returns the requests of the run to which its fault was applied.
    pub fn fired(&self) -> BTreeSet<String> {
        self.shared.state().fired.clone()
    }

    /// Returns how often each object was created.
    pub fn created(&self) -> BTreeMap<String, usize> {
        self.shared.state().created.clone()
    }

    /// Returns how long the program has asked for nothing.
    pub fn quiet(&self) -> Duration {
        self.shared.state().last.map_or(Duration::ZERO, |last| last.elapsed())
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>, io::Error> {
        let closed = || io::Error::other("the connection is closed");
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query.split('&').any(|part| matches!(part, "watch=true" | "watch=1"));
        let (name, fault) = self.noted(&request, is_watch);
        if self.state().has_no_leases && name.contains("/leases") {
            return Err(closed());
        }
        let Some((fault, program)) = fault else { return self.pass_on(request, &name, is_watch).await };
        match fault {
            Fault::Refused => Err(closed()),
            Fault::Delayed => {
                tokio::time::sleep(DELAY).await;
                self.pass_on(request, &name, is_watch).await
            }
            Fault::Answered(410) if is_watch => {
                let error = json!({"type": "ERROR", "object": status(410)});
                Ok(answer(StatusCode::OK, format!("{error}\n")))
            }
            Fault::Answered(code) => {
                let mut answer = answer(StatusCode::from_u16(code).unwrap(), status(code).to_string());
                if code == 429 {
                    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
                }
                Ok(answer)
            }
            Fault::Garbage => Ok(answer(StatusCode::OK, "{\"kind\": \n".to_owned())),
            Fault::KilledBefore => {
                program.restart();
                Err(closed())
            }
            Fault::Lost | Fault::KilledAfter => {
                let answer = self.pass_on(request, &name, is_watch).await;
                if fault == Fault::KilledAfter {
                    program.restart();
                }
                drop(answer);
                Err(closed())
            }
        }
    }

    /// Records a request. Returns its name, and the fault to apply to it.
    fn noted(&self, request: &Request<Incoming>, is_watch: bool) -> (String, Option<(Fault, Arc<Program>)>) {
        let mut state = self.state();
        let path = request.uri().path();
        let own = path.replace(&state.namespace, "NS");
        let name = format!("{} {own}{}", request.method(), if is_watch { " watch" } else { "" });
        // What is done in the namespaces of earlier runs is not part of this one.
        if own == path && path.contains("/namespaces/crash-") {
            return (name, None);
        }
        state.seen.insert(name.clone());
        // A leader renews its Lease all the time.
        if !is_watch && !name.contains("/leases") {
            state.last = Some(Instant::now());
        }
        let fault = state.fault.clone();
        let is_first = fault.is_some() && state.fired.insert(name.clone());
        (name, fault.filter(|_| is_first))
    }

    /// Passes a request on, and returns the answer: that of a watch as it comes, others completely.
    async fn pass_on(
        &self,
        request: Request<Incoming>,
        name: &str,
        is_watch: bool,
    ) -> Result<Response<Body>, io::Error> {
        let (mut parts, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        for hop in [header::HOST, header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
            parts.headers.remove(hop);
        }
        let is_write = parts.method != Method::GET;
        let answer = self.client.send(Request::from_parts(parts, Body::from(body.to_vec()))).await;
        let (parts, body) = answer.map_err(io::Error::other)?.into_parts();
        if is_watch {
            return Ok(Response::from_parts(parts, body));
        }
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let is_object = name.contains("/namespaces/NS/") && !name.contains("/events") && !name.ends_with("/token");
        if is_write && is_object && parts.status == StatusCode::CREATED {
            let made: Value = serde_json::from_slice(&body).unwrap_or_default();
            let made = format!("{} {}", made["kind"], made["metadata"]["name"]);
            *self.state().created.entry(made).or_default() += 1;
        }
        Ok(Response::from_parts(parts, Body::from(body.to_vec())))
    }
}

/// Returns the Status with which the API server refuses a request.
fn status(code: u16) -> Value {
    let reason = match code {
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": "a test says so", "details": {"retryAfterSeconds": u8::from(code == 429)}
    })
}

fn answer(status: StatusCode, body: String) -> Response<Body> {
    let mut answer = Response::new(Body::from(body.into_bytes()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}
