//! Crates import those above them in the table of docs/architecture.md. `imports.rs` has the same for modules.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
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

/// The table reads from the ground up. Only the module, in the first row, is built of crates below it.
#[test]
fn crates_import_those_above_them_in_the_table() {
    let document = fs::read_to_string(workspace().join("docs/architecture.md")).unwrap();
    let mut rows = BTreeMap::new();
    for (row, line) in document.lines().filter(|line| line.starts_with("| `pillion")).enumerate() {
        let cell = line.split('|').nth(1).unwrap();
        rows.extend(cell.split('`').filter(|name| name.starts_with("pillion")).map(|name| (name, row)));
    }
    for (package, imports) in imported_packages() {
        let row = *rows.get(package.as_str()).unwrap_or_else(|| panic!("{package} has no row"));
        for import in imports.iter().filter(|_| row > 0) {
            assert!(rows[import.as_str()] < row, "{package} imports {import}, which is below it");
        }
    }
}

/// A warning is written and tried out without a wait for wasmtime.
#[test]
fn check_needs_no_host_of_the_module() {
    let packages = imported_packages();
    let (mut seen, mut next) = (BTreeSet::new(), vec!["pillion-check"]);
    while let Some(package) = next.pop() {
        if seen.insert(package) {
            next.extend(packages[package].iter().map(String::as_str));
        }
    }
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
