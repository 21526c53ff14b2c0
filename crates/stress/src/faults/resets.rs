//! Streams that are reset as soon as they are opened, and requests whose clients lose interest.

use std::time::Duration;

use anyhow::Context as _;
use pillion_server::client::TlsServer;
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::raw;
use super::review::{self, Weight};
use super::{Context, Outcome};
use crate::server::Server;

const CONNECTIONS: usize = 20;
/// After this time, a client loses interest.
const INTEREST: Duration = Duration::from_millis(5);

pub(super) async fn run(context: &Context<'_>, server: &Server) -> anyhow::Result<Outcome> {
    let (rapid, abandoned) = (context.times(20_000), context.times(10_000));
    let mut clients = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let target = server.target().clone();
        clients.spawn(async move { reset_rapidly(&target, rapid / CONNECTIONS).await });
    }
    let mut goodbyes = 0;
    while let Some(is_goodbye) = clients.join_next().await {
        goodbyes += usize::from(is_goodbye??);
    }
    let connections = server.connections(CONNECTIONS).await?;
    let (mut lost_interest, mut done) = (0, JoinSet::new());
    for (number, connection) in (0..abandoned).zip(connections.iter().cycle()) {
        let mut client = connection.share().context("a connection that cannot be shared")?;
        done.spawn(async move {
            let body = review::body(&format!("abandoned-{number}"), Weight::Heavy, 0);
            timeout(INTEREST, client.post("/mutate?timeout=10s", body)).await.is_err()
        });
        while done.len() > 400 {
            lost_interest += usize::from(done.join_next().await.context("a client")??);
        }
    }
    while let Some(is_lost) = done.join_next().await {
        lost_interest += usize::from(is_lost?);
    }
    sleep(Duration::from_secs(1)).await;
    let waiting = server.metric("pillion_evaluations_waiting", "").await?;
    let mut problems = Vec::new();
    if goodbyes != CONNECTIONS {
        problems.push(format!("{goodbyes} of {CONNECTIONS} connections were closed"));
    }
    if waiting > 5 {
        problems.push(format!("{waiting} requests wait a second later"));
    }
    Ok(Outcome {
        asked: format!(
            "{rapid} requests that are reset at once, on {CONNECTIONS} connections; {lost_interest} reviews that their \
             clients give up after {} ms",
            INTEREST.as_millis()
        ),
        back: format!(
            "{goodbyes} connections closed by the server after some dozens of resets; {waiting} requests waiting a second later"
        ),
        problems,
    })
}

/// Opens and resets streams. Returns whether the server ended the connection.
async fn reset_rapidly(target: &TlsServer, streams: usize) -> anyhow::Result<bool> {
    let stream = raw::connect(target, "h2").await?;
    let (mut read, mut write) = tokio::io::split(stream);
    let reading = tokio::spawn(async move { raw::read_frames(&mut read, Duration::from_secs(3)).await });
    let mut frames = raw::hello();
    for number in 0..u32::try_from(streams)? {
        frames.extend(raw::post(2 * number + 1, "/mutate", true));
        frames.extend(raw::reset(2 * number + 1));
    }
    // The server may close the connection before it has read everything.
    let is_broken = write.write_all(&frames).await.is_err();
    Ok(reading.await?.is_goodbye || is_broken)
}
