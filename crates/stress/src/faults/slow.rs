//! Clients that send slowly, or only half of what they should.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use pillion_kubernetes::paths;
use pillion_server::client::TlsServer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};

use super::raw;
use super::review::{self, Weight};
use super::{Context, Outcome};
use crate::server::Server;

/// How often slow clients send a byte.
const DRIP: Duration = Duration::from_millis(250);
/// More than the time that the server gives a client for its first request.
const LONGEST: Duration = Duration::from_secs(14);

/// Heads that come a byte at a time, and bodies that do.
pub(super) async fn run(context: &Context<'_>, server: &Server) -> anyhow::Result<Outcome> {
    let (heads, bodies) = (context.times(300), context.times(400));
    let mut head_clients = JoinSet::new();
    for number in 0..heads {
        let (target, protocol) = (server.target().clone(), if number % 2 == 0 { "h2" } else { "http/1.1" });
        head_clients.spawn(async move { slow_head(&target, protocol).await });
    }
    let mut body_clients = JoinSet::new();
    let connections = server.connections(4).await?;
    for connection in connections.iter().cycle().take(bodies) {
        let mut client = connection.share().context("a connection that cannot be shared")?;
        body_clients
            .spawn(async move { client.post("/mutate?timeout=10s", slow_body()).await.map(|answer| answer.status) });
    }
    let mut statuses = Vec::new();
    while let Some(status) = body_clients.join_next().await {
        statuses.push(status??);
    }
    let mut closed = 0;
    let mut problems = Vec::new();
    while let Some(ended) = head_clients.join_next().await {
        if ended?? { closed += 1 } else { problems.push("a client with a slow head was not disconnected".to_owned()) }
    }
    let count = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    let (displaced, late) = (count(503), count(408));
    if displaced + late != bodies {
        problems.push(format!("answers to slow bodies: {statuses:?}"));
    }
    Ok(Outcome {
        asked: format!(
            "{heads} connections that send a head, and {bodies} requests that send a body, 4 bytes in a second"
        ),
        back: format!(
            "{closed} connections closed after 10 s; {displaced} bodies gave way with a 503, {late} got a 408"
        ),
        problems,
    })
}

/// Sends a head slowly. Returns whether the server closed the connection.
async fn slow_head(target: &TlsServer, protocol: &str) -> anyhow::Result<bool> {
    let mut stream = raw::connect(target, protocol).await?;
    let mut head = b"POST /mutate HTTP/1.1\r\nhost: localhost\r\nx-padding: ".to_vec();
    if protocol == "h2" {
        stream.write_all(&raw::hello()).await?;
        head = raw::post(1, "/mutate", true);
    }
    let started = Instant::now();
    for byte in head.into_iter().chain(std::iter::repeat(b'x')).take(50) {
        if stream.write_all(&[byte]).await.is_err() || stream.flush().await.is_err() {
            break;
        }
        let mut answer = [0; 1_024];
        match timeout(DRIP, stream.read(&mut answer)).await {
            Ok(Ok(0) | Err(_)) => return Ok(true),
            _ if started.elapsed() > LONGEST => return Ok(false),
            _ => {}
        }
    }
    Ok(timeout(LONGEST, stream.read_to_end(&mut Vec::new())).await.is_ok())
}

/// Returns a body that never ends, a byte at a time.
fn slow_body() -> axum::body::Body {
    let ticks = futures_util::stream::unfold(interval(DRIP), async |mut ticks| {
        ticks.tick().await;
        Some((Ok::<_, Infallible>(" "), ticks))
    });
    axum::body::Body::from_stream(ticks)
}

/// Connections whose client has sent its last byte and waits, and streams that are left open.
pub(super) async fn half_closed(context: &Context<'_>, server: &Server) -> anyhow::Result<Outcome> {
    let (connections, streams) = (context.times(200), context.times(200));
    let mut clients = JoinSet::new();
    for number in 0..connections {
        let target = server.target().clone();
        clients.spawn(async move { half_closed_connection(&target, number).await });
    }
    let (mut answered, mut closed) = (0, 0);
    while let Some(is_answered) = clients.join_next().await {
        if is_answered?? { answered += 1 } else { closed += 1 }
    }
    let mut stream = raw::connect(server.target(), "h2").await?;
    stream.write_all(&raw::hello()).await?;
    for number in 0..u32::try_from(streams)? {
        stream.write_all(&raw::post(2 * number + 1, "/mutate?timeout=3s", false)).await?;
    }
    // TLS may keep what it was given last.
    stream.flush().await?;
    let received = raw::read_frames(&mut stream, Duration::from_secs(5)).await;
    drop(stream);
    sleep(Duration::from_millis(200)).await;
    let waiting = server.metric("pillion_evaluations_waiting", "").await?;
    let mut problems = Vec::new();
    if received.answers != u64::try_from(streams)? || waiting > 10 {
        problems.push(format!("{} answers to {streams} open streams; {waiting} still wait", received.answers));
    }
    Ok(Outcome {
        asked: format!(
            "{connections} HTTP/1.1 connections that a client half closes after its request; {streams} HTTP/2 streams that \
             stay open without a body"
        ),
        back: format!(
            "{answered} connections with an answer, {closed} closed without; {} streams ended with an error in time",
            received.answers
        ),
        problems,
    })
}

/// Sends a whole request, says that nothing follows, and returns whether there was an answer.
async fn half_closed_connection(target: &TlsServer, number: usize) -> anyhow::Result<bool> {
    let mut stream = raw::connect(target, "http/1.1").await?;
    let body = review::body(&format!("half-{number}"), Weight::Light, 0);
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        paths::MUTATE,
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await?;
    stream.shutdown().await?;
    let mut answer = Vec::new();
    // A connection that is closed without an answer may end with an error.
    let _ = timeout(LONGEST, stream.read_to_end(&mut answer)).await.context("neither an answer nor an end")?;
    Ok(answer.starts_with(b"HTTP/1.1 200"))
}
