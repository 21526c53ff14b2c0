//! The rules: queries, texts, unit tests.

use super::query::Known;
use super::{UNIT_TESTS, list, placeholders, rules, string, yaml};

#[test]
fn every_alert_asks_for_what_exists() {
    let known = Known::all();
    for rule in rules() {
        let (name, expr) = (string(&rule["alert"]), string(&rule["expr"]));
        let query = known.read(expr).unwrap_or_else(|problems| panic!("{name}: {}", problems.join("\n")));
        for label in placeholders(&rule["annotations"].to_string(), "$labels.") {
            assert!(query.labels.contains(&label), "{name}: the result has no label {label}");
        }
    }
}

#[test]
fn every_alert_says_how_bad_it_is_and_what_to_do() {
    for rule in rules() {
        let name = string(&rule["alert"]);
        assert!(name.starts_with("Pillion"), "{name}");
        assert!(["critical", "warning", "info"].contains(&string(&rule["labels"]["severity"])), "{name}");
        assert!(rule["for"].is_string(), "{name}: one bad scrape is no reason to call a person");
        for text in ["summary", "description"] {
            let text = string(&rule["annotations"][text]);
            assert!(text.len() > 20 && !text.contains('\n'), "{name}: {text}");
        }
        assert!(!string(&rule["annotations"]["summary"]).ends_with('.'), "{name}");
        // A description has at least two sentences: the problem and the remedy.
        let description = string(&rule["annotations"]["description"]);
        assert!(description.ends_with('.') && description.contains(". "), "{name}: {description}");
    }
}

#[test]
fn names_are_unique() {
    let rules = rules();
    let mut names: Vec<_> = rules.iter().map(|rule| string(&rule["alert"])).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

/// The queries of the unit tests about an alert, each with whether it must fire.
fn tested(alert: &str) -> Vec<bool> {
    let query = format!("ALERTS{{alertname=\"{alert}\", alertstate=\"firing\"}}");
    let tests = yaml(UNIT_TESTS);
    let checks = list(&tests["tests"]).iter().flat_map(|test| list(&test["promql_expr_test"]).to_vec());
    checks
        .filter(|check| string(&check["expr"]) == query)
        .map(|check| !list(&check["exp_samples"]).is_empty())
        .collect()
}

#[test]
fn every_alert_has_a_unit_test_that_fires_it_and_one_that_does_not() {
    for rule in rules() {
        let name = string(&rule["alert"]);
        let tested = tested(name);
        assert!(tested.contains(&true), "{UNIT_TESTS} has no test that fires {name}");
        assert!(tested.contains(&false), "{UNIT_TESTS} has no test that does not fire {name}");
    }
}

/// A misspelt series would make a test that does not fire pass for the wrong reason.
#[test]
fn the_series_of_unit_tests_exist() {
    let (known, tests) = (Known::all(), yaml(UNIT_TESTS));
    for series in list(&tests["tests"]).iter().flat_map(|test| list(&test["input_series"]).to_vec()) {
        let series = string(&series["series"]);
        known.read(series).unwrap_or_else(|problems| panic!("{}", problems.join("\n")));
    }
}
