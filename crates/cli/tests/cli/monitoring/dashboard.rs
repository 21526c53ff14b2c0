//! The dashboard: queries, data sources, texts.

use std::collections::BTreeSet;

use pillion_testkit::metrics::{Catalogue, PROCESSES};
use serde_json::Value;

use super::query::Known;
use super::{DASHBOARD, list, placeholders, string, words, yaml};

/// Replaces the variables of Grafana.
fn plain(query: &str) -> String {
    query.replace("$__rate_interval", "5m").replace("$namespace", ".*").replace("$instance", ".*")
}

fn panels(dashboard: &Value) -> Vec<&Value> {
    list(&dashboard["panels"]).iter().filter(|panel| panel["type"] != "row").collect()
}

#[test]
fn every_panel_asks_for_what_exists() {
    let (dashboard, known) = (yaml(DASHBOARD), Known::all());
    for panel in panels(&dashboard) {
        let title = string(&panel["title"]);
        assert!(!list(&panel["targets"]).is_empty(), "{title}");
        for target in list(&panel["targets"]) {
            let expr = plain(string(&target["expr"]));
            let query = known.read(&expr).unwrap_or_else(|problems| panic!("{title}: {}", problems.join("\n")));
            for label in placeholders(string(&target["legendFormat"]), "") {
                assert!(query.labels.contains(&label), "{title}: the result has no label {label}: {expr}");
            }
        }
    }
    for annotation in list(&dashboard["annotations"]["list"]) {
        if let Some(expr) = annotation["expr"].as_str() {
            known.read(expr).unwrap_or_else(|problems| panic!("{}", problems.join("\n")));
        }
    }
}

/// Each metric has a panel, unless an alert or another figure is calculated from it.
#[test]
fn every_metric_is_on_the_dashboard() {
    let text = super::text(DASHBOARD);
    let shown: BTreeSet<_> = words(&text, "").into_iter().collect();
    let names = PROCESSES.iter().flat_map(|process| Catalogue::listed(process).0);
    // Only one series of a histogram is listed in queries, and a reload is seen in the age of the settings.
    let is_other = |name: &str| name.ends_with("_sum") || name.ends_with("_count") || name.contains("settings_reloads");
    let missing: Vec<_> =
        names.map(|(name, _)| name).filter(|name| !is_other(name) && !shown.contains(name.as_str())).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn every_panel_says_what_it_shows() {
    let dashboard = yaml(DASHBOARD);
    for panel in panels(&dashboard) {
        let title = string(&panel["title"]);
        assert!(string(&panel["description"]).ends_with('.'), "{title}: its description is no sentence");
        assert!(!string(&panel["fieldConfig"]["defaults"]["unit"]).is_empty(), "{title}");
    }
    let mut ids: Vec<_> = list(&dashboard["panels"]).iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "the ids of panels are unique");
}

#[test]
fn panels_do_not_overlap() {
    let dashboard = yaml(DASHBOARD);
    let mut taken = BTreeSet::new();
    for panel in list(&dashboard["panels"]) {
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{}", panel["title"]);
        for cell in (at("x")..at("x") + at("w")).flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y))) {
            assert!(taken.insert(cell), "{} is on another panel", panel["title"]);
        }
    }
}

/// The people who import it choose the data source, the namespace and the instance.
#[test]
fn nothing_is_fixed_to_one_installation() {
    let dashboard = yaml(DASHBOARD);
    let mut sources = Vec::new();
    let mut open = vec![&dashboard];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => {
                sources.extend(members.get("datasource"));
                open.extend(members.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    assert!(sources.len() > 50);
    for source in sources {
        let uid = string(&source["uid"]);
        assert!(uid == "${datasource}" || uid == "-- Grafana --", "{source}");
    }
    let variables: Vec<_> = list(&dashboard["templating"]["list"]).iter().map(|it| string(&it["name"])).collect();
    assert_eq!(variables, ["datasource", "namespace", "instance"]);
    for panel in panels(&dashboard) {
        for target in list(&panel["targets"]) {
            let expr = string(&target["expr"]);
            let is_filtered = expr.contains("$namespace") && expr.contains("$instance");
            assert!(is_filtered || expr.contains("kubewarden_"), "{}: {expr}", panel["title"]);
        }
    }
}
