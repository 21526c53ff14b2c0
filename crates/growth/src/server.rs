//! The API server in memory, over HTTP.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::Body as ServedBody;
use axum::extract::State;
use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use pillion_kubernetes::time::Timestamp;
use pillion_simulation::{AnswerBody, Simulation};
use pillion_stress::stand_in::StandIn;
use serde_json::Value;

use crate::counts::{Counts, name};

/// The most bytes of a request.
const LONGEST: usize = 64 << 20;

/// A cluster in memory that is served over HTTP. It ends when this is dropped.
pub struct Server {
    shared: Shared,
    stand_in: StandIn,
}

#[derive(Clone)]
struct Shared {
    simulation: Simulation,
    counts: Arc<Counts>,
}

impl Server {
    /// Starts an empty cluster.
    ///
    /// # Errors
    /// No port can be opened.
    pub fn start() -> anyhow::Result<Self> {
        let shared = Shared { simulation: Simulation::serving(now), counts: Arc::default() };
        let router = Router::new().fallback(answer).with_state(shared.clone());
        Ok(Self { shared, stand_in: StandIn::start(([127, 0, 0, 1], 0).into(), router)? })
    }

    /// Adds an object that has always been there.
    pub fn put(&self, object: Value) {
        self.shared.simulation.put(object);
    }

    /// Returns a client that is not counted and needs no HTTP.
    pub fn client(&self) -> Client {
        self.shared.simulation.client()
    }

    /// Returns the counts of all requests with the token of [`Server::kubeconfig`].
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.shared.counts)
    }

    /// Writes a kubeconfig, and returns its path. Requests of a client with this token are counted if it is [`COUNTED`].
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn kubeconfig(&self, folder: &Path, token: &str) -> anyhow::Result<PathBuf> {
        self.stand_in.kubeconfig(folder, token)
    }
}

/// The token of the client whose requests are counted.
pub const COUNTED: &str = "controllers";

fn now() -> Timestamp {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(now.as_secs()).unwrap_or_default())
}

async fn answer(State(shared): State<Shared>, request: Request<ServedBody>) -> Response<ServedBody> {
    let Shared { simulation, counts } = shared;
    let (parts, body) = request.into_parts();
    let token = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let counted =
        (token == Some(COUNTED)).then(|| name(&parts.method, parts.uri.path(), parts.uri.query().unwrap_or_default()));
    if let Some(counted) = &counted {
        counts.request(counted);
    }
    let Ok(body) = axum::body::to_bytes(body, LONGEST).await else {
        let mut refused = Response::new(ServedBody::empty());
        *refused.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
        return refused;
    };
    let answer = simulation.answer(Request::from_parts(parts, Body::from(body))).await;
    answer.map(|body| counting(body, counts, counted))
}

/// Counts the bytes of a body as they are sent.
fn counting(body: AnswerBody, counts: Arc<Counts>, counted: Option<String>) -> ServedBody {
    let Some(counted) = counted else { return ServedBody::new(body) };
    ServedBody::new(body.map_frame(move |frame| {
        counts.answered(&counted, frame.data_ref().map_or(0, axum::body::Bytes::len));
        frame
    }))
}
