//! The cluster's API server goes away and comes back, while each review needs a look-up of the Pod's namespace.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body as ServedBody;
use http::Request;
use kube::client::Body;
use pillion_kubernetes::time::Timestamp;
use pillion_simulation::Simulation;
use serde_json::json;
use tokio::time::sleep;

use super::review;
use super::{Context, Outcome};
use crate::server::{Server, Start};
use crate::stand_in::StandIn;

/// Starts an API server with one namespace at an address; port 0 is any that is free.
pub(super) fn with_a_namespace(address: SocketAddr) -> anyhow::Result<StandIn> {
    let simulation = Simulation::serving(|| Timestamp(0));
    let metadata = json!({"name": "default", "labels": {"team": "a"}});
    simulation.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}));
    let answer = move |request: Request<ServedBody>| {
        let simulation = simulation.clone();
        // The server only reads, so its requests have no bodies.
        async move { simulation.answer(request.map(|_| Body::empty())).await.map(ServedBody::new) }
    };
    StandIn::start(address, Router::new().fallback(answer))
}

/// Returns how to start a server that looks namespaces up there.
pub(super) fn start<'a>(context: &Context<'a>, api_server: &StandIn) -> anyhow::Result<Start<'a>> {
    let mut start = context.start();
    start.environment.insert("KUBECONFIG", api_server.kubeconfig(context.folder, "stand-in")?);
    let staleness = format!("{}s", staleness(context).as_secs());
    let args = ["--cluster", "live", "--cache-watch", "v1/Namespace", "--cache-max-staleness", &staleness];
    start.args = args.map(str::to_owned).into();
    start.settings = review::settings_with_look_up();
    Ok(start)
}

fn staleness(context: &Context<'_>) -> Duration {
    context.seconds(30).max(Duration::from_secs(3))
}

pub(super) async fn run(context: &Context<'_>, api_server: StandIn, server: &Server) -> anyhow::Result<Outcome> {
    let address = api_server.address();
    drop(api_server);
    let gone = 2 * staleness(context);
    let started = Instant::now();
    let mut cached = None;
    let caller = std::sync::Arc::new(super::caller::Caller::new(vec![server.target().clone()]));
    let (mut slowest, mut problems) = (Duration::ZERO, Vec::new());
    while started.elapsed() < gone {
        let weight = review::Weight::Light;
        let (_, verdict, took) = super::trickle::ask(std::sync::Arc::clone(&caller), "gone".to_owned(), weight).await;
        slowest = slowest.max(took);
        match verdict {
            Ok(review::Verdict::Right) if cached.is_some() => problems.push("an answer from nowhere".to_owned()),
            Ok(review::Verdict::Right) => {}
            Ok(review::Verdict::Busy) => cached = cached.or(Some(started.elapsed())),
            other => problems.push(format!("{other:?}")),
        }
        sleep(Duration::from_millis(50)).await;
    }
    let cached = cached.unwrap_or_default();
    if cached.is_zero() || cached > staleness(context) + Duration::from_secs(1) {
        problems.push(format!("answers from the cache for {cached:?}"));
    }
    context.keep(with_a_namespace(address)?);
    Ok(Outcome {
        asked: format!(
            "the API server refuses connections for {} s; every review needs its namespace, answers may be {} s old",
            gone.as_secs(),
            staleness(context).as_secs()
        ),
        back: format!(
            "right answers from the cache for {:.0} s; then 503, which names the look-up, the slowest after {} ms",
            cached.as_secs_f64(),
            slowest.as_millis()
        ),
        problems,
    })
}
