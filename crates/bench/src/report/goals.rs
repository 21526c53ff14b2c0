//! Compares a report with the limits that docs/benchmarks.md promises.
#![allow(clippy::cast_precision_loss, reason = "counts of bytes and instructions are far below 2^52")]

use serde::Serialize;

use super::{Report, Row};
use crate::measure::{Comparison, Mode};

/// The time of OpenKruise's own handler in process, including its patch, in microseconds, by number of SidecarSets, of
/// which one matched. Measured separately, on a machine of the same class.
pub const OPENKRUISE: [(usize, f64); 4] = [(1, 91.0), (10, 110.0), (100, 233.0), (1_000, 1_457.0)];

/// A promise and the measured value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Goal {
    /// The promise.
    pub what: String,
    /// The measured value.
    pub found: f64,
    /// The maximum.
    pub limit: f64,
    /// The unit of both.
    pub unit: &'static str,
}

impl Goal {
    /// Whether the promise is kept.
    pub fn holds(&self) -> bool {
        self.found <= self.limit
    }
}

/// Returns the promises that the rows of the report cover.
pub fn goals(report: &Report) -> Vec<Goal> {
    let mut goals = Vec::new();
    let mut add = |what: String, found: Option<f64>, limit: Option<f64>, unit| {
        if let (Some(found), Some(limit)) = (found, limit) {
            goals.push(Goal { what, found, limit, unit });
        }
    };
    for (mode, name) in [(Mode::Warm, "the module alone"), (Mode::Kwctl, "as kwctl bench")] {
        let timed = times(report, "pod/bundle/100/1", mode);
        add(
            format!("warm, {name}, a bundle of 100, 1 matching: 1.5 × accept everything + 60 µs"),
            timed.map(|times| micro(times.policy.median)),
            timed.map(|times| 1.5 * micro(times.empty.median) + 60.0),
            "µs",
        );
    }
    for (sets, limit) in [(1, 90.0), (100, 230.0), (1_000, 700.0)] {
        add(
            format!("warm, the module alone, a bundle of {sets}, 1 matching"),
            times(report, &format!("pod/bundle/{sets}/1"), Mode::Warm).map(|times| micro(times.policy.median)),
            Some(limit),
            "µs",
        );
    }
    for form in ["bundle", "bundle-ref"] {
        let fresh = times(report, &format!("pod/{form}/1000/1"), Mode::Fresh);
        add(
            format!("fresh, a {form} of 1,000, 1 matching, to accept everything with empty settings"),
            fresh.map(|times| times.policy.median / times.empty.median),
            Some(2.0),
            "×",
        );
    }
    let slope = slope(report, "bundle", Mode::Warm);
    add(
        "warm, one more set of a bundle that does not match, with copying it".to_owned(),
        slope.map(|slope| slope.policy),
        Some(100.0),
        "ns",
    );
    let memory = report.row("pod/bundle/1000/10").map(|row| whole(row.policy.memory) / 1e6);
    add("memory of an evaluation with a bundle of 1,000, 10 matching".to_owned(), memory, Some(8.0), "MB");
    goals
}

/// The cost of one more SidecarSet that does not match.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Slope {
    /// Nanoseconds of our module.
    pub policy: f64,
    /// Nanoseconds of the policy that accepts everything: copying and skipping the settings.
    pub baseline: f64,
    /// Instructions of our module.
    pub instructions: f64,
    /// Bytes of the settings.
    pub bytes: f64,
}

/// Returns the slope between 100 and 1,000 sets, none of which matches.
pub fn slope(report: &Report, form: &str, mode: Mode) -> Option<Slope> {
    let row = |sets: usize| report.row(&format!("pod/{form}/{sets}/0"));
    let (few, many) = (row(100)?, row(1_000)?);
    let per_set = |value: fn(&Row, Mode) -> Option<f64>| Some((value(many, mode)? - value(few, mode)?) / 900.0);
    Some(Slope {
        policy: per_set(|row, mode| row.timed(mode).map(|times| times.policy.median))?,
        baseline: per_set(|row, mode| row.timed(mode).map(|times| times.same.median))?,
        instructions: per_set(|row, _| Some(whole(row.policy.call)))?,
        bytes: per_set(|row, _| Some(row.settings as f64))?,
    })
}

fn times<'a>(report: &'a Report, scenario: &str, mode: Mode) -> Option<&'a Comparison> {
    report.row(scenario)?.timed(mode)
}

const fn micro(nanoseconds: f64) -> f64 {
    nanoseconds / 1e3
}

const fn whole(number: u64) -> f64 {
    number as f64
}
