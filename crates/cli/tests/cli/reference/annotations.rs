//! `docs/reference/annotations.md`, from `keys.yaml`, and the comparison of `keys.yaml` with the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use pillion_identity::names as identity;
use pillion_sidecarset::names;
use regex_lite::Regex;
use serde::Deserialize;

use super::page::{Page, code};
use crate::support::files::{root, text};

const KEYS: &str = "crates/cli/tests/cli/reference/keys.yaml";

/// Crates that are no part of what runs in a cluster.
const OTHER_CRATES: [&str; 6] = ["accept-everything", "bench", "fuzz", "stress", "testenv", "testkit"];

/// The beginnings of several keys, by which the sources recognise them.
const PREFIXES: [&str; 5] =
    ["pillion.dev/", "pillion.dev/service-account-", "kruise.io/sidecarset-", "apps.kruise.io/", "kubernetes.io/"];

/// Words of the same form that are no keys of Pillion: the types of Secrets, the folder of a token, labels of nodes,
/// what controllers give the Pods of workloads, and the taints that such Pods tolerate.
const OTHER_WORDS: [&str; 22] = [
    "kubernetes.io/tls",
    "kubernetes.io/service-account-token",
    "kubernetes.io/serviceaccount",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "topology.kubernetes.io/zone",
    "apps.kruise.io/cloneset-instance-id",
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-completion-index",
    "batch.kubernetes.io/job-index-failure-count",
    "batch.kubernetes.io/job-name",
    "batch.kubernetes.io/job-tracking",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
    "statefulset.kubernetes.io/pod-name",
    // A resource and its group, as kubectl names them.
    "sidecarset.apps.kruise.io/",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    heading: String,
    #[serde(default)]
    text: String,
    keys: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    key: String,
    kind: Kind,
    /// The objects, if the section has several kinds.
    #[serde(default)]
    on: String,
    /// Who writes it.
    by: String,
    means: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Annotation,
    Label,
    Finalizer,
}

impl Kind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Annotation => "annotation",
            Self::Label => "label",
            Self::Finalizer => "finalizer",
        }
    }
}

fn sections() -> Vec<Section> {
    serde_saphyr::from_str(&text(KEYS)).unwrap()
}

#[test]
fn the_page_of_the_annotations_is_what_the_list_says() {
    let mut page = Page::new(
        "annotations.md",
        "Annotations, labels and finalizers",
        "Every key that Pillion reads or writes. A key that ends in `/` is the beginning of a key. Keys under `kruise.io` \
         are OpenKruise's, with the same meaning. [audit.md](../audit.md) lists the audit annotations, which are no part \
         of an object.",
    );
    for Section { heading, text, keys } in sections() {
        page.add(format!("## {heading}"));
        if !text.is_empty() {
            page.add(text);
        }
        let has_kinds = keys.iter().any(|key| !key.on.is_empty());
        let rows: Vec<_> = keys
            .iter()
            .map(|key| {
                let on = has_kinds.then(|| if key.on.is_empty() { "all".to_owned() } else { key.on.clone() });
                let first = [code(&key.key), key.kind.as_str().to_owned()];
                first.into_iter().chain(on).chain([key.by.clone(), key.means.clone()]).collect()
            })
            .collect();
        let head: &[&str] = if has_kinds {
            &["key", "kind", "on", "written by", "means"]
        } else {
            &["key", "kind", "written by", "means"]
        };
        page.table(head, &rows);
    }
    page.is_written();
}

/// Returns the Rust files of a folder, except for tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let is_test = |path: &Path| path.file_stem().is_some_and(|stem| stem == "tests" || stem == "properties");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| !is_test(path));
    let found = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    found.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// Returns the words of the sources that have the form of a key, each with a file that has it.
fn words() -> BTreeMap<String, PathBuf> {
    let key = Regex::new(r"(?:[a-z0-9-]+\.)*(?:pillion\.dev|kruise\.io|kubernetes\.io|gardener\.cloud)/[A-Za-z0-9.-]*");
    let (key, version) = (key.unwrap(), Regex::new(r"/v[0-9]+[a-z0-9]*$").unwrap());
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let crates = crates.filter(|path| !OTHER_CRATES.iter().any(|name| path.ends_with(name)));
    let folders = crates.map(|path| path.join("src")).chain([root().join("src")]);
    let mut words = BTreeMap::new();
    for file in folders.flat_map(|folder| sources(&folder)) {
        let text = fs::read_to_string(&file).unwrap();
        let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
        let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        for found in key.find_iter(&code.join("\n")) {
            let word = found.as_str().trim_end_matches('.');
            if !version.is_match(word) {
                words.entry(word.to_owned()).or_insert_with(|| file.clone());
            }
        }
    }
    words
}

#[test]
fn every_key_of_the_sources_is_listed() {
    let listed: BTreeSet<String> = sections().into_iter().flat_map(|section| section.keys).map(|key| key.key).collect();
    let is_known = |word: &str| listed.contains(word) || PREFIXES.contains(&word) || OTHER_WORDS.contains(&word);
    let words = words();
    let missing: Vec<_> = words.iter().filter(|(word, _)| !is_known(word)).collect();
    assert!(missing.is_empty(), "{KEYS} does not list {missing:#?}");
    let gone: Vec<_> = listed.iter().filter(|key| !words.contains_key(*key)).collect();
    assert!(gone.is_empty(), "no source has {gone:#?}");
    let stale: Vec<_> = OTHER_WORDS.iter().chain(&PREFIXES).filter(|word| !words.contains_key(**word)).collect();
    assert!(stale.is_empty(), "no source has {stale:#?}");
}

/// The search for words finds constants as they are used.
#[test]
fn keys_are_found_as_the_code_has_them() {
    let words = words();
    for key in [names::HASH, names::VERSION_PREFIX, names::CANARY, identity::SIDECAR_SETS, identity::FINALIZER_PREFIX] {
        assert!(words.contains_key(key), "{key}");
    }
}
