//! Crates import those above them in the table of docs/architecture.md, which says what each imports. `imports.rs` has the same for modules.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rstest::rstest;
use serde_json::Value;

use crate::imports::{packages, workspace};

/// Returns the packages of the workspace, each with those that it imports outside of tests.
fn imported_packages() -> BTreeMap<String, BTreeSet<String>> {
    let name = |of: &Value| of["name"].as_str().unwrap().to_owned();
    let is_import = |dependency: &&Value| dependency["kind"].is_null() && dependency["path"].is_string();
    let imports = |package: &Value| {
        package["dependencies"].as_array().unwrap().iter().filter(is_import).map(name).collect::<BTreeSet<_>>()
    };
    packages().iter().map(|package| (name(package), imports(package))).collect()
}

/// Has the table of crates: a row for each, with the names of its packages, what it contains, and what it imports.
fn document() -> PathBuf {
    workspace().join("docs/architecture.md")
}

/// Whether a line of the document is a row of the table.
fn is_row(line: &str) -> bool {
    line.starts_with("| `pillion")
}

/// Returns the packages of a row.
fn packages_of(row: &str) -> Vec<&str> {
    let cell = row.split('|').nth(1).unwrap();
    cell.split('`').filter(|name| name.starts_with("pillion")).collect()
}

/// The table reads from the ground up. Only the module, in the first row, is built of crates below it.
#[test]
fn crates_import_those_above_them_in_the_table() {
    let document = fs::read_to_string(document()).unwrap();
    let mut rows = BTreeMap::new();
    for (row, line) in document.lines().filter(|line| is_row(line)).enumerate() {
        rows.extend(packages_of(line).into_iter().map(|name| (name, row)));
    }
    for (package, imports) in imported_packages() {
        let row = *rows.get(package.as_str()).unwrap_or_else(|| panic!("{package} has no row"));
        for import in imports.iter().filter(|_| row > 0) {
            assert!(rows[import.as_str()] < row, "{package} imports {import}, which is below it");
        }
    }
}

/// Returns the packages that a package imports, without those that come with another import.
fn nearest<'a>(package: &str, all: &'a BTreeMap<String, BTreeSet<String>>) -> BTreeSet<&'a str> {
    let imports = &all[package];
    let comes_with = |import: &&String| imports.iter().any(|other| reached(other, all).contains(import.as_str()));
    imports.iter().filter(|import| !comes_with(import)).map(String::as_str).collect()
}

/// Returns the packages that come with a package, without itself.
fn reached<'a>(package: &str, all: &'a BTreeMap<String, BTreeSet<String>>) -> BTreeSet<&'a str> {
    let (mut seen, mut next) = (BTreeSet::new(), all[package].iter().collect::<Vec<_>>());
    while let Some(package) = next.pop() {
        if seen.insert(package.as_str()) {
            next.extend(&all[package]);
        }
    }
    seen
}

/// The table says what each crate imports. `PILLION_RENEW=1` writes that.
#[test]
fn the_table_has_the_imports_of_each_crate() {
    let all = imported_packages();
    let with_imports = |row: &str| {
        let imports: BTreeSet<&str> = packages_of(row).into_iter().flat_map(|name| nearest(name, &all)).collect();
        let imports: Vec<String> =
            imports.iter().map(|name| format!("`{}`", name.trim_start_matches("pillion-"))).collect();
        let cells: Vec<&str> = row.split('|').take(3).collect();
        format!("{}| {} |", cells.join("|"), imports.join(", "))
    };
    let written = fs::read_to_string(document()).unwrap();
    let lines = written.lines().map(|line| if is_row(line) { with_imports(line) } else { line.to_owned() });
    let expected: String = lines.map(|line| line + "\n").collect();
    if std::env::var_os("PILLION_RENEW").is_some() {
        fs::write(document(), &expected).unwrap();
    }
    let written = fs::read_to_string(document()).unwrap();
    assert!(written == expected, "the imports are not those that cargo knows; PILLION_RENEW=1 renews them");
}

/// A warning is written and tried out without a wait for wasmtime.
#[test]
fn check_needs_no_host_of_the_module() {
    let packages = imported_packages();
    let seen = reached("pillion-check", &packages);
    assert!(seen.contains("pillion-sidecarset") && !seen.contains("pillion-host"), "{seen:?}");
}

/// Their tests are built without wasmtime, too.
#[rstest]
#[case::check("pillion-check")]
#[case::install("pillion-install")]
#[case::verbs("pillion-verbs")]
#[case::cluster("pillion-cluster")]
#[case::workload("pillion-workload")]
fn tests_of_other_crates_need_no_host_of_the_module(#[case] package: &str) {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["tree", "--offline", "--edges", "normal,dev", "--prefix", "none", "--package", package]);
    let output = cargo.current_dir(workspace()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    assert!(tree.contains("pillion-kubernetes ") && !tree.contains("wasmtime"), "{tree}");
}
