//! Sends many reviews concurrently and checks every answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use hdrhistogram::Histogram;
use pillion_host::paths;
use pillion_host::server::client::{Client, Protocol, Target};
use tokio::task::JoinSet;

use super::answers::{Case, Cases};
use super::mix::Numbers;

/// The parameters of a run.
pub(super) struct Plan {
    pub(super) target: Target,
    pub(super) cases: Arc<Cases>,
    pub(super) reviews: u64,
    pub(super) concurrency: u16,
    pub(super) connections: u16,
    pub(super) seed: u64,
}

/// The measurements of a run.
pub(super) struct Measured {
    /// The time from the first request to the last answer.
    pub(super) took: Duration,
    /// The number of requests without an answer, or with a status other than 200.
    pub(super) lost: u64,
    /// The number of answers that differ from the module's.
    pub(super) wrong: u64,
    /// Descriptions of the first few lost or wrong answers.
    pub(super) problems: Vec<String>,
    /// Latency in microseconds.
    pub(super) latency: Histogram<u64>,
    /// The server's memory before the first request and after the last; `None` if the server does not report it.
    pub(super) before: Option<Memory>,
    pub(super) after: Option<Memory>,
}

/// The server's resident memory in bytes.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    pub(super) now: u64,
    pub(super) peak: u64,
}

impl Measured {
    pub(super) fn is_right(&self) -> bool {
        self.lost == 0 && self.wrong == 0
    }
}

/// A histogram of microseconds up to a minute, with three significant digits.
fn histogram() -> anyhow::Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, 60_000_000, 3).context("a histogram")
}

/// The number of requests before the measured ones: first requests are slower and allocate memory.
const WARM_UP: u64 = 200;
/// The number of problems to show.
const SHOWN: usize = 5;
/// The maximum length of a problem's text, in characters.
const LENGTH: usize = 600;

/// Sends all reviews.
///
/// # Errors
/// If the server cannot be reached.
pub(super) async fn run(plan: Plan) -> anyhow::Result<Measured> {
    let mut connections = Vec::new();
    for _ in 0..plan.connections {
        connections.push(Client::connect(&plan.target, Protocol::Http2).await?);
    }
    let plan = Arc::new(plan);
    let mut warm_up = sent(&plan, &connections, WARM_UP.min(plan.reviews), "warm-up").await?;
    let mut probe = Client::connect(&plan.target, Protocol::Http2).await?;
    let before = memory(&mut probe).await;
    let started = Instant::now();
    let mut measured = sent(&plan, &connections, plan.reviews, "review").await?;
    let took = started.elapsed();
    let after = memory(&mut probe).await;
    measured.problems.append(&mut warm_up.problems);
    measured.problems.truncate(SHOWN);
    Ok(Measured {
        took,
        before,
        after,
        lost: measured.lost + warm_up.lost,
        wrong: measured.wrong + warm_up.wrong,
        ..measured
    })
}

async fn sent(plan: &Arc<Plan>, connections: &[Client], reviews: u64, name: &'static str) -> anyhow::Result<Measured> {
    let next = Arc::new(AtomicU64::new(0));
    let mut workers = JoinSet::new();
    for connection in connections.iter().cycle().take(usize::from(plan.concurrency)) {
        let client = connection.share().context("a connection that cannot be shared")?;
        let worker = Worker {
            plan: Arc::clone(plan),
            client,
            done: Measured {
                took: Duration::ZERO,
                lost: 0,
                wrong: 0,
                problems: Vec::new(),
                latency: histogram()?,
                before: None,
                after: None,
            },
        };
        let next = Arc::clone(&next);
        workers.spawn(worker.work(next, reviews, name));
    }
    let mut all: Option<Measured> = None;
    while let Some(done) = workers.join_next().await {
        let done = done.context("a worker")?;
        all = Some(match all {
            None => done,
            Some(mut all) => {
                all.lost += done.lost;
                all.wrong += done.wrong;
                all.problems.extend(done.problems);
                all.latency.add(&done.latency).context("a histogram")?;
                all
            }
        });
    }
    all.context("no workers")
}

/// Sends reviews one after another.
struct Worker {
    plan: Arc<Plan>,
    client: Client,
    done: Measured,
}

impl Worker {
    async fn work(mut self, next: Arc<AtomicU64>, reviews: u64, name: &'static str) -> Measured {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= reviews {
                return self.done;
            }
            let plan = Arc::clone(&self.plan);
            // The case depends only on the number, not on the worker.
            let drawn = Numbers::new(plan.seed.wrapping_add(number)).next();
            if let Some(case) = plan.cases.get(drawn) {
                self.send(case, &format!("{name}-{}-{number}", plan.seed)).await;
            }
        }
    }

    async fn send(&mut self, case: &Case, uid: &str) {
        let path = format!("{}?timeout=30s", case.endpoint.path());
        let body = case.body(uid);
        let started = Instant::now();
        let answer = self.client.post(&path, body).await;
        let took = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.done.latency.saturating_record(took);
        match answer {
            Ok(answer) if answer.status == 200 => {
                if let Some(problem) = case.problem(uid, &answer.body) {
                    self.done.wrong += 1;
                    self.tell(uid, &problem);
                }
            }
            Ok(answer) => {
                self.done.lost += 1;
                self.tell(uid, &format!("{} {}", answer.status, String::from_utf8_lossy(&answer.body).trim()));
            }
            Err(error) => {
                self.done.lost += 1;
                self.tell(uid, &error.to_string());
                // Reconnect, so that a lost connection does not spoil the remaining measurements.
                if let Ok(client) = Client::connect(&self.plan.target, Protocol::Http2).await {
                    self.client = client;
                }
            }
        }
    }

    fn tell(&mut self, uid: &str, problem: &str) {
        if self.done.problems.len() < SHOWN {
            let problem: String = problem.chars().take(LENGTH).collect();
            self.done.problems.push(format!("{uid}: {problem}"));
        }
    }
}

/// Reads the server's memory from its metrics.
async fn memory(client: &mut Client) -> Option<Memory> {
    let answer = client.get(paths::METRICS).await.ok()?;
    let text = String::from_utf8(answer.body).ok()?;
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some(Memory { now: value("process_resident_memory_bytes ")?, peak: value("pillion_peak_resident_memory_bytes ")? })
}
