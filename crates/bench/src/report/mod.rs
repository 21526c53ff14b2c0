//! Measures everything in one run: the report that `make bench` prints.

pub mod goals;
pub mod machine;
pub mod markdown;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;

use crate::measure::{Comparison, Counters, Mode, Modules, Rivals, Work};
use crate::objects::Objects;
use crate::provider::{Engines, Policy};
use crate::scenario::Scenario;
use crate::timing::{Contestant, Times, race};

/// The results of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Number and model of the processors, and the system.
    pub machine: String,
    /// The commit, if git knows it.
    pub revision: String,
    /// The time for each policy of each row.
    pub budget: Duration,
    /// Our module.
    pub policy: Module,
    /// The policy that accepts everything.
    pub baseline: Module,
    /// A row for each scenario.
    pub rows: Vec<Row>,
}

/// The properties of a module before any request.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Module {
    /// Its length in bytes.
    pub bytes: usize,
    /// The time to compile it as a policy server does at its start, in nanoseconds: the shortest of three.
    pub compile: u64,
    /// The time to create an instance that is ready for calls.
    pub instance: Times,
}

/// The results of one scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub scenario: String,
    /// Length of the settings as compact JSON, in bytes.
    pub settings: usize,
    /// The work of our module.
    pub policy: Work,
    /// The work of the policy that accepts everything, with the same settings.
    pub baseline: Work,
    /// The times, one entry per mode.
    pub times: Vec<Comparison>,
}

impl Row {
    /// Returns the times of this mode.
    pub fn timed(&self, mode: Mode) -> Option<&Comparison> {
        self.times.iter().find(|times| times.mode == mode)
    }
}

impl Report {
    /// Measures the scenarios, and writes each one's name to `progress`.
    ///
    /// # Errors
    /// If a module is invalid, or the result of an evaluation is not the one that its scenario expects.
    pub fn measure(
        scenarios: &[Scenario],
        binaries: Modules<'_>,
        modes: &[Mode],
        budget: Duration,
        progress: &mut dyn Write,
    ) -> anyhow::Result<Self> {
        let counters = Counters::compile(binaries)?;
        let rivals = modes.iter().map(|&mode| Ok((mode, Rivals::compile(binaries, mode)?)));
        let rivals: Vec<(Mode, Rivals)> = rivals.collect::<anyhow::Result<_>>()?;
        let mut rows = Vec::new();
        for (index, scenario) in scenarios.iter().enumerate() {
            let _ = writeln!(progress, "{} of {}: {}", index + 1, scenarios.len(), scenario.name());
            rows.push(row(scenario, &counters, &rivals, budget).with_context(|| scenario.name().to_owned())?);
        }
        let [policy, baseline] = measured(binaries, budget)?;
        Ok(Self { machine: machine::machine(), revision: machine::revision(), budget, policy, baseline, rows })
    }

    /// Returns the row of this scenario.
    pub fn row(&self, scenario: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.scenario == scenario)
    }
}

fn row(scenario: &Scenario, counters: &Counters, rivals: &[(Mode, Rivals)], budget: Duration) -> anyhow::Result<Row> {
    let input = scenario.input();
    let (policy, baseline) = counters.count(scenario, &input)?;
    let baseline = baseline.context("there is no baseline")?;
    let times = rivals.iter().map(|(mode, rivals)| rivals.time(&input, *mode, budget));
    let times = times.collect::<anyhow::Result<_>>()?;
    let settings = serde_json::to_string(&input.settings)?.len();
    Ok(Row { scenario: scenario.name().to_owned(), settings, policy, baseline, times })
}

fn measured(binaries: Modules<'_>, budget: Duration) -> anyhow::Result<[Module; 2]> {
    let [first, second] = [compile(binaries.policy)?, compile(binaries.baseline)?];
    let objects = Objects::default();
    let mut contestants: Vec<Contestant<'_>> =
        vec![Box::new(|| first.0.instance(&objects).map(drop)), Box::new(|| second.0.instance(&objects).map(drop))];
    let times = race(&mut contestants, budget)?;
    drop(contestants);
    let [one, two] = times.as_slice() else { anyhow::bail!("a module was not timed") };
    Ok([
        Module { bytes: binaries.policy.len(), compile: first.1, instance: *one },
        Module { bytes: binaries.baseline.len(), compile: second.1, instance: *two },
    ])
}

fn compile(bytes: &[u8]) -> anyhow::Result<(Policy, u64)> {
    let mut best: Option<(Policy, u64)> = None;
    for _ in 0..3 {
        let started = Instant::now();
        let policy = Policy::compile(bytes, Engines::PolicyServer)?;
        let took = u64::try_from(started.elapsed().as_nanos())?;
        if best.as_ref().is_none_or(|(_, least)| took < *least) {
            best = Some((policy, took));
        }
    }
    best.context("the module was not compiled")
}
