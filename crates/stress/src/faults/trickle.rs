//! Ordinary reviews at a steady rate: what other clients notice of a fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::caller::Caller;
use super::review::{self, Verdict, Weight};
use crate::server;

/// The interval between reviews.
const PACE: Duration = Duration::from_millis(20);
const PATH: &str = "/mutate?timeout=10s";
/// The maximum latency of a server that has recovered.
const USUAL: Duration = Duration::from_millis(100);
const SHOWN: usize = 5;

/// What came of reviews.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) right: u64,
    /// Answered with 503.
    pub(super) busy: u64,
    /// Without an answer, or with a wrong one.
    pub(super) lost: u64,
    /// The first of those.
    pub(super) problems: Vec<String>,
    pub(super) slowest: Duration,
    /// The most memory of the server, in bytes.
    pub(super) memory: u64,
}

impl Tally {
    pub(super) fn asked(&self) -> u64 {
        self.right + self.busy + self.lost
    }

    /// Counts the answer to a review.
    pub(super) fn count(&mut self, uid: &str, verdict: Result<Verdict, String>, took: Duration) {
        self.slowest = self.slowest.max(took);
        let problem = match verdict {
            Ok(Verdict::Right) => return self.right += 1,
            Ok(Verdict::Busy) => return self.busy += 1,
            Ok(Verdict::Wrong(problem)) | Err(problem) => problem,
        };
        self.lost += 1;
        if self.problems.len() < SHOWN {
            self.problems.push(format!("{uid}: {problem}"));
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.right += other.right;
        self.busy += other.busy;
        self.lost += other.lost;
        self.problems.extend(other.problems);
        self.problems.truncate(SHOWN);
        self.slowest = self.slowest.max(other.slowest);
        self.memory = self.memory.max(other.memory);
    }
}

/// A running trickle.
pub(super) struct Trickle {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Tally>,
}

impl Trickle {
    /// Starts sending reviews. `process` is the server whose memory is observed.
    pub(super) fn start(caller: Arc<Caller>, process: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(run(caller, process, Arc::clone(&stop)));
        Self { stop, task }
    }

    /// Stops sending reviews, and waits for the answers.
    pub(super) async fn stop(self) -> anyhow::Result<Tally> {
        self.stop.store(true, Ordering::Relaxed);
        Ok(self.task.await?)
    }
}

async fn run(caller: Arc<Caller>, process: u32, stop: Arc<AtomicBool>) -> Tally {
    let mut ticks = interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut asked, mut tally) = (JoinSet::new(), Tally::default());
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        number += 1;
        asked.spawn(ask(Arc::clone(&caller), format!("ordinary-{number}"), Weight::Light));
        tally.memory = tally.memory.max(server::memory(process));
        while let Some(Ok((uid, verdict, took))) = asked.try_join_next() {
            tally.count(&uid, verdict, took);
        }
    }
    while let Some(Ok((uid, verdict, took))) = asked.join_next().await {
        tally.count(&uid, verdict, took);
    }
    tally
}

/// Sends a review, and returns its uid, what came back, and how long it took.
pub(super) async fn ask(
    caller: Arc<Caller>,
    uid: String,
    weight: Weight,
) -> (String, Result<Verdict, String>, Duration) {
    let body = review::body(&uid, weight, 0);
    let started = Instant::now();
    let answer = caller.post(PATH, &body).await;
    let verdict = answer.map(|answer| review::verdict(&uid, &answer));
    (uid, verdict, started.elapsed())
}

/// Returns the time until the server answers as usual again: five reviews in a row, each in 100 ms. Gives up after 20 s.
pub(super) async fn recovery(caller: &Arc<Caller>) -> Duration {
    let started = Instant::now();
    let (mut since, mut in_a_row) = (Duration::ZERO, 0);
    while in_a_row < 5 && started.elapsed() < Duration::from_secs(20) {
        let (_, verdict, took) = ask(Arc::clone(caller), "recovery".to_owned(), Weight::Light).await;
        if verdict == Ok(Verdict::Right) && took < USUAL {
            in_a_row += 1;
        } else {
            in_a_row = 0;
            since = started.elapsed();
            sleep(Duration::from_millis(5)).await;
        }
    }
    since
}
