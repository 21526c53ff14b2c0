//! The figures as Markdown tables, for docs/benchmarks.md and for terminals.
#![allow(clippy::cast_precision_loss, reason = "counts of requests are far below 2^52")]

use std::fmt::Write as _;

use pillion_bench::report::machine::conditions;
use pillion_bench::report::markdown::{Marks, table};

use crate::scale::check::Found;
use crate::scale::corpus::Size;
use crate::scale::process::Usage;
use crate::scale::requests::count;
use crate::scale::{Phase, Stretch};

/// The place of the figures.
pub const MARKS: Marks = ["<!-- scale: `make bench-scale-docs` writes it -->\n", "<!-- end of scale -->\n"];

/// The memory of a process.
pub struct Memory {
    who: &'static str,
    usage: Usage,
}

impl Memory {
    pub fn new(who: &'static str, usage: Usage) -> Self {
        Self { who, usage }
    }
}

/// What the controller did in some time.
pub struct Observed {
    /// What happened meanwhile, after `requests in 300 s `.
    pub what: String,
    pub stretch: Stretch,
}

/// All measurements.
pub struct Report {
    pub size: Size,
    pub found: Found,
    pub phases: Vec<Phase>,
    pub memory: Vec<Memory>,
    pub observed: Vec<Observed>,
    /// The number of lists without pages, and of requests that were refused with 429.
    pub unpaged: usize,
    pub refused: usize,
}

impl Report {
    pub fn render(&self) -> String {
        let Self { size, found, .. } = self;
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{}; {} namespaces, {} SidecarSets, {} Pods, seed {}. Needed were {} merged accounts, {} Secrets with \
             tokens, and a bundle of {:.1} KB in {}.\n",
            conditions(),
            size.namespaces,
            size.sidecar_sets,
            size.pods,
            size.seed,
            found.merged,
            found.secrets,
            found.bundle_bytes as f64 / 1e3,
            if found.config_maps == 1 {
                "one ConfigMap".to_owned()
            } else {
                format!("{} ConfigMaps", found.config_maps)
            }
        );
        let lines: Vec<Vec<String>> = self.phases.iter().map(phase).collect();
        let head = ["what happens", "last write", "compared", "namespaces", "lists", "other reads", "writes", "CPU"];
        let _ = writeln!(text, "{}", table(&head, &lines));
        let memory_line = |memory: &Memory| {
            let Usage { resident, peak, anonymous, .. } = memory.usage;
            let mebibytes = |count: f64| format!("{count:.0} MiB");
            vec![memory.who.to_owned(), mebibytes(resident), mebibytes(anonymous), mebibytes(peak)]
        };
        let lines: Vec<Vec<String>> = self.memory.iter().map(memory_line).collect();
        let _ = writeln!(text, "{}", table(&["memory", "resident", "of it, no files", "at most"], &lines));
        for observed in &self.observed {
            let _ = writeln!(text, "{}", stretch(observed));
        }
        let _ = writeln!(
            text,
            "Of all lists, {} were without pages; {} requests were sent away with 429.",
            self.unpaged, self.refused
        );
        text
    }
}

/// Returns the table of requests and processor time.
fn stretch(Observed { what, stretch }: &Observed) -> String {
    let Stretch { requests, seconds, cpu, reconciliations } = stretch;
    let line = |what: String, count: usize| vec![what, count.to_string(), format!("{:.3}", count as f64 / seconds)];
    let mut lines: Vec<Vec<String>> = count(requests).into_iter().map(|(what, count)| line(what, count)).collect();
    lines.push(line("all".to_owned(), requests.len()));
    lines.push(vec![
        "reconciled namespaces".to_owned(),
        format!("{reconciliations:.0}"),
        format!("{:.3}", reconciliations / seconds),
    ]);
    lines.push(vec!["CPU".to_owned(), format!("{cpu:.2} s"), format!("{:.4}", cpu / seconds)]);
    let head = format!("requests in {seconds:.0} s {what}");
    table(&[&head, "", "per second"], &lines)
}

fn phase(phase: &Phase) -> Vec<String> {
    let requests = |is_it: fn(&str) -> bool| -> usize {
        phase.requests.iter().filter(|(what, _)| is_it(what)).map(|(_, count)| count).sum()
    };
    vec![
        phase.name.to_owned(),
        if phase.written > 0.0 { format!("{:.1} s", phase.written) } else { String::new() },
        format!("{:.1} s", phase.compared),
        format!("{:.0}", phase.reconciliations),
        requests(|what| what.starts_with("list ")).to_string(),
        requests(|what| what.starts_with("get ")).to_string(),
        requests(|what| !what.starts_with("list ") && !what.starts_with("get ")).to_string(),
        format!("{:.1} s", phase.cpu),
    ]
}
