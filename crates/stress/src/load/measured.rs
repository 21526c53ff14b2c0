//! What a run has found: answers, latencies, and the resources of the server.

use std::time::Duration;

use anyhow::Context as _;
use hdrhistogram::Histogram;

use super::answers::Verdict;
use crate::usage::{Memory, Usage};

/// The number of problems to show.
const SHOWN: usize = 5;
/// The maximum length of a problem's text, in characters.
const LENGTH: usize = 600;

/// Answers, counted by what they are worth.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// The number of requests without an answer, or with a status other than 200.
    pub(super) lost: u64,
    /// The number of compared answers.
    pub(super) checked: u64,
    /// The number of these that are wrong.
    pub(super) wrong: u64,
    /// The number of these that are right, but have other patch operations than the module's.
    pub(super) differing: u64,
    /// Descriptions of the first few lost or wrong answers.
    pub(super) problems: Vec<String>,
}

impl Tally {
    pub(super) fn lose(&mut self, uid: &str, problem: &str) {
        self.lost += 1;
        self.tell(uid, problem);
    }

    pub(super) fn count(&mut self, uid: &str, verdict: Verdict) {
        self.checked += 1;
        match verdict {
            Verdict::Same => {}
            Verdict::Differs => self.differing += 1,
            Verdict::Wrong(problem) => {
                self.wrong += 1;
                self.tell(uid, &problem);
            }
        }
    }

    fn tell(&mut self, uid: &str, problem: &str) {
        if self.problems.len() < SHOWN {
            let problem: String = problem.chars().take(LENGTH).collect();
            self.problems.push(format!("{uid}: {problem}"));
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.lost += other.lost;
        self.checked += other.checked;
        self.wrong += other.wrong;
        self.differing += other.differing;
        self.problems.extend(other.problems);
        self.problems.truncate(SHOWN);
    }
}

/// What was measured with one connection, or with several.
pub(super) struct Part {
    pub(super) tally: Tally,
    /// Latency in microseconds.
    pub(super) latency: Histogram<u64>,
}

impl Part {
    pub(super) fn new() -> anyhow::Result<Self> {
        // Up to a minute, with three significant digits.
        let latency = Histogram::new_with_bounds(1, 60_000_000, 3).context("a histogram")?;
        Ok(Self { tally: Tally::default(), latency })
    }

    pub(super) fn add(&mut self, other: Self) -> anyhow::Result<()> {
        self.tally.add(other.tally);
        self.latency.add(&other.latency).context("a histogram")
    }
}

/// The measurements of a run.
pub(super) struct Measured {
    /// The answers of the whole run, and the latencies of its measured part.
    pub(super) part: Part,
    /// The time from the first measured request to the last answer.
    pub(super) took: Duration,
    pub(super) connections: usize,
    /// The HTTP version.
    pub(super) protocol: &'static str,
    /// The length of the longest review in bytes.
    pub(super) longest: usize,
    /// The server's memory before the first measured request and after the last; `None` if it is unknown.
    pub(super) memory: Option<(Memory, Memory)>,
    /// The CPU time of the server during the measured part; `None` if its process is unknown.
    pub(super) server: Option<Duration>,
    /// The CPU time of this process during the measured part.
    pub(super) client: Option<Duration>,
}

impl Measured {
    pub(super) fn is_right(&self) -> bool {
        self.part.tally.lost == 0 && self.part.tally.wrong == 0
    }
}

/// Returns the CPU time between two readings.
pub(super) fn cpu(before: Option<Usage>, after: Option<Usage>) -> Option<Duration> {
    after?.cpu.checked_sub(before?.cpu)
}
