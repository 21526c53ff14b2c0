//! The documents about alerts and metrics.

use std::collections::{BTreeMap, BTreeSet};

use pillion_testkit::metrics::{Catalogue, Metric};

use super::{RUNBOOK, rules, string, text, words};

/// Returns the sections of the runbook below headings that name alerts.
fn sections() -> BTreeMap<String, String> {
    let text = text(RUNBOOK);
    let parts = text.split("\n### ").skip(1).filter_map(|part| part.split_once('\n'));
    parts
        .filter(|(heading, _)| heading.starts_with("Pillion"))
        .map(|(heading, section)| {
            let end = section.find("\n## ").unwrap_or(section.len());
            (heading.to_owned(), section.split_at(end).0.to_owned())
        })
        .collect()
}

#[test]
fn every_alert_has_a_section_and_every_section_an_alert() {
    let sections = sections();
    let rules = rules();
    let alerts: BTreeSet<_> = rules.iter().map(|rule| string(&rule["alert"]).to_owned()).collect();
    assert_eq!(alerts, sections.keys().cloned().collect());
    for rule in &rules {
        let (name, url) = (string(&rule["alert"]), string(&rule["annotations"]["runbook_url"]));
        let anchor = name.to_ascii_lowercase();
        assert_eq!(url, format!("https://github.com/pillion/pillion/blob/main/{RUNBOOK}#{anchor}"));
    }
}

#[test]
fn every_section_says_what_it_means_how_to_look_and_what_to_do() {
    for (name, section) in sections() {
        let at: Vec<_> = ["**Meaning.**", "**Look.**", "**Do.**"].map(|part| section.find(part)).into();
        assert!(at.iter().all(Option::is_some) && at.is_sorted(), "{name}: {at:?}");
        assert!(section.contains("```sh\n"), "{name} shows no command");
    }
}

/// Other documents name alerts, too.
#[test]
fn alerts_that_documents_name_exist() {
    let rules = rules();
    let alerts: BTreeSet<_> = rules.iter().map(|rule| string(&rule["alert"])).collect();
    for document in ["docs/serve.md", "docs/controller.md", "docs/rollouts.md", "docs/certificates.md", RUNBOOK] {
        let text = text(document);
        let named = words(&text, "Pillion").into_iter().filter(|word| !["Pillion"].contains(word));
        for name in named {
            assert!(alerts.contains(name), "{document} names {name}");
        }
    }
}

/// Returns the names that documents use: without the ends of a histogram's series.
fn names(process: &str) -> BTreeMap<String, Metric> {
    let listed = Catalogue::listed(process).0.into_iter();
    let is_main = |name: &str, kind: &str| kind != "histogram" || name.ends_with("_bucket");
    listed
        .filter(|(name, metric)| is_main(name, &metric.kind))
        .map(|(name, metric)| (name.trim_end_matches("_bucket").to_owned(), metric))
        .collect()
}

/// The row of a table about a metric has its labels; for the values, readers go to the list or to `/metrics`.
#[test]
fn every_metric_is_documented_with_its_labels() {
    for (process, documents) in
        [("server", &["docs/serve.md"][..]), ("controller", &["docs/controller.md", "docs/rollouts.md"])]
    {
        let text: String = documents.iter().map(|document| text(document)).collect();
        for (name, metric) in names(process) {
            let is_about = |line: &&str| {
                let first = line.strip_prefix('|').and_then(|line| line.split('|').next());
                first.is_some_and(|cell| words(cell, "").contains(name.as_str()))
            };
            let row = text.lines().find(is_about);
            let row = row.unwrap_or_else(|| panic!("{documents:?} have no row about {name}"));
            for label in metric.labels.keys().filter(|label| *label != "le") {
                assert!(row.contains(&format!("`{label}`")), "the row about {name} does not name the label {label}");
            }
        }
    }
}

#[test]
fn metrics_that_documents_name_exist() {
    let mut known: BTreeSet<String> = ["server", "controller"].iter().flat_map(|it| names(it).into_keys()).collect();
    known.extend(names("kubewarden").into_keys());
    let folder = crate::support::files::root().join("docs");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for prefix in ["pillion_", "kubewarden_policy_"] {
            for name in words(&text, prefix) {
                // A crate and its modules, and the beginning of many metrics.
                let is_other = ["pillion_controller_", "pillion_policy"].contains(&name);
                assert!(is_other || known.contains(name), "{} names {name}", path.display());
            }
        }
    }
}
