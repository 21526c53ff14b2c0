//! Measures one scenario.

use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;

use crate::engine::{Counter, Counts, PAGE};
use crate::provider::{Decision, Engines, Policy, Settings};
use crate::scenario::{Input, Scenario};
use crate::timing::{Contestant, Times, race};

/// The operation that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A call of a running instance with a prepared payload: the time of the module itself.
    Warm,
    /// The same with everything that kwctl bench repeats: write the payload, read the answer, compute the patch.
    Kwctl,
    /// A policy server's work for a request, with a new instance.
    Fresh,
}

/// Instructions and memory of one evaluation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Work {
    /// Instructions of the instance's start.
    pub start: u64,
    /// Instructions of the call.
    pub call: u64,
    /// Bytes of linear memory after the call, which is the peak.
    pub memory: u64,
    /// Bytes by which the memory grew during the call.
    pub grown: u64,
    /// Length of the payload in bytes.
    pub payload: usize,
    /// Length of the answer in bytes.
    pub answer: usize,
    /// Number of calls to the host.
    pub host_calls: usize,
}

/// Times of our module and of the policy that accepts everything, measured in turns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The operation.
    pub mode: Mode,
    /// Our module.
    pub policy: Times,
    /// The policy that accepts everything, with empty settings.
    pub empty: Times,
    /// The policy that accepts everything, with the same settings.
    pub same: Times,
}

/// Our module and the policy that accepts everything, as files have them.
#[derive(Clone, Copy, Debug)]
pub struct Modules<'a> {
    /// Our module.
    pub policy: &'a [u8],
    /// The policy that accepts everything.
    pub baseline: &'a [u8],
}

/// A module and the policy that accepts everything, compiled for counting.
pub struct Counters {
    /// Our module.
    pub policy: Counter,
    /// The policy that accepts everything.
    pub baseline: Option<Counter>,
}

impl Counters {
    /// Compiles both.
    ///
    /// # Errors
    /// If one is not a valid module.
    pub fn compile(modules: Modules<'_>) -> anyhow::Result<Self> {
        Ok(Self { policy: Counter::compile(modules.policy)?, baseline: Some(Counter::compile(modules.baseline)?) })
    }

    /// Counts one evaluation by our module, and one by the policy that accepts everything.
    ///
    /// # Errors
    /// If an evaluation fails, or its result is not the one that the scenario expects.
    pub fn count(&self, scenario: &Scenario, input: &Input) -> anyhow::Result<(Work, Option<Work>)> {
        let payload = input.payload();
        let count = |counter: &Counter| {
            let counts = counter.count("validate", &payload, &input.objects);
            counts.with_context(|| scenario.name().to_owned())
        };
        let ours = count(&self.policy)?;
        let decision: Decision = serde_json::from_slice(&ours.answer)?;
        input.judge(&decision).with_context(|| scenario.name().to_owned())?;
        let baseline = self.baseline.as_ref().map(count).transpose()?;
        Ok((work(&ours, payload.len()), baseline.map(|counts| work(&counts, payload.len()))))
    }
}

fn work(counts: &Counts, payload: usize) -> Work {
    Work {
        start: counts.start,
        call: counts.call,
        memory: counts.pages * PAGE,
        grown: (counts.pages - counts.pages_before) * PAGE,
        payload,
        answer: counts.answer.len(),
        host_calls: counts.host_calls,
    }
}

/// Our module and the policy that accepts everything, compiled like in kwctl or in a policy server.
pub struct Rivals {
    policy: Policy,
    baseline: Policy,
}

impl Rivals {
    /// Compiles both.
    ///
    /// # Errors
    /// If one is not a valid module.
    pub fn compile(modules: Modules<'_>, mode: Mode) -> anyhow::Result<Self> {
        let engines = if mode == Mode::Fresh { Engines::PolicyServer } else { Engines::Kwctl };
        let compile = |module| Policy::compile(module, engines);
        Ok(Self { policy: compile(modules.policy)?, baseline: compile(modules.baseline)? })
    }

    /// Times a scenario in turns.
    ///
    /// # Errors
    /// If an evaluation fails, or its result is not the one that the scenario expects.
    pub fn time(&self, input: &Input, mode: Mode, budget: Duration) -> anyhow::Result<Comparison> {
        let bare = input.without_settings();
        let admission = self.policy.serve(&input.request, &input.settings, &input.objects)?;
        input.judge(&admission.decision)?;
        let mut contestants = vec![
            contestant(&self.policy, input, mode)?,
            contestant(&self.baseline, &bare, mode)?,
            contestant(&self.baseline, input, mode)?,
        ];
        let times = race(&mut contestants, budget)?;
        let [policy, empty, same] = times.as_slice() else { anyhow::bail!("a contestant is missing") };
        Ok(Comparison { mode, policy: *policy, empty: *empty, same: *same })
    }
}

fn contestant<'a>(policy: &'a Policy, input: &'a Input, mode: Mode) -> anyhow::Result<Contestant<'a>> {
    Ok(match mode {
        Mode::Warm => {
            let (instance, payload) = (policy.instance(&input.objects)?, input.payload());
            Box::new(move || instance.call(&payload).map(drop))
        }
        Mode::Kwctl => {
            let (instance, settings) = (policy.instance(&input.objects)?, Settings(input.settings.clone()));
            Box::new(move || instance.evaluate(&input.request, &settings).map(drop))
        }
        Mode::Fresh => Box::new(move || policy.serve(&input.request, &input.settings, &input.objects).map(drop)),
    })
}
