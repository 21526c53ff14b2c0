//! A proxy between a program and the API server, which applies faults to requests.

use std::io;
use std::sync::Arc;

use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use parking_lot::{Mutex, MutexGuard};
use pillion_testenv::Cluster;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::faults::{self, Answer, DELAY, Fault};
use super::program::Program;
use super::record::{Faults, Name, Record};

/// A running proxy. It ends when this is dropped.
pub struct Proxy {
    shared: Arc<Shared>,
    port: u16,
    _task: JoinSet<()>,
}

struct Shared {
    client: Client,
    record: Mutex<Record>,
    /// A write is held up.
    held: Notify,
    /// It may go on.
    resume: Notify,
}

impl Proxy {
    /// Starts a proxy in front of the API server of a cluster. The proxy sends each request as an administrator.
    pub async fn start(cluster: &Cluster) -> Self {
        let mut config = cluster.as_admin().config().await.unwrap();
        // The program decides what is tried again.
        config.default_retry = false;
        config.read_timeout = None;
        let client = Client::try_from(config).unwrap();
        let (held, resume) = (Notify::new(), Notify::new());
        let shared = Arc::new(Shared { client, record: Mutex::default(), held, resume });
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
        Self { shared, port, _task: task }
    }

    /// Returns the port on which the proxy listens, without TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Begins a run in this namespace. Without faults, the requests are only recorded.
    pub fn begin(&self, namespace: &str, faults: Option<(Faults, Arc<Program>)>) {
        *self.record() = Record::new(namespace, faults);
    }

    /// From now on, closes the connection of every request for a Lease.
    pub fn cut_leases(&self) {
        self.record().has_no_leases = true;
    }

    /// Holds up the next write.
    pub fn hold(&self) {
        self.record().holds = true;
    }

    /// Waits until a write is held up.
    pub async fn held(&self) {
        self.shared.held.notified().await;
    }

    /// Lets the write that is held up go on.
    pub fn resume(&self) {
        self.shared.resume.notify_one();
    }

    /// Returns the requests of the run.
    pub fn record(&self) -> MutexGuard<'_, Record> {
        self.shared.record.lock()
    }
}

impl Shared {
    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock()
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Answer>, io::Error> {
        let closed = || io::Error::other("the connection is closed");
        let (name, fault, is_cut, is_held) = {
            let mut record = self.record();
            let name = Name::new(&request, &record.namespace);
            let fault = record.note(&name);
            let is_held = record.holds && name.is_write() && !name.is_lease();
            record.holds &= !is_held;
            let is_cut = record.has_no_leases && name.is_lease();
            (name, fault, is_cut, is_held)
        };
        if is_held {
            self.held.notify_one();
            self.resume.notified().await;
        }
        if is_cut {
            return Err(closed());
        }
        let Some((fault, program)) = fault else { return self.pass_on(request, &name).await };
        match fault {
            Fault::Refused => Err(closed()),
            Fault::Delayed => {
                tokio::time::sleep(DELAY).await;
                self.pass_on(request, &name).await
            }
            Fault::Answered(code) => Ok(faults::refusal(code)),
            Fault::Garbage if name.is_watch() => Ok(faults::with_broken_line(self.pass_on(request, &name).await?)),
            Fault::Garbage => Ok(faults::garbled()),
            Fault::Expired => Ok(faults::expiring(self.pass_on(request, &name).await?)),
            Fault::KilledBefore => {
                program.restart();
                Err(closed())
            }
            Fault::Lost => {
                drop(self.pass_on(request, &name).await);
                Err(closed())
            }
            Fault::KilledAfter => {
                drop(self.pass_on(request, &name).await);
                program.restart();
                Err(closed())
            }
        }
    }

    /// Passes a request on, and returns the answer: that of a watch as it comes, others completely.
    async fn pass_on(&self, request: Request<Incoming>, name: &Name) -> Result<Response<Answer>, io::Error> {
        let (mut parts, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        for hop in [header::HOST, header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
            parts.headers.remove(hop);
        }
        let answer = self.client.send(Request::from_parts(parts, Body::from(body.to_vec()))).await;
        let (parts, body) = answer.map_err(io::Error::other)?.into_parts();
        if name.is_watch() {
            return Ok(Response::from_parts(parts, body.map_err(io::Error::other).boxed_unsync()));
        }
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        if name.is_write() && parts.status.is_success() {
            self.took_effect(name, parts.status, &body);
        }
        Ok(Response::from_parts(parts, faults::whole(body)))
    }

    /// Records a write that took effect.
    fn took_effect(&self, name: &Name, status: StatusCode, body: &[u8]) {
        if name.is_lease() || name.is_event() {
            return;
        }
        let mut record = self.record();
        record.written.push(name.clone());
        let made: Value = serde_json::from_slice(body).unwrap_or_default();
        let is_of_run = made["metadata"]["namespace"] == record.namespace.as_str();
        if is_of_run && status == StatusCode::CREATED && !name.is_token() {
            let made = format!("phase {}: {} {}", record.phase, made["kind"], made["metadata"]["name"]);
            *record.created.entry(made).or_default() += 1;
        }
    }
}
