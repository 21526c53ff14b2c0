//! Measurements as text and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Args;
use super::send::{Measured, Memory};

/// The highest ratio of p99 to p50 that the report calls even.
const SPREAD: f64 = 10.0;

/// Measurements in the units of the report.
pub(super) struct Report {
    reviews: u64,
    concurrency: u16,
    connections: u16,
    seed: u64,
    seconds: f64,
    lost: u64,
    wrong: u64,
    /// Latencies in milliseconds.
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
    memory: Option<(Memory, Memory)>,
}

impl Report {
    pub(super) fn of(args: &Args, measured: &Measured) -> Self {
        let at = |quantile: f64| milliseconds(measured.latency.value_at_quantile(quantile));
        Self {
            reviews: args.reviews,
            concurrency: args.concurrency,
            connections: args.connections,
            seed: args.seed,
            seconds: measured.took.as_secs_f64(),
            lost: measured.lost,
            wrong: measured.wrong,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: milliseconds(measured.latency.max()),
            memory: measured.before.zip(measured.after),
        }
    }

    fn throughput(&self) -> f64 {
        if self.seconds > 0.0 { count(self.reviews) / self.seconds } else { 0.0 }
    }

    fn spread(&self) -> f64 {
        if self.p50 > 0.0 { self.p99 / self.p50 } else { 0.0 }
    }

    /// Returns the report as a table.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut row = |name: &str, value: String| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name:<12}{value}");
        };
        row(
            "reviews",
            format!(
                "{} in {:.1} s, {} at a time over {} connections, seed {}",
                self.reviews, self.seconds, self.concurrency, self.connections, self.seed
            ),
        );
        row("answers", format!("{} lost, {} wrong", self.lost, self.wrong));
        row("throughput", format!("{:.0} per second", self.throughput()));
        row(
            "latency",
            format!("p50 {:.2} ms, p90 {:.2} ms, p99 {:.2} ms, max {:.2} ms", self.p50, self.p90, self.p99, self.max),
        );
        let is_even = if self.spread() <= SPREAD { "within" } else { "not within" };
        row("spread", format!("p99 is {:.1} times p50, {is_even} {SPREAD:.0}", self.spread()));
        row(
            "memory",
            match &self.memory {
                Some((before, after)) => format!(
                    "{:.1} MiB at the start, {:.1} MiB at the end, {:.1} MiB at most",
                    mebibytes(before.now),
                    mebibytes(after.now),
                    mebibytes(after.peak)
                ),
                None => "not told by the server".to_owned(),
            },
        );
        text
    }

    /// Returns the report as an object.
    pub(super) fn json(&self) -> Value {
        json!({
            "reviews": self.reviews, "concurrency": self.concurrency, "connections": self.connections, "seed": self.seed,
            "lost": self.lost, "wrong": self.wrong, "seconds": self.seconds, "reviewsPerSecond": self.throughput(),
            "latencyMilliseconds": {"p50": self.p50, "p90": self.p90, "p99": self.p99, "max": self.max},
            "p99OverP50": self.spread(),
            "memoryBytes": self.memory.map(|(before, after)| {
                json!({"start": before.now, "end": after.now, "peak": after.peak})
            }),
        })
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn count(number: u64) -> f64 {
    number as f64
}

fn milliseconds(microseconds: u64) -> f64 {
    count(microseconds) / 1_000.0
}

fn mebibytes(bytes: u64) -> f64 {
    count(bytes) / f64::from(1 << 20)
}
