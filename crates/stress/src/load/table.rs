//! Several runs beside numbers of SidecarSets, as one table.

use std::fmt::Write as _;

use pillion_bench::report::machine;
use pillion_bench::report::markdown::{Marks, table};
use serde_json::{Value, json};

use super::report::{Report, mebibytes};

/// The marks of the table in docs/benchmarks.md.
pub(super) const MARKS: Marks = ["<!-- load: `make bench-load-docs` writes it -->\n", "<!-- end of load -->\n"];

/// One run.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) sidecar_sets: usize,
    /// The server, and the form of its settings if this program started it.
    pub(super) server: String,
    pub(super) report: Report,
}

/// Returns the runs as a table, with the conditions of all of them.
pub(super) fn text(rows: &[Row]) -> String {
    let mut text = String::new();
    if let Some(Row { report, .. }) = rows.first() {
        let _ = writeln!(
            text,
            "{}; {} reviews of {:.1} KB for each row, {}.\n",
            machine::conditions(),
            report.reviews,
            f64::from(u32::try_from(report.longest).unwrap_or(u32::MAX)) / 1e3,
            report.shape(),
        );
    }
    let head = ["SidecarSets", "server", "CPU for each review", "client", "p50", "p99", "per second", "memory at most"];
    text += &table(&head, &rows.iter().map(line).collect::<Vec<_>>());
    for Row { sidecar_sets, server, report } in rows {
        let mut note = |what: String| {
            let _ = writeln!(text, "\nBeside {sidecar_sets} SidecarSets, {server}: {what}.");
        };
        if report.lost + report.wrong > 0 {
            note(format!("{} answers were lost, {} wrong", report.lost, report.wrong));
        }
        if report.differing > 0 {
            let Report { differing, checked, .. } = report;
            note(format!("{differing} of {checked} compared answers have other patch operations than the module's"));
        }
    }
    text
}

fn line(Row { sidecar_sets, server, report }: &Row) -> Vec<String> {
    let known = |value: Option<String>| value.unwrap_or_else(|| "not known".to_owned());
    let micros = |cpu: Option<f64>| known(cpu.map(|cpu| format!("{cpu:.0} µs")));
    vec![
        sidecar_sets.to_string(),
        server.clone(),
        micros(report.server),
        micros(report.client),
        format!("{:.1} ms", report.p50),
        format!("{:.1} ms", report.p99),
        format!("{:.0}", report.throughput()),
        known(report.memory.map(|(_, after)| format!("{:.1} MiB", mebibytes(after.peak)))),
    ]
}

/// Returns the runs as a list of objects.
pub(super) fn json(rows: &[Row]) -> Value {
    let object = |row: &Row| {
        let mut object = json!({"sidecarSets": row.sidecar_sets, "server": row.server});
        if let (Some(object), Value::Object(report)) = (object.as_object_mut(), row.report.json()) {
            object.extend(report);
        }
        object
    };
    rows.iter().map(object).collect()
}

#[cfg(test)]
mod tests {
    use super::super::send::Check;
    use super::super::usage::Memory;
    use super::*;

    fn row(sidecar_sets: usize, server: &str) -> Row {
        let memory = |now: u64, peak: u64| Memory { now: now << 20, peak: peak << 20 };
        let report = Report {
            reviews: 20_000,
            concurrency: 8,
            connections: 4,
            protocol: "HTTP/2",
            longest: 10_800,
            seed: 1,
            check: Check::Around,
            seconds: 5.0,
            lost: 0,
            checked: 2,
            wrong: 0,
            differing: 0,
            p50: 1.94,
            p90: 3.0,
            p99: 4.5,
            max: 9.0,
            memory: Some((memory(30, 31), memory(31, 32))),
            server: Some(464.6),
            client: Some(41.0),
        };
        Row { sidecar_sets, server: server.to_owned(), report }
    }

    #[test]
    fn each_run_has_a_row() {
        let mut unknown = row(1_000, "/mutate-pod");
        (unknown.report.server, unknown.report.memory) = (None, None);
        let text = text(&[row(1, "pillion serve, bundle"), unknown]);
        let (conditions, rows) = text.split_once("\n\n").unwrap();
        assert!(
            conditions
                .ends_with("; 20000 reviews of 10.8 KB for each row, 8 at a time over 4 connections with HTTP/2.")
        );
        let cells =
            |line: &str| line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join(" | ");
        let rows: Vec<String> = rows.lines().skip(2).map(cells).collect();
        assert_eq!(
            rows,
            [
                "1 | pillion serve, bundle | 465 µs | 41 µs | 1.9 ms | 4.5 ms | 4000 | 32.0 MiB",
                "1000 | /mutate-pod | not known | 41 µs | 1.9 ms | 4.5 ms | 4000 | not known",
            ]
        );
    }

    #[test]
    fn what_is_wrong_with_the_answers_is_below_the_table() {
        let (mut lossy, mut other) = (row(10, "a"), row(100, "b"));
        (lossy.report.lost, lossy.report.wrong, other.report.differing) = (3, 1, 2);
        let text = text(&[row(1, "c"), lossy, other]);
        assert!(
            text.ends_with(
                "\n\nBeside 10 SidecarSets, a: 3 answers were lost, 1 wrong.\n\
             \nBeside 100 SidecarSets, b: 2 of 2 compared answers have other patch operations than the module's.\n"
            ),
            "{text}"
        );
        assert!(!text.contains("Beside 1 "), "{text}");
    }

    #[test]
    fn the_objects_name_sets_and_server() {
        let list = json(&[row(10, "a")]);
        assert_eq!(
            (&list[0]["sidecarSets"], &list[0]["server"], &list[0]["seconds"]),
            (&json!(10), &json!("a"), &json!(5.0))
        );
        assert_eq!(list[0]["cpuMicrosecondsPerReview"], json!({"server": 464.6, "client": 41.0}));
    }
}
