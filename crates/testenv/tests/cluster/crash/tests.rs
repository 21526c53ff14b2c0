//! Each request of each controller may fail, and each controller may be killed at any of its requests: in the end,
//! exactly the objects exist that exist without faults, and each was created once.
//!
//! `PILLION_CRASH=Bundle` runs one scenario. Each scenario gets a sample of the kinds of fault, on every request;
//! `PILLION_WHOLE=1` gives it all of them.
#![allow(clippy::print_stdout, reason = "the number of faults of each kind is of interest")]

use std::collections::{BTreeMap, BTreeSet};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pillion_testenv::until;
use tokio::runtime::Runtime;

use super::faults::{FAULTS, Fault};
use super::leases::{self, ELECTION, NO_ELECTION};
use super::proxy::Proxy;
use super::record::{Faults, Name};
use super::scenario::Scenario;
use super::{Run, Stage, objects};

/// Whether a scenario is to run.
fn is_chosen(scenario: &str) -> bool {
    std::env::var("PILLION_CRASH").map_or(true, |chosen| chosen == scenario)
}

/// Whether each scenario gets every kind of fault.
fn is_whole() -> bool {
    std::env::var_os("PILLION_WHOLE").is_some_and(|value| value == "1")
}

/// Without `PILLION_WHOLE`, a scenario gets one of so many kinds of fault.
const EVERY: usize = 6;

/// Returns the kinds of fault for the scenario with this index. The sample begins at another kind in each scenario, so
/// that the scenarios together get every kind.
fn chosen(index: usize) -> impl Iterator<Item = Fault> {
    let faults = FAULTS.into_iter().enumerate();
    faults.filter(move |(kind, _)| is_whole() || (kind + index).is_multiple_of(EVERY)).map(|(_, fault)| fault)
}

#[test]
fn the_samples_of_the_scenarios_have_every_kind_of_fault() {
    let all: Vec<Fault> = (0..SCENARIOS.len()).flat_map(chosen).collect();
    assert!(FAULTS.iter().all(|fault| all.contains(fault)), "{all:?}");
}

/// The controllers, each with the number of writes of a run, without those whose number depends on the time.
const SCENARIOS: [(Scenario, usize); 8] = [
    (Scenario::Merged, 12),
    (Scenario::Rollout, 5),
    (Scenario::Bundle, 8),
    (Scenario::Tokens, 6),
    (Scenario::Cleaner, 2),
    (Scenario::TokenController, 5),
    (Scenario::RootCa, 3),
    (Scenario::DefaultAccount, 2),
];
/// With all faults, each scenario runs on so many API servers, each with some of the faults.
const SHARES: usize = 2;

/// Each request of a run, lists and watches included, gets each fault. Scenarios mostly wait, so they run side by side:
/// in threads, because cargo runs only as many tests at a time as there are processors.
#[test]
fn each_request_of_each_controller_may_fail() {
    let mut threads: Vec<(String, JoinHandle<()>)> = Vec::new();
    let shares = if is_whole() { SHARES } else { 1 };
    for (index, (scenario, writes)) in SCENARIOS.into_iter().enumerate() {
        for share in 0..shares {
            let faults: Vec<Fault> = chosen(index).skip(share).step_by(shares).collect();
            let name = format!("{scenario:?}, share {share}");
            threads.push((name, run(move || requests_may_fail(scenario, writes, faults, share == 0))));
        }
    }
    threads.push(("Leader".to_owned(), run(requests_of_a_leader_may_fail)));
    let failed = threads.into_iter().filter_map(|(name, thread)| thread.join().is_err().then_some(name));
    assert_eq!(failed.collect::<Vec<String>>(), [""; 0]);
}

/// Runs a part of the test in a thread.
fn run<F: Future<Output = ()>>(part: impl FnOnce() -> F + Send + 'static) -> JoinHandle<()> {
    std::thread::spawn(|| Runtime::new().unwrap().block_on(part()))
}

/// Applies these faults to each request of a scenario, and restarts the API server at the end if that is wanted.
async fn requests_may_fail(scenario: Scenario, writes: usize, faults: Vec<Fault>, restarts: bool) {
    if !is_chosen(&format!("{scenario:?}")) {
        return;
    }
    let stage = Stage::start().await;
    let usual = usual(&stage, scenario, &NO_ELECTION).await;
    assert_eq!(usual.written, writes, "{:#?}", usual.seen);
    // All controllers watch, except that which works once a day.
    assert_eq!(usual.seen.keys().any(Name::is_watch), scenario != Scenario::Cleaner, "{:#?}", usual.seen);
    for fault in faults {
        check(&stage, scenario, fault, &usual, &NO_ELECTION).await;
    }
    if restarts {
        the_api_server_may_restart(&stage, scenario, &usual).await;
    }
}

/// Applies each fault to each request of leader election. After a kill, the next process waits until the Lease has
/// expired.
async fn requests_of_a_leader_may_fail() {
    if !is_chosen("Leader") {
        return;
    }
    let stage = Stage::start().await;
    let mut usual = usual(&stage, Scenario::RootCa, &ELECTION).await;
    usual.seen.retain(|name, _| name.is_lease());
    // The Lease is read, created, and renewed.
    assert_eq!(usual.seen.len(), 3, "{:#?}", usual.seen);
    usual.seen.values_mut().for_each(|count| *count = 1);
    for fault in chosen(SCENARIOS.len()).filter(|fault| fault.suits(false)) {
        check(&stage, Scenario::RootCa, fault, &usual, &ELECTION).await;
    }
}

/// Runs a scenario without faults. The first run does the work in the namespaces that each cluster has; a request
/// counts as often as it occurred in both further runs, or as often as it must occur.
async fn usual(stage: &Stage, scenario: Scenario, flags: &[&str]) -> Run {
    stage.run(scenario, None, flags).await;
    let mut usual = stage.run(scenario, None, flags).await;
    let again = stage.run(scenario, None, flags).await;
    assert_eq!(usual.objects, again.objects);
    assert_eq!(usual.written, again.written, "{:#?}\n{:#?}", usual.seen, again.seen);
    usual.seen.retain(|name, _| again.seen.contains_key(name));
    for (name, count) in &mut usual.seen {
        *count = (*count).min(again.seen[name]);
        if let Some(least) = scenario.least(name) {
            assert!(*count >= least, "{name:?}: {count} times");
            *count = least;
        }
    }
    usual
}

/// Applies a fault to each request of a run: first to the first of each name, in one run, then to the second, and so
/// on. Requests that this did not reach get the fault alone.
async fn check(stage: &Stage, scenario: Scenario, fault: Fault, usual: &Run, flags: &[&str]) {
    let started = Instant::now();
    let (mut fired, mut runs) = (0, 0);
    let most = usual.seen.values().max().copied().unwrap_or_default();
    for occurrence in 1..=most {
        let is_planned = |(name, count): &(&Name, &usize)| **count >= occurrence && fault.suits(name.is_watch());
        let names: BTreeSet<Name> = usual.seen.iter().filter(is_planned).map(|(name, _)| name.clone()).collect();
        if names.is_empty() {
            continue;
        }
        let planned = names.len();
        let run = stage.run(scenario, Some(Faults { fault, occurrence, names: names.clone() }), flags).await;
        assert_eq!(run.objects, usual.objects, "{fault:?} at occurrence {occurrence} of each request");
        let mut hit = run.fired.len();
        runs += 1;
        for name in names.difference(&run.fired) {
            let alone = Faults { fault, occurrence, names: BTreeSet::from([name.clone()]) };
            let run = stage.run(scenario, Some(alone), flags).await;
            assert_eq!(run.objects, usual.objects, "{fault:?} at occurrence {occurrence} of {name:?}");
            assert_eq!(run.fired.len(), 1, "{fault:?} was not applied to occurrence {occurrence} of {name:?}");
            hit += 1;
            runs += 1;
        }
        assert_eq!(hit, planned, "{fault:?} at occurrence {occurrence}");
        fired += hit;
    }
    let expected: usize =
        usual.seen.iter().filter(|(name, _)| fault.suits(name.is_watch())).map(|(_, count)| count).sum();
    assert_eq!(fired, expected, "{fault:?}");
    println!("{scenario:?}: {fault:?} fired {fired} times in {runs} runs, {:.1?}", started.elapsed());
}

/// The API server stops while a write is on its way, and comes back. The same process does the rest of the work.
async fn the_api_server_may_restart(stage: &Stage, scenario: Scenario, usual: &Run) {
    let namespace = stage.begin(scenario).await;
    let program = stage.program(&stage.proxy, scenario, &namespace, "program", &NO_ELECTION);
    stage.proxy.begin(&namespace, None);
    stage.proxy.hold();
    program.start();
    tokio::time::timeout(Duration::from_mins(1), stage.proxy.held()).await.expect("a write");
    stage.cluster.stop_api_server().await.unwrap();
    stage.proxy.resume();
    tokio::time::sleep(Duration::from_secs(2)).await;
    stage.cluster.start_api_server().await.unwrap();
    for phase in 0..scenario.phases() {
        if phase > 0 {
            scenario.change(&stage.client, &namespace, phase).await;
            stage.proxy.record().phase = phase;
            if scenario.restarts() {
                program.restart();
            }
        }
        assert_eq!(stage.ended(scenario, phase, &program).await, usual.objects[phase], "phase {phase}");
    }
    assert!(program.is_running(), "{}", program.log());
    let created: BTreeMap<String, usize> = stage.proxy.record().created.clone();
    assert!(created.values().all(|times| *times == 1), "{created:#?}");
    println!("{scenario:?}: the API server was restarted");
}

/// Two replicas behind proxies of their own. The first holds the Lease.
struct Replicas {
    stage: Stage,
    namespace: String,
    proxies: [Proxy; 2],
    programs: [super::program::Program; 2],
}

const SCENARIO: Scenario = Scenario::DefaultAccount;
const NAMES: [&str; 2] = ["one", "two"];

impl Replicas {
    async fn start() -> Self {
        let stage = Stage::start().await;
        let namespace = stage.begin(SCENARIO).await;
        let proxies = [Proxy::start(&stage.cluster).await, Proxy::start(&stage.cluster).await];
        let own = format!("--namespace={namespace}");
        let flags = [ELECTION.as_slice(), &[own.as_str()]].concat();
        let programs = [0, 1].map(|index| {
            proxies[index].begin(&namespace, None);
            stage.program(&proxies[index], SCENARIO, &namespace, NAMES[index], &flags)
        });
        programs[0].start();
        leases::held_by(&stage.client, &namespace, NAMES[0]).await;
        programs[1].start();
        let replicas = Self { stage, namespace, proxies, programs };
        replicas.repairs(0).await;
        replicas
    }

    /// Waits until this replica asks for the Lease.
    async fn asks(&self, index: usize) {
        let asks = async || self.proxies[index].record().seen.keys().any(Name::is_lease).then_some(());
        until("a replica asking for the Lease", Duration::from_mins(1), asks).await.unwrap();
    }

    /// Deletes what the controller makes. This replica makes it again, and the other sends nothing but requests for the
    /// Lease.
    async fn repairs(&self, index: usize) {
        let account = objects::api(&self.stage.client, &self.namespace, "ServiceAccount");
        let there = async || account.get_opt("default").await.unwrap();
        until("the ServiceAccount being there", Duration::from_mins(1), there).await.unwrap();
        let before = self.proxies[index].record().written.len();
        objects::delete(&self.stage.client, &self.namespace, "ServiceAccount", "default").await;
        until("the ServiceAccount being there again", Duration::from_mins(1), there).await.unwrap();
        let written = async || (self.proxies[index].record().written.len() > before).then_some(());
        until("the replica having written", Duration::from_mins(1), written).await.unwrap();
    }
}

/// SIGTERM releases the Lease, so the other replica starts at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_told_to_end_releases_the_lease() {
    if !is_chosen("Leader") {
        return;
    }
    let replicas = Replicas::start().await;
    replicas.asks(1).await;
    assert_eq!(replicas.proxies[1].record().seen.keys().filter(|name| !name.is_lease()).count(), 0);
    assert!(replicas.programs[0].stop(), "{}", replicas.programs[0].log());
    let released = Instant::now();
    leases::held_by(&replicas.stage.client, &replicas.namespace, NAMES[1]).await;
    // A replica looks every 2 seconds, and the released Lease is valid for one.
    assert!(released.elapsed() < Duration::from_secs(8), "{:?}", released.elapsed());
    replicas.repairs(1).await;
}

/// SIGKILL does not release the Lease: the other replica waits until it has expired.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_killed_is_replaced_when_the_lease_has_expired() {
    if !is_chosen("Leader") {
        return;
    }
    let replicas = Replicas::start().await;
    replicas.asks(1).await;
    replicas.programs[0].kill();
    let killed = Instant::now();
    leases::held_by(&replicas.stage.client, &replicas.namespace, NAMES[1]).await;
    // The last renewal was up to 2 seconds before.
    assert!(killed.elapsed() > leases::DURATION.saturating_sub(Duration::from_secs(3)), "{:?}", killed.elapsed());
    replicas.repairs(1).await;
    // The first comes back, and waits.
    replicas.programs[0].start();
    replicas.repairs(1).await;
    assert_eq!(leases::holder(&replicas.stage.client, &replicas.namespace).await.as_deref(), Some(NAMES[1]));
}

/// A leader that cannot renew the Lease ends before the other replica begins.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_cannot_renew_the_lease_ends_before_another_begins() {
    if !is_chosen("Leader") {
        return;
    }
    let replicas = Replicas::start().await;
    replicas.asks(1).await;
    replicas.proxies[0].cut_leases();
    let cut = Instant::now();
    let ended = async || (!replicas.programs[0].is_running()).then_some(());
    until("the leader having ended", Duration::from_secs(40), ended).await.unwrap();
    let ended = Instant::now();
    // The deadline is 10 seconds.
    assert!(cut.elapsed() < Duration::from_secs(13), "{:?}", cut.elapsed());
    assert!(replicas.programs[0].log().contains("could not be renewed in time"), "{}", replicas.programs[0].log());
    assert_eq!(leases::holder(&replicas.stage.client, &replicas.namespace).await.as_deref(), Some(NAMES[0]));
    leases::held_by(&replicas.stage.client, &replicas.namespace, NAMES[1]).await;
    assert!(ended.elapsed() > Duration::from_secs(1), "{:?}", ended.elapsed());
    replicas.repairs(1).await;
}
