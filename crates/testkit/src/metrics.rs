//! The metrics that Pillion gives, with their labels. A test of each process compares the lists in `metrics/` with the
//! process's own output; tests of alerts, dashboards and documents compare with the lists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::module::workspace;

/// Stands for the values of a label that has no closed set of values.
pub const ANY: &str = "*";

/// The processes whose metrics are listed. Kubewarden's list is written by hand from its reference.
pub const PROCESSES: [&str; 3] = ["server", "controller", "kubewarden"];

/// The series of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metric {
    /// `counter`, `gauge`, `histogram` or `info`.
    pub kind: String,
    /// The text for people.
    pub help: String,
    /// The labels with their values, or with [`ANY`].
    pub labels: BTreeMap<String, BTreeSet<String>>,
}

/// Metrics by the name of their series: `pillion_conversions_total`, `pillion_evaluation_duration_seconds_bucket`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue(pub BTreeMap<String, Metric>);

impl Catalogue {
    /// Reads a text in the format of `OpenMetrics`.
    pub fn of_text(text: &str) -> Self {
        let (mut kinds, mut helps) = (BTreeMap::new(), BTreeMap::new());
        let mut metrics: BTreeMap<String, Metric> = BTreeMap::new();
        for line in text.lines() {
            if let Some((family, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
                kinds.insert(family, kind);
            } else if let Some((family, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
                helps.insert(family, help);
            } else if !line.starts_with('#') && !line.is_empty() {
                let (series, _) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
                let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
                let family = ["", "_total", "_info", "_bucket", "_sum", "_count"].iter().find_map(|end| {
                    let family = name.strip_suffix(end)?;
                    Some((*kinds.get(family)?, *helps.get(family)?))
                });
                let (kind, help) = family.unwrap_or_else(|| panic!("no # TYPE and # HELP: {name}"));
                let metric = metrics.entry(name.to_owned()).or_default();
                (metric.kind, metric.help) = (kind.to_owned(), help.trim_end_matches('.').to_owned());
                for (label, value) in pairs(labels.trim_end_matches('}')) {
                    let value = if label == "le" { ANY } else { value };
                    metric.labels.entry(label.to_owned()).or_default().insert(value.to_owned());
                }
            }
        }
        Self(metrics)
    }

    /// Reads the list of a process: one of [`PROCESSES`].
    pub fn listed(process: &str) -> Self {
        let path = path(process);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let list: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let metric = |value: &Value| Metric {
            kind: text(&value["type"]),
            help: text(&value["help"]),
            labels: value["labels"]
                .as_object()
                .expect("labels")
                .iter()
                .map(|(label, values)| (label.clone(), values.as_array().expect("values").iter().map(text).collect()))
                .collect(),
        };
        Self(list.as_object().expect("metrics").iter().map(|(name, value)| (name.clone(), metric(value))).collect())
    }

    /// Compares the list of a process with the metrics that it gives when all have a value. With `PILLION_RENEW=1`,
    /// writes the list.
    pub fn is_listed(&self, process: &str) {
        if std::env::var_os("PILLION_RENEW").is_some() {
            fs::write(path(process), self.to_json()).expect("the list can be written");
        }
        assert_eq!(
            self,
            &Self::listed(process),
            "{} is not what the code gives; PILLION_RENEW=1 renews it",
            path(process).display()
        );
    }

    /// Returns the series of a running process that differ from the list: unknown names, labels and values.
    pub fn surprises(&self, list: &Self) -> Vec<String> {
        let mut surprises = Vec::new();
        for (name, metric) in &self.0 {
            let Some(known) = list.0.get(name) else {
                surprises.push(format!("{name} is not listed"));
                continue;
            };
            if (&metric.kind, &metric.help) != (&known.kind, &known.help) {
                surprises.push(format!("{name} has another type or help"));
            }
            if !metric.labels.keys().eq(known.labels.keys()) {
                surprises.push(format!("{name} has the labels {:?}", metric.labels.keys()));
            }
            for (label, values) in &metric.labels {
                let is_known = |value: &&String| known.values(label).is_none_or(|known| known.contains(*value));
                surprises.extend(values.iter().filter(|v| !is_known(v)).map(|v| format!("{name}{{{label}=\"{v}\"}}")));
            }
        }
        surprises
    }

    fn to_json(&self) -> String {
        let metric = |metric: &Metric| json!({"type": metric.kind, "help": metric.help, "labels": metric.labels});
        let list: Map<String, Value> = self.0.iter().map(|(name, of)| (name.clone(), metric(of))).collect();
        serde_json::to_string_pretty(&list).expect("a list is JSON") + "\n"
    }
}

impl Metric {
    /// Returns the values of a label; `None` if it may have any.
    pub fn values(&self, label: &str) -> Option<&BTreeSet<String>> {
        self.labels.get(label).filter(|values| !values.contains(ANY))
    }
}

fn path(process: &str) -> PathBuf {
    workspace().join(format!("crates/testkit/metrics/{process}.json"))
}

/// Splits `a="b",c="d"`. The values that Pillion's metrics have contain neither quotes nor commas.
fn pairs(labels: &str) -> impl Iterator<Item = (&str, &str)> {
    labels.split(',').filter(|pair| !pair.is_empty()).map(|pair| {
        let (label, value) = pair.split_once('=').unwrap_or_else(|| panic!("no label: {pair}"));
        (label, value.trim_matches('"'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP a_requests Requests.\n# TYPE a_requests counter\na_requests_total{path=\"/x\",code=\"200\"} 1\n\
        a_requests_total{path=\"/y\",code=\"200\"} 1\n# HELP b B.\n# TYPE b histogram\nb_bucket{le=\"+Inf\"} 1\n# EOF\n";

    #[test]
    fn the_output_of_a_process_is_compared_with_a_list() {
        let given = Catalogue::of_text(TEXT);
        assert_eq!(given.0["a_requests_total"].help, "Requests");
        assert_eq!(given.0["a_requests_total"].labels["path"], BTreeSet::from(["/x".to_owned(), "/y".to_owned()]));
        assert_eq!(given.0["b_bucket"].values("le"), None);
        assert_eq!(given.surprises(&given), [""; 0]);

        let other = |from: &str, to: &str| Catalogue::of_text(&TEXT.replace(from, to)).surprises(&given);
        assert_eq!(other("a_requests_total{", "a_requests_info{"), ["a_requests_info is not listed"]);
        assert_eq!(other("code=", "status="), ["a_requests_total has the labels [\"path\", \"status\"]"]);
        assert_eq!(other("/y", "/z"), ["a_requests_total{path=\"/z\"}"]);
        assert_eq!(other("counter", "gauge"), ["a_requests_total has another type or help"]);
    }
}
