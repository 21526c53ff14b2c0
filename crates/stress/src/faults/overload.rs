//! Ten times as many reviews as the server can answer, at a rate that does not depend on its answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use pillion_server::client::Answer;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::caller::Caller;
use super::review::{self, Verdict, Weight};
use super::trickle::{self, Tally};
use super::{Context, Outcome};
use crate::server::Server;

const CONNECTIONS: usize = 8;
/// How many reviews at a time measure what the server can do.
const AT_A_TIME: usize = 16;
const TICK: Duration = Duration::from_millis(5);
/// What the API server would say, and how long the client waits.
const PATH: &str = "/mutate?timeout=2s";
const PROMISED: Duration = Duration::from_millis(2_500);

/// The latencies of the answers with one status.
struct Latencies(Histogram<u64>);

impl Latencies {
    fn new() -> anyhow::Result<Self> {
        Ok(Self(Histogram::new_with_bounds(1, 60_000, 3)?))
    }

    fn record(&mut self, took: Duration) {
        self.0.saturating_record(u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1));
    }

    fn text(&self) -> String {
        let at = |quantile| self.0.value_at_quantile(quantile);
        format!("p50 {} ms, p99 {} ms, max {} ms", at(0.5), at(0.99), self.0.max())
    }
}

pub(super) async fn run(context: &Context<'_>, server: &Server) -> anyhow::Result<Outcome> {
    let callers: Vec<_> = (0..CONNECTIONS).map(|_| Arc::new(Caller::new(vec![server.target().clone()]))).collect();
    let capacity = capacity(&callers, context.seconds(3)).await;
    let rate = 10.0 * capacity;
    let (mut answered, mut refused, mut tally) = (Latencies::new()?, Latencies::new()?, Tally::default());
    let mut take = |(uid, answer, took): (String, Result<Answer, String>, Duration)| {
        let verdict = answer.map(|answer| review::verdict(&uid, &answer));
        let verdict = match verdict {
            Ok(_) if took > PROMISED => Err(format!("an answer after {} ms", took.as_millis())),
            other => other,
        };
        match verdict {
            Ok(Verdict::Right) => answered.record(took),
            Ok(Verdict::Busy) => refused.record(took),
            _ => {}
        }
        tally.count(&uid, verdict, took);
    };
    let mut asked = JoinSet::new();
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (started, length) = (Instant::now(), context.seconds(10));
    let mut sent = 0_u64;
    while started.elapsed() < length {
        ticks.tick().await;
        while whole(started.elapsed().as_secs_f64() * rate) > sent {
            let number = usize::try_from(sent).unwrap_or_default();
            let Some(caller) = callers.get(number % CONNECTIONS).map(Arc::clone) else { break };
            asked.spawn(ask(caller, format!("flood-{sent}")));
            sent += 1;
        }
        while let Some(Ok(done)) = asked.try_join_next() {
            take(done);
        }
    }
    let took = started.elapsed().as_secs_f64();
    while let Some(Ok(done)) = asked.join_next().await {
        take(done);
    }
    let reconnected: usize = callers.iter().map(|caller| caller.connections() - 1).sum();
    if reconnected > 0 {
        tally.lost += 1;
        tally.problems.push(format!("{reconnected} connections broke"));
    }
    Ok(Outcome {
        asked: format!(
            "{sent} reviews in {took:.0} s, {:.0} in a second, where the server can answer {capacity:.0}",
            real(sent) / took
        ),
        back: format!(
            "{} answered ({}), {} got a 503 ({}), {} nothing",
            tally.right,
            answered.text(),
            tally.busy,
            refused.text(),
            tally.lost
        ),
        problems: tally.problems,
    })
}

/// Measures how many reviews the server answers in a second.
async fn capacity(callers: &[Arc<Caller>], length: Duration) -> f64 {
    let started = Instant::now();
    let mut workers = JoinSet::new();
    for caller in callers.iter().cycle().take(AT_A_TIME).map(Arc::clone) {
        workers.spawn(async move {
            let mut right = 0_u64;
            while started.elapsed() < length {
                let (_, verdict, _) = trickle::ask(Arc::clone(&caller), "capacity".to_owned(), Weight::Heavy).await;
                right += u64::from(verdict == Ok(Verdict::Right));
            }
            right
        });
    }
    let right: u64 = workers.join_all().await.into_iter().sum();
    (real(right) / started.elapsed().as_secs_f64()).max(1.0)
}

async fn ask(caller: Arc<Caller>, uid: String) -> (String, Result<Answer, String>, Duration) {
    let body = review::body(&uid, Weight::Heavy, 0);
    let started = Instant::now();
    let answer = caller.post(PATH, &body).await;
    (uid, answer, started.elapsed())
}

#[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn real(number: u64) -> f64 {
    number as f64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of requests")]
fn whole(number: f64) -> u64 {
    number as u64
}
