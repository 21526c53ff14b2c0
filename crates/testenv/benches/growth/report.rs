//! The figures of two clusters as a Markdown table.
#![allow(clippy::cast_precision_loss, reason = "counts and bytes are far below 2^52")]

use std::time::Duration;

use pillion_bench::report::machine::conditions;
use pillion_bench::report::markdown::{Marks, table};
use pillion_growth::measured::{Phase, Point};
use pillion_growth::report::{grouped, mebibytes};

/// The place of the table in docs/benchmarks.md.
pub const MARKS: Marks =
    ["<!-- growth, compared: `make bench-growth-docs` writes it -->\n", "<!-- end of growth, compared -->\n"];

/// A figure of a cluster.
#[derive(Clone, Copy)]
enum Figure {
    Length(usize),
    Memory(u64),
    /// The part of one core that is used.
    Share(f64),
    Time(Duration),
}

/// Returns the figures of both clusters side by side.
pub fn render(real: &Point, simulated: &Point) -> String {
    let size = real.size;
    let head = format!(
        "{}; {} Pods, {} SidecarSets, {} namespaces.\n",
        conditions(),
        grouped(size.pods),
        grouped(size.sidecar_sets),
        grouped(size.namespaces)
    );
    let lines = figures(real).into_iter().zip(figures(simulated)).map(|((name, real), (_, simulated))| {
        let ratio = real.number() / simulated.number();
        let ratio = if ratio.is_finite() { format!("{ratio:.2}") } else { String::new() };
        vec![name, real.text(), simulated.text(), ratio]
    });
    [head, table(&["", "real API server", "simulation", "ratio"], &lines.collect::<Vec<_>>())].join("\n")
}

fn figures(point: &Point) -> Vec<(String, Figure)> {
    let Point { start, rollout, admission, churn, rest, restart, .. } = point;
    let row = |name: &str, figure| (name.to_owned(), figure);
    let of_rollout = |name: &str, figure| (format!("{name} {} Pods", grouped(rollout.pods)), figure);
    vec![
        row("a Pod", Figure::Length(point.pod)),
        row("first start: ready", Figure::Time(start.time)),
        row("first start: CPU", Figure::Time(start.cpu)),
        row("first start: memory at most", Figure::Memory(start.peak)),
        row("restart: ready", Figure::Time(restart.time)),
        row("restart: CPU", Figure::Time(restart.cpu)),
        row("restart: memory at most", Figure::Memory(restart.peak)),
        of_rollout("a client updates", Figure::Time(rollout.baseline)),
        of_rollout("first rollout to", Figure::Time(rollout.first.time)),
        of_rollout("CPU of the first rollout to", Figure::Time(rollout.first.cpu)),
        of_rollout("next rollout to", Figure::Time(rollout.next.time)),
        of_rollout("CPU of the next rollout to", Figure::Time(rollout.next.cpu)),
        row("change to admission", Figure::Time(admission.time)),
        row("CPU, 1 % of the Pods replaced a minute", used(churn)),
        row("CPU, at rest", used(rest)),
    ]
}

fn used(phase: &Phase) -> Figure {
    Figure::Share(phase.cpu.as_secs_f64() / phase.time.as_secs_f64().max(f64::EPSILON))
}

impl Figure {
    fn number(self) -> f64 {
        match self {
            Self::Length(length) => length as f64,
            Self::Memory(bytes) => bytes as f64,
            Self::Share(share) => share,
            Self::Time(time) => time.as_secs_f64(),
        }
    }

    fn text(self) -> String {
        match self {
            Self::Length(length) => format!("{:.1} KB", length as f64 / 1e3),
            Self::Memory(bytes) => mebibytes(bytes),
            Self::Share(share) => format!("{:.2} % of a core", share * 100.0),
            Self::Time(time) => format!("{:.2} s", time.as_secs_f64()),
        }
    }
}
