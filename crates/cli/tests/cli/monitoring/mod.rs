//! The alerts and the dashboard of the chart fit what Pillion measures and what the documents say: every query has
//! metrics, labels and values that exist, every alert has a runbook section and unit tests, and every metric is
//! documented. `cluster::alerts` of `pillion-testenv` runs the unit tests.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::files::{objects, text};

mod alerts;
mod dashboard;
mod documents;
mod query;

const ALERTS: &str = "charts/pillion/files/alerts.yaml";
const UNIT_TESTS: &str = "charts/pillion/tests/alerts_test.yaml";
const DASHBOARD: &str = "charts/pillion/files/dashboards/pillion.json";
const RUNBOOK: &str = "docs/operations.md";

fn yaml(name: &str) -> Value {
    let [document] = <[_; 1]>::try_from(objects(name, &text(name))).expect("one document");
    document
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}"))
}

fn string(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

/// Returns the rules of all groups.
fn rules() -> Vec<Value> {
    list(&yaml(ALERTS)["groups"]).iter().flat_map(|group| list(&group["rules"]).to_vec()).collect()
}

/// Returns the words of a text that begin with `prefix` and go on with letters, digits and `_`.
fn words<'a>(text: &'a str, prefix: &str) -> BTreeSet<&'a str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| word.starts_with(prefix)).collect()
}

/// Returns the labels that a template between these marks names: `{{ $labels.pod }}`, `{{pod}}`.
fn placeholders(text: &str, prefix: &str) -> Vec<String> {
    let parts = text.split("{{").skip(1).filter_map(|part| part.split_once("}}"));
    let inner = parts.map(|(inner, _)| inner.trim());
    inner.filter_map(|inner| inner.strip_prefix(prefix)).map(str::to_owned).collect()
}
