//! The figures as Markdown tables.
#![allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]

use std::collections::BTreeMap;

use pillion_bench::report::machine::conditions;
use pillion_bench::report::markdown::{Marks, table};

use crate::scale::requests::count;
use crate::scene::{Size, Stretch};

/// The place of the figures.
pub const MARKS: Marks = ["<!-- rollouts: `make bench-scale-docs` writes it -->\n", "<!-- end of rollouts -->\n"];

/// All measurements.
pub struct Report {
    pub size: Size,
    /// The upgrades by a client that knows when a Pod is ready.
    pub needed: Stretch,
    pub start: Stretch,
    pub rollout: Stretch,
    /// The time in which nothing changes.
    pub rest: Stretch,
}

impl Report {
    pub fn render(&self) -> String {
        let Self { size, needed, start, rollout, rest } = self;
        let pods = size.changed * size.pods_of_a_set();
        let head = format!(
            "{}; {} Pods in {} namespaces, {} SidecarSets. The images of {} SidecarSets changed at once, so {pods} Pods were \
             upgraded, in {} waves of {}. A container restarted in {:.1} s.\n\n",
            conditions(),
            size.pods,
            size.namespaces,
            size.sidecar_sets,
            size.changed,
            size.waves(),
            size.changed * size.at_once(),
            size.restart.as_secs_f64(),
        );
        let line = |what: &str, value: String| vec![what.to_owned(), value];
        let ratio = rollout.seconds / needed.seconds;
        let lines = [
            line("start, until each SidecarSet has its status", format!("{:.1} s", start.seconds)),
            line("CPU of the start", format!("{:.1} s", start.cpu)),
            line("memory after the start, at most", format!("{:.0} MiB", start.usage.peak)),
            line("rollout by a client that knows when a Pod is ready", format!("{:.1} s", needed.seconds)),
            line("rollout by the controller", format!("{:.1} s, {ratio:.2} times that", rollout.seconds)),
            line("CPU of the rollout for each Pod", format!("{:.2} ms", rollout.cpu * 1e3 / pods as f64)),
            line("memory after the rollout, at most", format!("{:.0} MiB", rollout.usage.peak)),
            line(
                &format!("requests in {:.0} s in which nothing changes, except watches and the Lease", rest.seconds),
                rest.requests.iter().filter(|request| !request.is_idle()).count().to_string(),
            ),
            line("CPU of that time", format!("{:.2} s", rest.cpu)),
        ];
        let counts: BTreeMap<String, usize> = count(&rollout.requests);
        let requests: Vec<Vec<String>> = counts
            .into_iter()
            .map(|(what, count)| vec![what, count.to_string(), format!("{:.2}", count as f64 / pods as f64)])
            .collect();
        let requests = table(&["requests of the rollout", "", "for each Pod"], &requests);
        format!("{head}{}\n{requests}", table(&["", ""], &lines))
    }
}
