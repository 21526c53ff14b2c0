//! Sends many reviews concurrently.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use clap::ValueEnum;
use pillion_bench::corpus::random::Random;
use pillion_kubernetes::paths;
use pillion_server::client::{Client, ClientError, Prepared};
use tokio::task::JoinSet;

use super::answers::{Answers, Case, Cases};
use super::destination::Destination;
use super::measured::{Measured, Part, cpu};
use crate::usage::{Memory, Usage};

/// When answers are compared with those of the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Check {
    /// Every answer: proves that nothing is lost or wrong under load.
    #[default]
    Every,
    /// Each kind of review once before the measurement and once after it. During the measurement, only the status is
    /// read: the client takes as little as possible from the server.
    Around,
}

/// The parameters of a run.
pub(super) struct Plan {
    pub(super) destination: Destination,
    /// The id of the server's process, if it is known.
    pub(super) process: Option<u32>,
    pub(super) cases: Cases,
    pub(super) answers: Answers,
    pub(super) check: Check,
    pub(super) reviews: u64,
    pub(super) concurrency: u16,
    pub(super) connections: u16,
    pub(super) seed: u64,
}

/// The number of requests before the measured ones: first requests are slower and allocate memory.
const WARM_UP: u64 = 200;
/// The uid of reviews whose answers are not compared. It is always the same, so their bodies are written once.
const UID: &str = "705ab4f5-6393-11e8-b7cc-42010a800002";

/// Sends all reviews.
///
/// # Errors
/// If the server cannot be reached.
pub(super) async fn run(plan: Plan) -> anyhow::Result<Measured> {
    let probe = plan.destination.connect().await?;
    let is_shared = probe.share().is_some();
    // A connection with HTTP/1.1 carries one request at a time.
    let connections = usize::from(if is_shared { plan.connections.min(plan.concurrency) } else { plan.concurrency });
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(plan.destination.connect().await?);
    }
    if is_shared {
        let shared = clients.iter().cycle().take(usize::from(plan.concurrency)).map_while(Client::share);
        clients = shared.collect();
    }
    let prepared = plan.cases.iter().map(|case| probe.prepare(case.path(), case.body(UID)));
    let prepared: Vec<Prepared> = prepared.collect::<Result<_, _>>()?;
    let run = Arc::new(Run { plan, prepared });
    let longest = run.plan.cases.iter().map(|case| case.body(UID).len()).max().unwrap_or_default();

    let mut part = Part::new()?;
    let mut worker = Worker { run: Arc::clone(&run), client: probe, part: Part::new()? };
    worker.look("before").await;
    let warm_up;
    (clients, warm_up) = run.sent(clients, WARM_UP.min(run.plan.reviews), "warm-up").await?;
    part.tally.add(warm_up.tally);

    let own = std::process::id();
    let usage = |process: Option<u32>| process.and_then(Usage::read);
    let memory_before = memory(&mut worker.client, &run.plan).await;
    let (server, client, started) = (usage(run.plan.process), Usage::read(own), Instant::now());
    let (_, measured) = run.sent(clients, run.plan.reviews, "review").await?;
    let took = started.elapsed();
    let (server_after, client_after) = (usage(run.plan.process), Usage::read(own));
    part.add(measured)?;
    // A server may have closed the connection that said nothing in the meantime.
    worker.client = run.plan.destination.connect().await?;
    let memory = match (server, server_after) {
        (Some(before), Some(after)) => Some((before.memory, after.memory)),
        _ => memory_before.zip(memory(&mut worker.client, &run.plan).await),
    };
    worker.look("after").await;
    part.tally.add(worker.part.tally);
    Ok(Measured {
        part,
        took,
        connections,
        protocol: if is_shared { "HTTP/2" } else { "HTTP/1.1" },
        longest,
        memory,
        server: cpu(server, server_after),
        client: cpu(client, client_after),
    })
}

/// A plan with its requests.
struct Run {
    plan: Plan,
    /// A request for each case, in the order of the cases.
    prepared: Vec<Prepared>,
}

impl Run {
    /// Sends this many reviews, one at a time with each of these clients. Returns the clients for further use.
    async fn sent(
        self: &Arc<Self>,
        clients: Vec<Client>,
        reviews: u64,
        name: &'static str,
    ) -> anyhow::Result<(Vec<Client>, Part)> {
        let next = Arc::new(AtomicU64::new(0));
        let mut workers = JoinSet::new();
        for client in clients {
            let worker = Worker { run: Arc::clone(self), client, part: Part::new()? };
            workers.spawn(worker.work(Arc::clone(&next), reviews, name));
        }
        let (mut clients, mut all) = (Vec::new(), Part::new()?);
        while let Some(done) = workers.join_next().await {
            let (client, part) = done.context("a worker")?;
            clients.push(client);
            all.add(part)?;
        }
        Ok((clients, all))
    }
}

/// Sends reviews one after another.
struct Worker {
    run: Arc<Run>,
    client: Client,
    part: Part,
}

impl Worker {
    async fn work(mut self, next: Arc<AtomicU64>, reviews: u64, name: &'static str) -> (Client, Part) {
        let run = Arc::clone(&self.run);
        let Plan { cases, seed, check, .. } = &run.plan;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= reviews {
                return (self.client, self.part);
            }
            // The case depends only on the number, not on the worker.
            let position = cases.draw(&mut Random::new(seed.wrapping_add(number)));
            match check {
                Check::Every => {
                    if let Some(case) = cases.get(position) {
                        self.compare(case, &format!("{name}-{seed}-{number}")).await;
                    }
                }
                Check::Around => {
                    if let Some(prepared) = run.prepared.get(position) {
                        self.repeat(prepared).await;
                    }
                }
            }
        }
    }

    /// Compares the answers to all cases, unless those to the measured reviews are compared anyway.
    async fn look(&mut self, name: &str) {
        let run = Arc::clone(&self.run);
        if run.plan.check == Check::Around {
            for (number, case) in run.plan.cases.iter().enumerate() {
                self.compare(case, &format!("{name}-{number}")).await;
            }
        }
    }

    /// Sends a review and compares the answer.
    async fn compare(&mut self, case: &Case, uid: &str) {
        let body = case.body(uid);
        let started = Instant::now();
        let answer = self.client.post(case.path(), body).await;
        self.record(started);
        match answer {
            Ok(answer) if answer.status == 200 => {
                self.part.tally.count(uid, case.judge(self.run.plan.answers, uid, &answer.body));
            }
            Ok(answer) => {
                let text = String::from_utf8_lossy(&answer.body);
                self.part.tally.lose(uid, &format!("{} {}", answer.status, text.trim()));
            }
            Err(error) => self.lose(uid, &error).await,
        }
    }

    /// Sends a review and reads the status.
    async fn repeat(&mut self, prepared: &Prepared) {
        let started = Instant::now();
        let answer = self.client.repeat(prepared).await;
        self.record(started);
        match answer {
            Ok(200) => {}
            Ok(status) => self.part.tally.lose(UID, &format!("status {status}")),
            Err(error) => self.lose(UID, &error).await,
        }
    }

    fn record(&mut self, started: Instant) {
        let took = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.part.latency.saturating_record(took);
    }

    async fn lose(&mut self, uid: &str, error: &ClientError) {
        self.part.tally.lose(uid, &error.to_string());
        // Reconnect, so that a lost connection does not spoil the remaining measurements.
        if let Ok(client) = self.run.plan.destination.connect().await {
            self.client = client;
        }
    }
}

/// Reads the server's memory from its metrics, if its process is not known.
async fn memory(client: &mut Client, plan: &Plan) -> Option<Memory> {
    if plan.process.is_some() {
        return None;
    }
    let answer = client.get(paths::METRICS).await.ok()?;
    let text = String::from_utf8(answer.body).ok()?;
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some(Memory { now: value("process_resident_memory_bytes ")?, peak: value("pillion_peak_resident_memory_bytes ")? })
}
