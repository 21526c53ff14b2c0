//! Connections: many, silent ones, and more than there are file descriptors.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pillion_server::client::TlsServer;
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use super::caller::Caller;
use super::raw;
use super::review::Weight;
use super::trickle::{self, Tally};
use super::{Context, Outcome};
use crate::server::Server;

const AT_A_TIME: usize = 256;
const REFUSED: &str = "pillion_connections_refused_total";

/// Connections that are opened and closed: nine of ten at once, the tenth after a TLS handshake.
pub(super) async fn opened_and_closed(context: &Context<'_>, server: &Server) -> anyhow::Result<Outcome> {
    let all = context.times(100_000);
    let (next, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let started = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..AT_A_TIME {
        let (next, failed, target) = (Arc::clone(&next), Arc::clone(&failed), server.target().clone());
        clients.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= all {
                    return;
                }
                if open_and_close(&target, number).await.is_err() {
                    failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    clients.join_all().await;
    let failed = failed.load(Ordering::Relaxed);
    let took = started.elapsed().as_secs_f64();
    sleep(Duration::from_millis(500)).await;
    let left = server.metric("pillion_connections ", "").await?;
    let mut problems = Vec::new();
    if failed > all / 100 || left > 10 {
        problems.push(format!("{failed} connections failed, {left} are still open"));
    }
    Ok(Outcome {
        asked: format!("{all} connections opened and closed in {took:.0} s, every tenth after its TLS handshake"),
        back: format!("{} accepted, {failed} failed; {left} open half a second later", all - failed),
        problems,
    })
}

async fn open_and_close(target: &TlsServer, number: usize) -> anyhow::Result<()> {
    if number.is_multiple_of(10) {
        drop(raw::connect(target, "h2").await?);
        return Ok(());
    }
    let stream = TcpStream::connect(&target.address).await?;
    // A reset leaves no port behind that has to wait. Half of the connections end in order.
    if number.is_multiple_of(2) {
        stream.set_zero_linger()?;
    }
    Ok(())
}

/// New clients, one after another, until stopped: each connects and asks for one review.
struct Newcomers {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Tally>,
}

impl Newcomers {
    fn start(target: &TlsServer) -> Self {
        let (stop, target) = (Arc::new(AtomicBool::new(false)), target.clone());
        let is_over = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let (mut tally, mut number) = (Tally::default(), 0);
            while !is_over.load(Ordering::Relaxed) {
                number += 1;
                let caller = Arc::new(Caller::new(vec![target.clone()]));
                let (uid, verdict, took) = trickle::ask(caller, format!("newcomer-{number}"), Weight::Light).await;
                tally.count(&uid, verdict, took);
                sleep(Duration::from_millis(50)).await;
            }
            tally
        });
        Self { stop, task }
    }

    async fn stop(self) -> anyhow::Result<Tally> {
        self.stop.store(true, Ordering::Relaxed);
        Ok(self.task.await?)
    }
}

/// Silent connections: as many as asked for stay open; then new ones come as fast as possible.
pub(super) async fn silent(context: &Context<'_>, server: &Server) -> anyhow::Result<Outcome> {
    // More than the server's limit, in a short run too.
    let all = context.times(3_000).max(1_500);
    let silent = server.silent_connections(all).await?;
    let newcomers = Newcomers::start(server.target());
    sleep(context.seconds(5)).await;
    let mut tally = newcomers.stop().await?;
    let calm = (tally.right, tally.slowest);
    drop(silent);

    let newcomers = Newcomers::start(server.target());
    let (opened, length, started) = (Arc::new(AtomicU64::new(0)), context.seconds(5), Instant::now());
    let mut flood = JoinSet::new();
    for _ in 0..64 {
        let (opened, address) = (Arc::clone(&opened), server.target().address.clone());
        flood.spawn(async move {
            let mut silent = std::collections::VecDeque::new();
            while started.elapsed() < length {
                let Ok(stream) = TcpStream::connect(&address).await else { continue };
                opened.fetch_add(1, Ordering::Relaxed);
                silent.push_back(stream);
                if silent.len() > 40
                    && let Some(oldest) = silent.pop_front()
                {
                    oldest.set_zero_linger().ok();
                }
            }
        });
    }
    flood.join_all().await;
    let rate = opened.load(Ordering::Relaxed) / length.as_secs().max(1);
    let flooded = newcomers.stop().await?;
    let during = (flooded.right, flooded.slowest);
    tally.add(flooded);
    let displaced = server.metric(REFUSED, "displaced").await?;
    if tally.busy > 0 {
        tally.problems.push(format!("{} new clients got a 503", tally.busy));
    }
    Ok(Outcome {
        asked: format!(
            "{all} connections that say nothing; then {rate} new ones in a second. Meanwhile new clients, each with one review"
        ),
        back: format!(
            "{} and {} new clients served, the slowest after {} and {} ms with handshake; {displaced} silent connections \
             gave way",
            calm.0,
            during.0,
            calm.1.as_millis(),
            during.1.as_millis()
        ),
        problems: tally.problems,
    })
}

/// No file descriptor is left for a new connection.
pub(super) async fn descriptors(context: &Context<'_>, server: &Server) -> anyhow::Result<Outcome> {
    let all = context.times(200);
    let mut silent = server.silent_connections(all).await?;
    sleep(Duration::from_millis(200)).await;
    // From now on, every descriptor is in use.
    let limit = server.descriptors()?;
    server.tool("prlimit", &[&format!("--nofile={limit}:"), "--pid"])?;
    let newcomers = Newcomers::start(server.target());
    sleep(context.seconds(5)).await;
    for _ in 0..all {
        silent.push(TcpStream::connect(&server.target().address).await?);
        sleep(Duration::from_millis(2)).await;
    }
    let mut tally = newcomers.stop().await?;
    server.tool("prlimit", &["--nofile=1024:", "--pid"])?;
    let displaced = server.metric(REFUSED, "displaced").await?;
    if displaced == 0 || tally.busy > 0 {
        tally.problems.push(format!("{displaced} silent connections gave way, {} reviews got a 503", tally.busy));
    }
    Ok(Outcome {
        asked: format!(
            "{all} silent connections, all {limit} file descriptors in use; then {all} more, and new clients"
        ),
        back: format!(
            "{} new clients served, the slowest after {} ms; {displaced} silent connections gave way",
            tally.right,
            tally.slowest.as_millis()
        ),
        problems: tally.problems,
    })
}
