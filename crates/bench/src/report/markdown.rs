//! Renders a report as Markdown: the tables of docs/benchmarks.md, which are readable in a terminal, too.
#![allow(clippy::cast_precision_loss, reason = "counts of bytes and instructions are far below 2^52")]

use std::path::Path;

use anyhow::{Context as _, bail};

use super::goals::{self, Goal, OPENKRUISE};
use super::{Module, Report, Row};
use crate::measure::{Comparison, Mode};

/// The lines before and after the figures of one benchmark in docs/benchmarks.md.
pub type Marks = [&'static str; 2];

/// The marks of the report.
pub const MARKS: Marks = ["<!-- figures: `make bench-docs` writes them -->\n", "<!-- end of figures -->\n"];

/// Returns the whole report.
pub fn render(report: &Report) -> String {
    let Report { revision, machine, budget, .. } = report;
    let conditions =
        format!("Commit {revision}, {machine}; each policy of each row timed for {} ms.\n", budget.as_millis());
    [conditions, modules(report), rows(report), slopes(report), promises(&goals::goals(report))].join("\n")
}

/// Replaces the figures between the marks in a file by these.
///
/// # Errors
/// If the file cannot be read or written, or lacks the marks.
pub fn write_into(path: &Path, marks: Marks, figures: &str) -> anyhow::Result<()> {
    let name = || path.display().to_string();
    let document = std::fs::read_to_string(path).with_context(name)?;
    std::fs::write(path, place(&document, marks, figures).with_context(name)?).with_context(name)
}

fn place(document: &str, [start, end]: Marks, figures: &str) -> anyhow::Result<String> {
    let Some((before, rest)) = document.split_once(start) else { bail!("the document has no line {start}") };
    let Some((_, after)) = rest.split_once(end) else { bail!("the document has no line {end}") };
    Ok(format!("{before}{start}\n{figures}\n{end}{after}"))
}

fn modules(report: &Report) -> String {
    let line = |name: &str, module: &Module| {
        vec![
            name.to_owned(),
            format!("{}", module.bytes),
            format!("{:.0} ms", module.compile as f64 / 1e6),
            format!("{:.0} µs", module.instance.median / 1e3),
        ]
    };
    table(
        &["module", "bytes", "compiled in", "an instance"],
        &[line("policy", &report.policy), line("accept everything", &report.baseline)],
    )
}

fn rows(report: &Report) -> String {
    let lines: Vec<Vec<String>> = report.rows.iter().map(line).collect();
    table(&["scenario", "settings", "instructions", "memory", "warm", "as kwctl bench", "fresh", "OpenKruise"], &lines)
}

fn line(row: &Row) -> Vec<String> {
    let timed = |mode| row.timed(mode).map_or_else(String::new, comparison);
    vec![
        row.scenario.clone(),
        bytes(row.settings as f64),
        format!("{:.2} M", row.policy.call as f64 / 1e6),
        bytes(row.policy.memory as f64),
        timed(Mode::Warm),
        timed(Mode::Kwctl),
        timed(Mode::Fresh),
        openkruise(&row.scenario),
    ]
}

/// Returns the median and its ratios to the policy that accepts everything: with empty settings, and with the same
/// settings.
fn comparison(times: &Comparison) -> String {
    let (ours, empty, same) = (times.policy.median, times.empty.median, times.same.median);
    format!("{:.0} µs ({:.1}, {:.1})", ours / 1e3, ours / empty, ours / same)
}

/// Returns OpenKruise's figure if it was measured with this number of sets.
fn openkruise(scenario: &str) -> String {
    let parts: Vec<&str> = scenario.split('/').collect();
    let ["pod", "bundle" | "sets" | "bundle-ref", sets, "1"] = parts.as_slice() else { return String::new() };
    let figure = OPENKRUISE.iter().find(|(count, _)| *sets == count.to_string());
    figure.map_or_else(String::new, |(_, micros)| format!("{micros} µs"))
}

fn slopes(report: &Report) -> String {
    let modes = [(Mode::Warm, "warm"), (Mode::Fresh, "fresh")];
    let line = |form: &str, (mode, name): (Mode, &str)| {
        let slope = goals::slope(report, form, mode)?;
        Some(vec![
            format!("{form}, {name}"),
            format!("{:.0}", slope.bytes),
            format!("{:.0}", slope.instructions),
            format!("{:.0} ns", slope.policy),
            format!("{:.0} ns", slope.baseline),
        ])
    };
    let lines: Vec<_> =
        ["bundle", "sets"].into_iter().flat_map(|form| modes.map(|mode| line(form, mode))).flatten().collect();
    table(&["one more set that does not match", "bytes", "instructions", "policy", "accept everything"], &lines)
}

/// Returns a table of promises and measured values.
pub fn promises(goals: &[Goal]) -> String {
    let lines: Vec<Vec<String>> = goals
        .iter()
        .map(|goal| {
            vec![
                goal.what.clone(),
                format!("{:.1} {}", goal.limit, goal.unit),
                format!("{:.1} {}", goal.found, goal.unit),
                if goal.holds() { "yes" } else { "no" }.to_owned(),
            ]
        })
        .collect();
    table(&["promise", "at most", "measured", "kept"], &lines)
}

fn bytes(count: f64) -> String {
    if count >= 1e6 { format!("{:.1} MB", count / 1e6) } else { format!("{:.1} KB", count / 1e3) }
}

/// Returns a table whose columns are as wide as their content.
pub fn table(head: &[&str], lines: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count());
        cells.chain(head.get(column).map(|name| name.chars().count())).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let head = head.iter().map(|name| (*name).to_owned()).collect();
    let rule = widths.iter().map(|width| "-".repeat(*width)).collect();
    let row = |cells: &Vec<String>| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("| {cell:<width$} "));
        cells.collect::<String>() + "|\n"
    };
    [head, rule].iter().chain(lines).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned() {
        let text = table(&["a", "long"], &[vec!["µs".to_owned(), "1".to_owned()]]);
        assert_eq!(text, "| a  | long |\n| -- | ---- |\n| µs | 1    |\n");
    }

    #[test]
    fn figures_take_the_place_of_older_ones() {
        let [start, end] = MARKS;
        let document = format!("# Title\n{start}old\n{end}after\n");
        let placed = place(&document, MARKS, "new\n").unwrap();
        assert_eq!(placed, format!("# Title\n{start}\nnew\n\n{end}after\n"));
        assert_eq!(place(&placed, MARKS, "new\n").unwrap(), placed);
        assert!(place("# Title\n", MARKS, "new").is_err());
    }

    #[test]
    fn the_reference_was_measured_with_one_set_matching() {
        assert_eq!(openkruise("pod/bundle/100/1"), "233 µs");
        assert_eq!(openkruise("pod/sets/1000/1"), "1457 µs");
        for other in ["pod/bundle/100/3", "pod/bundle/3000/1", "pod/bundle/100/1/20k", "feature/plain"] {
            assert_eq!(openkruise(other), "");
        }
    }
}
