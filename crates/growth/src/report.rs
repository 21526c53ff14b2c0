//! The figures as Markdown tables.
#![allow(clippy::cast_precision_loss, reason = "counts and bytes are far below 2^52")]

use std::time::Duration;

use pillion_bench::report::machine::conditions;
use pillion_bench::report::markdown::{Marks, table};

use crate::counts::{Count, is_write};
use crate::measured::{Phase, Point};
use crate::plan::Size;

/// The place of the figures in docs/benchmarks.md.
pub const MARKS: Marks = ["<!-- growth: `make bench-growth-docs` writes it -->\n", "<!-- end of growth -->\n"];

/// Returns the tables of all clusters.
pub fn render(points: &[Point]) -> String {
    let pod = points.iter().map(|point| point.pod).max().unwrap_or_default();
    let head = format!("{}; a Pod has {:.1} KB.\n", conditions(), pod as f64 / 1e3);
    [head, starts(points), rollouts(points), rests(points), requests(points)].join("\n")
}

fn size(size: Size) -> Vec<String> {
    [size.pods, size.sidecar_sets, size.namespaces].map(grouped).to_vec()
}

/// The first columns of each table.
const SIZE: [&str; 3] = ["Pods", "SidecarSets", "namespaces"];

/// Returns one table, with a row for each cluster.
fn rows(columns: &[&str], points: &[Point], cells: impl Fn(&Point) -> Vec<String>) -> String {
    let head: Vec<&str> = SIZE.iter().chain(columns).copied().collect();
    let lines = points.iter().map(|point| [size(point.size), cells(point)].concat());
    table(&head, &lines.collect::<Vec<_>>())
}

fn starts(points: &[Point]) -> String {
    let columns = [
        "first start: ready",
        "last write",
        "CPU",
        "writes",
        "memory",
        "at most",
        "restart: ready",
        "CPU",
        "memory",
        "at most",
    ];
    rows(&columns, points, |Point { start, restart, .. }| {
        vec![
            seconds(start.time),
            start.last_write.map_or_else(String::new, seconds),
            seconds(start.cpu),
            grouped(usize::try_from(writes(start)).unwrap_or_default()),
            mebibytes(start.memory),
            mebibytes(start.peak),
            seconds(restart.time),
            seconds(restart.cpu),
            mebibytes(restart.memory),
            mebibytes(restart.peak),
        ]
    })
}

fn rollouts(points: &[Point]) -> String {
    let columns = [
        "sets rolled out",
        "their Pods",
        "a client needs",
        "first rollout",
        "of that",
        "CPU for each Pod",
        "next rollout",
        "of that",
        "CPU for each Pod",
        "memory at most",
        "change to admission",
        "`pillion serve` at most",
    ];
    rows(&columns, points, |Point { rollout, admission, .. }| {
        let of = |phase: &Phase| {
            let ratio = phase.time.as_secs_f64() / rollout.baseline.as_secs_f64().max(f64::EPSILON);
            let cpu = phase.cpu.as_secs_f64() * 1e3 / rollout.pods.max(1) as f64;
            [seconds(phase.time), format!("{ratio:.2}"), format!("{cpu:.2} ms")]
        };
        let head = [grouped(rollout.sidecar_sets), grouped(rollout.pods), seconds(rollout.baseline)];
        let end = [mebibytes(rollout.next.peak), seconds(admission.time), mebibytes(admission.peak)];
        [head, of(&rollout.first), of(&rollout.next), end].concat()
    })
}

fn rests(points: &[Point]) -> String {
    let columns =
        ["CPU, 1 % replaced a minute", "requests a minute", "watched a minute", "CPU, at rest", "requests a minute"];
    rows(&columns, points, |Point { churn, rest, .. }| {
        let a_minute = |count: u64, phase: &Phase| count as f64 * 60.0 / phase.time.as_secs_f64().max(f64::EPSILON);
        vec![
            share(churn),
            format!("{:.0}", a_minute(all(churn).requests, churn)),
            format!("{:.1} MB", a_minute(watched(churn), churn) / 1e6),
            share(rest),
            format!("{:.0}", a_minute(all(rest).requests, rest)),
        ]
    })
}

/// Returns the requests of the largest cluster.
fn requests(points: &[Point]) -> String {
    let Some(largest) = points.iter().max_by_key(|point| point.size.pods) else { return String::new() };
    let rollout = &largest.rollout;
    let phases = [&largest.start, &rollout.first, &rollout.next, &largest.churn, &largest.rest, &largest.restart];
    let mut names: Vec<&String> = phases.iter().flat_map(|phase| phase.counted.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let lines = names.into_iter().map(|name| {
        let cell = |phase: &&Phase| phase.counted.get(name).map_or_else(String::new, cell);
        std::iter::once(name.clone()).chain(phases.iter().map(cell)).collect()
    });
    let lines: Vec<Vec<String>> = lines.collect();
    if lines.is_empty() {
        return String::new();
    }
    let head = format!("requests beside {} Pods", grouped(largest.size.pods));
    let columns = ["first start", "first rollout", "next rollout", "1 % replaced a minute", "at rest", "restart"];
    table(&[&[head.as_str()], &columns[..]].concat(), &lines)
}

fn cell(count: &Count) -> String {
    format!("{}, {:.1} MB", grouped(usize::try_from(count.requests).unwrap_or_default()), count.bytes as f64 / 1e6)
}

fn all(phase: &Phase) -> Count {
    let sum = |of: fn(&Count) -> u64| phase.counted.values().map(of).sum();
    Count { requests: sum(|count| count.requests), bytes: sum(|count| count.bytes) }
}

fn writes(phase: &Phase) -> u64 {
    phase.counted.iter().filter(|(name, _)| is_write(name)).map(|(_, count)| count.requests).sum()
}

/// Returns the bytes of watches.
pub fn watched(phase: &Phase) -> u64 {
    phase.counted.iter().filter(|(name, _)| name.starts_with("watch ")).map(|(_, count)| count.bytes).sum()
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Returns a number of bytes in mebibytes.
pub fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// Returns the part of one core that was used.
fn share(phase: &Phase) -> String {
    let part = phase.cpu.as_secs_f64() / phase.time.as_secs_f64().max(f64::EPSILON);
    format!("{:.2} % of a core", part * 100.0)
}

/// Returns a number with commas between thousands.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::counts::Counted;
    use crate::measured::{Admission, Rollout};

    #[rstest]
    #[case(7, "7")]
    #[case(1_000, "1,000")]
    #[case(1_234_567, "1,234,567")]
    fn thousands_are_grouped(#[case] number: usize, #[case] expected: &str) {
        assert_eq!(grouped(number), expected);
    }

    #[test]
    fn a_report_has_a_row_for_each_cluster_and_the_requests_of_the_largest() {
        let phase = |time, cpu, name: &str| Phase {
            time: Duration::from_secs(time),
            last_write: Some(Duration::from_secs(time)),
            cpu: Duration::from_millis(cpu),
            memory: 100 << 20,
            peak: 200 << 20,
            counted: Counted::from([(name.to_owned(), Count { requests: 30, bytes: 1_500_000 })]),
        };
        let point = |pods| Point {
            size: Size::of_pods(pods),
            pod: 7_000,
            start: phase(2, 500, "create roles"),
            rollout: Rollout {
                sidecar_sets: 2,
                pods: 100,
                baseline: Duration::from_secs(10),
                first: phase(20, 200, "patch pods/status"),
                next: phase(12, 100, "patch pods"),
            },
            admission: Admission { time: Duration::from_millis(300), peak: 50 << 20 },
            churn: phase(60, 600, "watch pods"),
            rest: phase(30, 30, "update leases"),
            restart: phase(1, 400, "list pods"),
        };
        let text = render(&[point(1_000), point(10_000)]);
        for expected in [
            "| 1,000  | 100         | 200        | 2.0 s",
            "| 10,000 | 200         | 2,000      |",
            "| 20.0 s        | 2.00    | 2.00 ms          | 12.0 s       | 1.20    | 1.00 ms ",
            "1.00 % of a core",
            "0.10 % of a core",
            "| watch pods ",
            "| 30, 1.5 MB ",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
    }
}
