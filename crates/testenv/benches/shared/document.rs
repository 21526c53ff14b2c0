//! Figures in docs/benchmarks.md: tables, and what they were measured with.

use std::fmt::Write as _;
use std::process::Command;

/// The marks of one benchmark in docs/benchmarks.md: the lines before and after its figures.
pub struct Marks {
    pub start: &'static str,
    pub end: &'static str,
}

impl Marks {
    /// Returns the document with the figures between the marks replaced by these.
    pub fn place(&self, document: &str, figures: &str) -> String {
        let Self { start, end } = self;
        let (before, rest) = document.split_once(start).unwrap_or_else(|| panic!("the document has no line {start}"));
        let (_, after) = rest.split_once(end).unwrap_or_else(|| panic!("the document has no line {end}"));
        [before, start, "\n", figures, "\n", end, after].concat()
    }
}

/// Returns the commit and the machine, such as `Commit 0123456789, 2 × AMD EPYC, linux x86_64`.
pub fn conditions() -> String {
    let answer = Command::new("git").args(["rev-parse", "--short=10", "HEAD"]).output();
    let revision = answer.map(|answer| String::from_utf8_lossy(&answer.stdout).trim().to_owned()).unwrap_or_default();
    format!("Commit {revision}, {}", machine())
}

/// Returns a description such as `2 × AMD EPYC`. The model is omitted, because it is meaningless for a shared machine.
fn machine() -> String {
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let models: Vec<&str> = processors
        .lines()
        .filter_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map(|(_, model)| model)
        .collect();
    let model: Vec<&str> = models.first().unwrap_or(&"").split(' ').take(2).collect();
    format!("{} × {}, {} {}", models.len(), model.join(" "), std::env::consts::OS, std::env::consts::ARCH)
}

/// Returns a table with columns as wide as their content.
pub fn table(head: &[&str], lines: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    let mut push = |cells: Vec<String>| {
        for (cell, width) in cells.iter().zip(&widths) {
            let _ = write!(text, "| {cell:<width$} ");
        }
        text.push_str("|\n");
    };
    push(head.iter().map(|name| (*name).to_owned()).collect());
    push(widths.iter().map(|width| "-".repeat(*width)).collect());
    for line in lines {
        push(line.clone());
    }
    text
}
