//! `docs/reference/metrics.md`, from the lists of metrics that tests compare with each process.

use std::collections::{BTreeMap, BTreeSet};

use pillion_testkit::metrics::{Catalogue, Metric};

use super::page::{Page, code};

/// The processes, each with a heading and with what a reader needs to know about its metrics.
const PROCESSES: [(&str, &str, &str); 3] = [
    (
        "server",
        "The admission server",
        "`pillion serve` gives these at `/metrics` of its port for probes ([serve.md](../serve.md#metrics)).",
    ),
    (
        "controller",
        "The controllers",
        "`pillion controller` gives these at `/metrics` of its port for probes ([controller.md](../controller.md#metrics)). \
         Metrics of a controller that does not run are missing.",
    ),
    (
        "kubewarden",
        "Kubewarden's policy server",
        "With Kubewarden, the policy server counts admissions. These are the metrics of it that Pillion's alerts and \
         dashboard use; Kubewarden has more.",
    ),
];

/// The ends of the series of a histogram.
const SERIES: [&str; 3] = ["_bucket", "_sum", "_count"];

#[test]
fn the_page_of_the_metrics_is_what_the_processes_give() {
    let mut page = Page::new(
        "metrics.md",
        "Metrics",
        "All metrics in the format of OpenMetrics, with their labels. A label without values in this list has no closed \
         set of values. A histogram has three series, whose names end in `_bucket` (with the label `le`), `_sum` and \
         `_count`. [operations.md](../operations.md) has the alerts and the dashboard that use them.",
    );
    for (process, heading, text) in PROCESSES {
        page.add(format!("## {heading}"));
        page.add(text);
        let rows: Vec<_> = families(process)
            .iter()
            .map(|(name, metric)| vec![code(name), metric.kind.clone(), labels(metric), format!("{}.", metric.help)])
            .collect();
        assert!(!rows.is_empty(), "{process} has no metrics");
        page.table(&["metric", "type", "labels", "means"], &rows);
    }
    page.is_written();
}

/// Returns the metrics of a process by name; the series of a histogram are one.
fn families(process: &str) -> BTreeMap<String, Metric> {
    let mut families: BTreeMap<String, Metric> = BTreeMap::new();
    for (name, metric) in Catalogue::listed(process).0 {
        let is_histogram = metric.kind == "histogram";
        let name = SERIES.iter().find_map(|end| name.strip_suffix(end).filter(|_| is_histogram)).unwrap_or(&name);
        families.entry(name.to_owned()).or_insert(metric).labels.remove("le");
    }
    families
}

fn labels(metric: &Metric) -> String {
    let values = |label: &str| metric.values(label).map(|values| values.iter().map(|value| code(value)));
    let shown = metric.labels.keys().map(|label| match values(label) {
        Some(values) => format!("{}: {}", code(label), values.collect::<Vec<_>>().join(", ")),
        None => code(label),
    });
    shown.collect::<Vec<_>>().join("; ")
}

/// A process without a section would have metrics that no page names.
#[test]
fn every_process_has_a_section() {
    let sections: BTreeSet<&str> = PROCESSES.iter().map(|(process, ..)| *process).collect();
    assert_eq!(sections, pillion_testkit::metrics::PROCESSES.into_iter().collect());
}
