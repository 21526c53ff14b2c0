//! Bodies that are long, too long, or cut off.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use pillion_kubernetes::paths;
use pillion_server::client::TlsServer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::raw;
use super::review::{self, Verdict, Weight};
use super::{Context, Outcome};
use crate::server::Server;

/// The longest body that the server takes.
const LIMIT: usize = 3 * 1024 * 1024;

pub(super) async fn run(context: &Context<'_>, server: &Server) -> anyhow::Result<Outcome> {
    let (long, longer, cut) = (context.times(200), context.times(200), context.times(1_000));
    let one_by_one = padded(server, long / 4, LIMIT - 4_096, 1).await?;
    let at_once = padded(server, long, LIMIT - 4_096, long).await?;
    let too_long = padded(server, longer, LIMIT, 8).await?;
    let mut clients = JoinSet::new();
    for _ in 0..cut {
        let target = server.target().clone();
        clients.spawn(async move { cut_off(&target).await });
        while clients.len() > 50 {
            let _ = clients.join_next().await.context("a client")??;
        }
    }
    while let Some(done) = clients.join_next().await {
        done??;
    }
    let unread = server.metric("pillion_http_rejections_total", "unread").await?;
    let mut problems = Vec::new();
    let mut expect = |holds: bool, what: &str, counts: &BTreeMap<String, usize>| {
        if !holds {
            problems.push(format!("{what}: {counts:?}"));
        }
    };
    let count = |counts: &BTreeMap<String, usize>, key: &str| counts.get(key).copied().unwrap_or_default();
    expect(count(&one_by_one, RIGHT) == long / 4, "3 MiB, one by one", &one_by_one);
    expect(count(&at_once, RIGHT) + count(&at_once, "503") == long, "3 MiB at once", &at_once);
    expect(count(&too_long, "413") == longer, "more than 3 MiB", &too_long);
    Ok(Outcome {
        asked: format!(
            "{} reviews of 3 MiB one by one, {long} at once, {longer} with more than that, and {cut} that end too early",
            long / 4
        ),
        back: format!(
            "{} and {} answered, {} of those at once got a 503; {} got a 413; of those cut off, {unread} were counted, \
             and none was evaluated",
            count(&one_by_one, RIGHT),
            count(&at_once, RIGHT),
            count(&at_once, "503"),
            count(&too_long, "413")
        ),
        problems,
    })
}

const RIGHT: &str = "right";

/// Sends reviews with this padding, and counts what came back.
async fn padded(
    server: &Server,
    reviews: usize,
    padding: usize,
    at_a_time: usize,
) -> anyhow::Result<BTreeMap<String, usize>> {
    let (mut clients, mut counts) = (JoinSet::new(), BTreeMap::new());
    let mut count = |came: String| *counts.entry(came).or_default() += 1;
    let connections = server.connections(at_a_time.min(4)).await?;
    for connection in connections.iter().cycle().take(reviews) {
        let mut client = connection.share().context("a connection that cannot be shared")?;
        clients.spawn(async move {
            let answer = client.post("/mutate?timeout=30s", review::body("long", Weight::Light, padding)).await;
            match answer.map(|answer| (review::verdict("long", &answer), answer.status)) {
                Ok((Verdict::Right, _)) => RIGHT.to_owned(),
                Ok((Verdict::Busy, _)) => "503".to_owned(),
                Ok((_, status)) => status.to_string(),
                Err(error) => error.to_string(),
            }
        });
        while clients.len() >= at_a_time {
            count(clients.join_next().await.context("a client")??);
        }
    }
    while let Some(came) = clients.join_next().await {
        count(came?);
    }
    Ok(counts)
}

/// Announces a long body, sends a part of it, and goes away.
async fn cut_off(target: &TlsServer) -> anyhow::Result<()> {
    let mut stream = raw::connect(target, "http/1.1").await?;
    let body = review::body("cut", Weight::Light, 0);
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        paths::MUTATE,
        2 * body.len()
    );
    stream.write_all((head + &body).as_bytes()).await?;
    stream.shutdown().await?;
    let mut answer = Vec::new();
    // There may be an answer or not; the connection has to end.
    let _ = timeout(Duration::from_secs(12), stream.read_to_end(&mut answer)).await.context("no end")?;
    anyhow::ensure!(!answer.starts_with(b"HTTP/1.1 200"), "a body that was cut off was evaluated");
    Ok(())
}
