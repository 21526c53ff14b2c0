//! SIGTERM under load, while another server of the same Service takes over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::caller::Caller;
use super::review::Weight;
use super::trickle::{self, Tally};
use super::{Context, Outcome};
use crate::server::Server;

const CLIENTS: usize = 8;

pub(super) async fn run(context: &Context<'_>, server: &mut Server, other: &Server) -> anyhow::Result<Outcome> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let caller = Arc::new(Caller::new(vec![server.target().clone(), other.target().clone()]));
        let stop = Arc::clone(&stop);
        clients.spawn(async move {
            let (mut tally, mut number) = (Tally::default(), 0);
            while !stop.load(Ordering::Relaxed) {
                number += 1;
                let uid = format!("stop-{client}-{number}");
                let (uid, verdict, took) = trickle::ask(Arc::clone(&caller), uid, Weight::Heavy).await;
                tally.count(&uid, verdict, took);
            }
            tally
        });
    }
    sleep(context.seconds(3)).await;
    let started = Instant::now();
    server.tool("kill", &["-TERM"])?;
    let code = server.ended().await?;
    let took = started.elapsed();
    sleep(Duration::from_secs(1)).await;
    stop.store(true, Ordering::Relaxed);
    let mut tally = Tally::default();
    for client in clients.join_all().await {
        tally.add(client);
    }
    let mut problems = tally.problems.clone();
    if code != Some(0) || tally.busy > 0 {
        problems.push(format!("exit code {code:?}; {} reviews got a 503: {}", tally.busy, server.log()));
    }
    Ok(Outcome {
        asked: format!(
            "SIGTERM under {} reviews of {CLIENTS} clients; a second server of the Service goes on",
            tally.asked()
        ),
        back: format!(
            "{} answered by one or the other, the slowest after {} ms; exit code 0 after {:.1} s, with a drain delay of 2 s",
            tally.right,
            tally.slowest.as_millis(),
            took.as_secs_f64()
        ),
        problems,
    })
}
