//! The specification in `docs/spec`: every cited id exists, and a test cites every statement.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex_lite::Regex;
use rstest::rstest;

use pillion_samples::repository::{files, root};

/// The mark of a statement, section or document that no test cites. The reason follows.
const NOT_TESTED: &str = "Not tested: ";

/// `INJ-18`, `SAP-8c` (a row of a statement's table).
static CITATION: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b([A-Z]{3,5})-(\d{1,2})[a-l]?\b").unwrap());
/// `D14`, `E18`, `W1`: rules of Shoots and threats.
static SHORT_CITATION: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b([DEW])(\d{1,2})\b").unwrap());
/// The beginning of a statement: an item of a list, a row of a table, a row of docs/compatibility.md.
static STATEMENT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(?:\* \*\*|\| \*\*|\| )([A-Z]{3,5}-\d{1,2}|[DEW]\d{1,2})(?:\*\*| )").unwrap());
/// The name of a test or of a case. It may begin with several ids.
static TEST_NAME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?:\bfn |#\[case::)([a-z]{1,5}\d{1,2}[a-l]?(?:_\w+|\b))").unwrap());
static ID_IN_NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^([a-z]{1,5})(\d{1,2})[a-l]?$").unwrap());

/// A numbered statement of the specification.
struct Statement {
    /// The path of the document.
    document: PathBuf,
    /// The reason why no test cites it, if the statement, its section or its document has one.
    reason: Option<String>,
    /// Whether the reason is in the statement itself.
    is_alone: bool,
}

/// Returns every statement by its id. A duplicate id fails the test.
fn statements() -> BTreeMap<String, Statement> {
    let mut statements = BTreeMap::new();
    let mut documents = files(&root().join("docs/spec"), "md");
    // The index has a table of earlier ids, and `evidence.md` repeats ids to name their tests.
    documents.retain(|document| !document.ends_with("README.md") && !document.ends_with("evidence.md"));
    documents.push(root().join("docs/compatibility.md"));
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        let is_table_of_differences = document.ends_with("docs/compatibility.md");
        let (mut of_document, mut of_section, mut is_in_section) = (None, None, false);
        for line in text.lines() {
            if line.starts_with("## ") {
                (of_section, is_in_section) = (None, true);
            }
            if let Some(quoted) = line.strip_prefix("> ") {
                let of = if is_in_section { &mut of_section } else { &mut of_document };
                *of = reason(quoted).or(of.take());
            }
            let Some(found) = STATEMENT.captures(line) else { continue };
            let id = found[1].to_owned();
            // The table also has rows for statements of docs/spec.
            if is_table_of_differences && !id.starts_with("DIFF-") {
                continue;
            }
            let own = reason(line);
            let is_alone = own.is_some();
            let reason = own.or_else(|| of_section.clone()).or_else(|| of_document.clone());
            let statement = Statement { document: document.clone(), reason, is_alone };
            assert!(statements.insert(id.clone(), statement).is_none(), "{id} occurs twice");
        }
    }
    statements
}

/// Returns the reason in a line why there is no test.
fn reason(line: &str) -> Option<String> {
    let (_, reason) = line.split_once(NOT_TESTED)?;
    assert!(reason.trim().len() > 10, "no reason: {line}");
    Some(reason.trim().to_owned())
}

/// Returns all sources and documents that may cite the specification, including the specification itself.
fn citing_files() -> Vec<PathBuf> {
    let folders = ["src", "crates", "docs", "examples", "deploy", "testenv"].map(|folder| root().join(folder));
    let of_kind = |folder: &PathBuf| ["rs", "md", "go", "yaml", "yml"].map(|kind| files(folder, kind)).concat();
    let mut found: Vec<PathBuf> = folders.iter().flat_map(of_kind).collect();
    found.extend(["README.md", "CONTRIBUTING.md", "SECURITY.md", "e2e.bats"].map(|name| root().join(name)));
    // This file has examples of ids, and the specification's README has a table of earlier ids.
    found.retain(|file| !file.ends_with("tests/cli/spec.rs") && !file.ends_with("docs/spec/README.md"));
    found
}

/// Whether a file contains tests only.
fn is_test(file: &Path) -> bool {
    let relative = file.strip_prefix(root()).unwrap();
    let mut parts = relative.iter().map(|part| part.to_str().unwrap());
    let of_tests = ["tests", "tests.rs", "properties.rs", "e2e.bats", "benches", "fuzz", "testkit"];
    parts.any(|part| of_tests.contains(&part))
}

/// Returns the tests in a file: all of it, or the part after `#[cfg(test)]` before a module with a body.
fn tests_of<'t>(file: &Path, text: &'t str) -> &'t str {
    if is_test(file) { text } else { text.split_once("#[cfg(test)]\nmod tests {").map_or("", |(_, tests)| tests) }
}

/// Returns the ids that a text cites, in the form that statements use.
fn cited(text: &str, prefixes: &BTreeSet<String>) -> BTreeSet<String> {
    let long = CITATION.captures_iter(text).filter(|found| prefixes.contains(&found[1]));
    let mut ids: BTreeSet<String> = long.map(|found| format!("{}-{}", &found[1], &found[2])).collect();
    for line in text.lines() {
        let comment = line.split_once("//").map_or("", |(_, comment)| comment);
        ids.extend(SHORT_CITATION.captures_iter(comment).map(|found| format!("{}{}", &found[1], &found[2])));
    }
    for name in TEST_NAME.captures_iter(text) {
        let parts = name[1].split('_').map_while(|part| ID_IN_NAME.captures(part));
        ids.extend(parts.filter_map(|part| id_of_name(&part[1], &part[2], prefixes)));
    }
    ids
}

/// Turns `inj`, `18` into `INJ-18`, and `e`, `6` into `E6`. `None` if the specification has no such prefix.
fn id_of_name(prefix: &str, number: &str, prefixes: &BTreeSet<String>) -> Option<String> {
    let prefix = prefix.to_uppercase();
    match prefix.as_str() {
        "D" | "E" | "W" => Some(format!("{prefix}{number}")),
        _ => prefixes.contains(&prefix).then(|| format!("{prefix}-{number}")),
    }
}

fn prefixes(statements: &BTreeMap<String, Statement>) -> BTreeSet<String> {
    statements.keys().filter_map(|id| Some(id.split_once('-')?.0.to_owned())).collect()
}

#[test]
fn every_id_that_is_cited_exists() {
    let statements = statements();
    assert!(statements.len() > 200, "{}", statements.len());
    let prefixes = prefixes(&statements);
    let mut missing = BTreeMap::new();
    for file in citing_files() {
        let ids = cited(&fs::read_to_string(&file).unwrap(), &prefixes);
        let unknown: Vec<String> = ids.into_iter().filter(|id| !statements.contains_key(id)).collect();
        if !unknown.is_empty() {
            missing.insert(file.strip_prefix(root()).unwrap().to_owned(), unknown);
        }
    }
    assert!(missing.is_empty(), "these ids are not in docs/spec: {missing:#?}");
}

#[test]
fn every_statement_is_cited_by_a_test_or_says_why_not() {
    let statements = statements();
    let prefixes = prefixes(&statements);
    let mut tested = BTreeSet::new();
    for file in citing_files().iter().filter(|file| file.extension().is_some_and(|kind| kind != "md")) {
        tested.extend(cited(tests_of(file, &fs::read_to_string(file).unwrap()), &prefixes));
    }
    let untested: Vec<String> = statements
        .iter()
        .filter(|(id, statement)| statement.reason.is_none() && !tested.contains(*id))
        .map(|(id, statement)| format!("{id} ({})", statement.document.strip_prefix(root()).unwrap().display()))
        .collect();
    assert!(untested.is_empty(), "cite these in a test, or write \"{NOT_TESTED}\" and why: {untested:#?}");
    let needless: Vec<&String> = statements
        .iter()
        .filter(|(id, statement)| statement.is_alone && tested.contains(*id))
        .map(|(id, _)| id)
        .collect();
    assert!(needless.is_empty(), "tests cite these, so \"{NOT_TESTED}\" has to go: {needless:?}");
}

#[rstest]
#[case::long("// as INJ-18 and VAL-2 say, not UTF-8", &["INJ-18", "VAL-2"])]
#[case::row("/// SAP-8c: the app keeps its mount", &["SAP-8"])]
#[case::short("x(); // E6, D14", &["D14", "E6"])]
#[case::code_is_no_citation("let E1 = D2;", &[])]
#[case::name("fn inj18_val2_e6_paths_are_compared() {}", &["E6", "INJ-18", "VAL-2"])]
#[case::case_name("#[case::d14_same(1)]", &["D14"])]
#[case::other_name("fn p256_is_a_curve() {}", &[])]
fn citations_are_found(#[case] text: &str, #[case] expected: &[&str]) {
    let prefixes = ["INJ", "VAL", "SAP"].map(str::to_owned).into();
    assert_eq!(cited(text, &prefixes), expected.iter().map(|id| (*id).to_owned()).collect());
}
