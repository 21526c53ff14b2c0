//! The measurements of one run, as text and as JSON.
#![allow(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::Args;
use super::measured::Measured;
use super::send::Check;
use crate::usage::Memory;

/// The highest ratio of p99 to p50 that the report calls even.
const SPREAD: f64 = 10.0;

/// Measurements in the units of the report.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) reviews: u64,
    pub(super) concurrency: u16,
    pub(super) connections: usize,
    pub(super) protocol: &'static str,
    /// The length of the longest review in bytes.
    pub(super) longest: usize,
    pub(super) seed: u64,
    pub(super) check: Check,
    pub(super) seconds: f64,
    pub(super) lost: u64,
    pub(super) checked: u64,
    pub(super) wrong: u64,
    pub(super) differing: u64,
    /// Latencies in milliseconds.
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
    /// The server's memory before and after.
    pub(super) memory: Option<(Memory, Memory)>,
    /// CPU time for each review, in microseconds: the server's, and that of this program.
    pub(super) server: Option<f64>,
    pub(super) client: Option<f64>,
}

impl Report {
    pub(super) fn new(args: &Args, measured: &Measured) -> Self {
        let at = |quantile: f64| milliseconds(measured.part.latency.value_at_quantile(quantile));
        let reviews = args.reviews.max(1) as f64;
        let each = |cpu: Option<Duration>| cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / reviews);
        Self {
            reviews: args.reviews,
            concurrency: args.concurrency,
            connections: measured.connections,
            protocol: measured.protocol,
            longest: measured.longest,
            seed: args.seed,
            check: args.check,
            seconds: measured.took.as_secs_f64(),
            lost: measured.part.tally.lost,
            checked: measured.part.tally.checked,
            wrong: measured.part.tally.wrong,
            differing: measured.part.tally.differing,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: milliseconds(measured.part.latency.max()),
            memory: measured.memory,
            server: each(measured.server),
            client: each(measured.client),
        }
    }

    pub(super) fn throughput(&self) -> f64 {
        if self.seconds > 0.0 { self.reviews as f64 / self.seconds } else { 0.0 }
    }

    fn spread(&self) -> f64 {
        if self.p50 > 0.0 { self.p99 / self.p50 } else { 0.0 }
    }

    /// Returns how many requests were on their way, and over which connections.
    pub(super) fn shape(&self) -> String {
        format!("{} at a time over {} connections with {}", self.concurrency, self.connections, self.protocol)
    }

    /// Returns the report as a table.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut row = |name: &str, value: String| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name:<12}{value}");
        };
        row("reviews", format!("{} in {:.1} s, {}, seed {}", self.reviews, self.seconds, self.shape(), self.seed));
        let compared = match self.check {
            Check::Every => String::new(),
            Check::Around => format!(" of {} before and after", self.checked),
        };
        row("answers", format!("{} lost, {} wrong{compared}{}", self.lost, self.wrong, self.differences()));
        row("throughput", format!("{:.0} per second", self.throughput()));
        row(
            "latency",
            format!("p50 {:.2} ms, p90 {:.2} ms, p99 {:.2} ms, max {:.2} ms", self.p50, self.p90, self.p99, self.max),
        );
        let is_even = if self.spread() <= SPREAD { "within" } else { "not within" };
        row("spread", format!("p99 is {:.1} times p50, {is_even} {SPREAD:.0}", self.spread()));
        let client = self.client.map_or_else(String::new, |cpu| format!(", {cpu:.0} µs by this program"));
        row(
            "CPU",
            match self.server {
                Some(cpu) => format!("{cpu:.0} µs for each review by the server{client}"),
                None => format!("the server's is not known{client}"),
            },
        );
        row(
            "memory",
            match &self.memory {
                Some((before, after)) => format!(
                    "{:.1} MiB at the start, {:.1} MiB at the end, {:.1} MiB at most",
                    mebibytes(before.now),
                    mebibytes(after.now),
                    mebibytes(after.peak)
                ),
                None => "not known".to_owned(),
            },
        );
        text
    }

    /// Returns how many right answers have other operations than the module's.
    fn differences(&self) -> String {
        match self.differing {
            0 => String::new(),
            count => format!(", {count} with other patch operations than the module's"),
        }
    }

    /// Returns the report as an object.
    pub(super) fn json(&self) -> Value {
        json!({
            "reviews": self.reviews, "concurrency": self.concurrency, "connections": self.connections,
            "protocol": self.protocol, "longestReviewBytes": self.longest, "seed": self.seed,
            "lost": self.lost, "checked": self.checked, "wrong": self.wrong, "otherOperations": self.differing,
            "seconds": self.seconds, "reviewsPerSecond": self.throughput(),
            "latencyMilliseconds": {"p50": self.p50, "p90": self.p90, "p99": self.p99, "max": self.max},
            "p99OverP50": self.spread(),
            "cpuMicrosecondsPerReview": {"server": self.server, "client": self.client},
            "memoryBytes": self.memory.map(|(before, after)| {
                json!({"start": before.now, "end": after.now, "peak": after.peak})
            }),
        })
    }
}

fn milliseconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1_000.0
}

pub(super) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
