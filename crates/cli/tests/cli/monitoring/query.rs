//! Queries, parsed and compared with the metrics that exist.

use std::collections::{BTreeMap, BTreeSet};

use pillion_testkit::metrics::{Catalogue, Metric, PROCESSES};
use promql_parser::label::{MatchOp, Matcher};
use promql_parser::parser::{self, Expr, LabelModifier, VectorSelector};

/// The labels that Prometheus adds to each series of a Pod.
const TARGET: [&str; 7] = ["container", "endpoint", "instance", "job", "namespace", "pod", "service"];
/// The series that Prometheus itself records about alerts.
const RECORDED: &str = "ALERTS";

/// The metrics that queries may use.
pub struct Known(BTreeMap<String, Metric>);

/// A query that is valid.
#[derive(Debug, PartialEq, Eq)]
pub struct Query {
    /// The metrics that it reads.
    pub metrics: BTreeSet<String>,
    /// The labels that its result can have.
    pub labels: BTreeSet<String>,
}

impl Known {
    /// Returns the metrics of all processes.
    pub fn all() -> Self {
        let mut all: BTreeMap<_, _> = PROCESSES.iter().flat_map(|process| Catalogue::listed(process).0).collect();
        let any = BTreeSet::from(["*".to_owned()]);
        let labels = ["alertname", "alertstate", "severity"].map(|label| (label.to_owned(), any.clone()));
        all.insert(RECORDED.to_owned(), Metric { labels: labels.into(), ..Metric::default() });
        Self(all)
    }

    /// Reads a query. The error lists everything in it that does not exist.
    pub fn read(&self, query: &str) -> Result<Query, Vec<String>> {
        let expr = parser::parse(query).map_err(|error| vec![format!("{error}: {query}")])?;
        let mut walk = Walk { known: self, metrics: BTreeSet::new(), problems: Vec::new() };
        let labels = walk.labels(&expr);
        let Walk { metrics, problems, .. } = walk;
        if problems.is_empty() { Ok(Query { metrics, labels }) } else { Err(problems) }
    }
}

struct Walk<'a> {
    known: &'a Known,
    metrics: BTreeSet<String>,
    problems: Vec<String>,
}

impl Walk<'_> {
    /// Returns the labels that the result of an expression can have.
    fn labels(&mut self, expr: &Expr) -> BTreeSet<String> {
        match expr {
            Expr::VectorSelector(selector) => self.selector(selector),
            Expr::MatrixSelector(matrix) => self.selector(&matrix.vs),
            Expr::Subquery(sub) => self.labels(&sub.expr),
            Expr::Paren(paren) => self.labels(&paren.expr),
            Expr::Unary(unary) => self.labels(&unary.expr),
            Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::Extension(_) => BTreeSet::new(),
            Expr::Aggregate(aggregate) => {
                let inner = self.labels(&aggregate.expr);
                match &aggregate.modifier {
                    None => BTreeSet::new(),
                    Some(LabelModifier::Include(by)) => self.exist(&by.labels, &inner),
                    Some(LabelModifier::Exclude(without)) => {
                        let without = self.exist(&without.labels, &inner);
                        inner.difference(&without).cloned().collect()
                    }
                }
            }
            Expr::Binary(binary) => {
                let (left, right) = (self.labels(&binary.lhs), self.labels(&binary.rhs));
                if let Some(LabelModifier::Include(on) | LabelModifier::Exclude(on)) =
                    binary.modifier.as_ref().and_then(|modifier| modifier.matching.as_ref())
                {
                    self.exist(&on.labels, &left);
                    self.exist(&on.labels, &right);
                }
                if left.is_empty() { right } else { left }
            }
            Expr::Call(call) => {
                let mut labels: BTreeSet<String> = call.args.args.iter().flat_map(|arg| self.labels(arg)).collect();
                match call.func.name {
                    "histogram_quantile" if !labels.remove("le") => {
                        self.problems.push(format!("{expr} needs the label le"));
                    }
                    "absent" => labels.clear(),
                    _ => {}
                }
                labels
            }
        }
    }

    fn selector(&mut self, selector: &VectorSelector) -> BTreeSet<String> {
        let Some(name) = &selector.name else {
            self.problems.push(format!("{selector} names no metric"));
            return BTreeSet::new();
        };
        let Some(metric) = self.known.0.get(name) else {
            self.problems.push(format!("no metric {name}"));
            return BTreeSet::new();
        };
        self.metrics.insert(name.clone());
        for matcher in &selector.matchers.matchers {
            let Matcher { op, name: label, value } = matcher;
            if TARGET.contains(&label.as_str()) {
                continue;
            }
            if !metric.labels.contains_key(label) {
                self.problems.push(format!("no label {label}: {selector}"));
            } else if let Some(values) = metric.values(label) {
                let is_list = value.chars().all(|c| c.is_ascii_alphanumeric() || "_|-/".contains(c));
                let parts: Vec<&str> = if is_list { value.split('|').collect() } else { Vec::new() };
                self.problems.extend(
                    parts
                        .iter()
                        .filter(|part| !values.contains(**part))
                        .map(|part| format!("no value {part}: {selector}")),
                );
                let matches = |found: &String| match op {
                    MatchOp::Equal => found == value,
                    MatchOp::NotEqual => found != value,
                    MatchOp::Re(regex) => regex.is_match(found),
                    MatchOp::NotRe(regex) => !regex.is_match(found),
                };
                if !values.iter().any(matches) {
                    self.problems.push(format!("nothing matches {matcher}: {selector}"));
                }
            }
        }
        metric.labels.keys().cloned().chain(TARGET.map(str::to_owned)).collect()
    }

    fn exist(&mut self, labels: &[String], all: &BTreeSet<String>) -> BTreeSet<String> {
        let missing =
            labels.iter().filter(|label| !all.contains(*label)).map(|label| format!("no label {label} there"));
        self.problems.extend(missing);
        labels.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::syntax("sum(", "")]
    #[case::metric("rate(pillion_admission_request_total[5m])", "no metric pillion_admission_request_total")]
    #[case::label("pillion_conversions_total{outcome=\"failure\"}", "no label outcome")]
    #[case::value("pillion_conversions_total{result=\"failed\"}", "no value failed")]
    #[case::one_of_values("pillion_http_rejections_total{reason=~\"late|lost\"}", "no value lost")]
    #[case::pattern("pillion_http_rejections_total{reason=~\"x.+\"}", "nothing matches")]
    #[case::by("sum by (reason) (pillion_conversions_total)", "no label reason there")]
    #[case::without("sum without (reason) (pillion_conversions_total)", "no label reason there")]
    #[case::on("pillion_build_info * on (kind) pillion_cache_age_seconds", "no label kind there")]
    #[case::aggregated("sum by (path) (sum(pillion_admission_requests_total))", "no label path there")]
    #[case::le("histogram_quantile(0.9, sum(pillion_admission_duration_seconds_bucket))", "needs the label le")]
    #[case::no_name("{namespace=\"x\"}", "names no metric")]
    fn what_does_not_exist_is_found(#[case] query: &str, #[case] problem: &str) {
        let problems = Known::all().read(query).unwrap_err().join("\n");
        assert!(problems.contains(problem), "{problems}");
    }

    #[test]
    fn the_labels_of_a_result_are_known() {
        let read = |query| Known::all().read(query).unwrap().labels.into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(read("sum by (path) (pillion_admission_requests_total) > 0"), "path");
        assert_eq!(read("absent(pillion_build_info)"), "");
        assert!(read("pillion_settings_current == 0").contains("pod"));
        let quantile =
            "histogram_quantile(0.9, sum by (le, path) (rate(pillion_admission_duration_seconds_bucket[5m])))";
        assert_eq!(read(quantile), "path");
    }
}
