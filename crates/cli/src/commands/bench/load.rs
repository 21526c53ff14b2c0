//! Many reviews at a time, each waited for, each looked at.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use hdrhistogram::Histogram;
use pillion_host::server::client::{Client, Protocol, Target};
use pillion_host::server::paths;
use tokio::task::JoinSet;

use super::answers::{Case, Cases};
use super::mix::Numbers;

/// What is to be done.
pub(super) struct Plan {
    pub(super) target: Target,
    pub(super) cases: Arc<Cases>,
    pub(super) reviews: u64,
    pub(super) concurrency: u16,
    pub(super) connections: u16,
    pub(super) seed: u64,
}

/// What was measured.
pub(super) struct Measured {
    /// How long it took, from the first request to the last answer.
    pub(super) took: Duration,
    /// Requests without an answer that is a review.
    pub(super) lost: u64,
    /// Answers that are not the module's.
    pub(super) wrong: u64,
    /// The first few of both.
    pub(super) problems: Vec<String>,
    /// Latency in microseconds.
    pub(super) latency: Histogram<u64>,
    /// The server's memory before the first request, and after the last; where it tells.
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

/// Microseconds up to a minute, to three digits.
fn histogram() -> anyhow::Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, 60_000_000, 3).context("a histogram")
}

/// Requests before those that are measured: what is done for the first time takes longer and takes memory.
const WARM_UP: u64 = 200;
/// Problems that are shown.
const SHOWN: usize = 5;
/// The longest text of one.
const LENGTH: usize = 600;

/// Sends all reviews.
///
/// # Errors
/// Where the server cannot be reached at all.
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

/// Sends one review after the other.
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
            // Which case it is depends on its number only, whoever sends it.
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
                // Another connection, so that a lost one is not all that is measured from here on.
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

/// What the server's metrics say about its memory.
async fn memory(client: &mut Client) -> Option<Memory> {
    let answer = client.get(paths::METRICS).await.ok()?;
    let text = String::from_utf8(answer.body).ok()?;
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some(Memory { now: value("process_resident_memory_bytes ")?, peak: value("pillion_peak_resident_memory_bytes ")? })
}
