//! The folders of `examples/`: their output, and rules for all of them. The test of all documents runs the commands of
//! their READMEs.
//!
//! `UPDATE_EXAMPLES=1` rewrites `expected.diff`.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use rstest::rstest;

/// The fixed time in all expected output.
const NOW: &str = "2026-01-02T03:04:05Z";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn pillion(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("pillion").unwrap();
    command.current_dir(root()).args(arguments);
    command
}

/// Returns the folder of an example's file, relative to the root of the repository.
fn folder(file: &Path) -> String {
    let folder = file.parent().and_then(Path::file_name).unwrap();
    format!("examples/{}", folder.to_str().unwrap())
}

/// Returns the arguments for the manifests of an example: all of them, with its settings if it has any.
fn given(folder: &str) -> Vec<String> {
    let settings = format!("{folder}/settings.yaml");
    let mut given = vec![folder.to_owned()];
    if root().join(&settings).exists() {
        given.extend(["--settings".to_owned(), settings]);
    }
    given
}

fn inject(folder: &str, more: &[&str]) -> String {
    let given = given(folder);
    let given: Vec<_> = given.iter().map(String::as_str).collect();
    let output = pillion(&[&["inject", "--now", NOW], &given[..], more].concat()).assert().success();
    String::from_utf8(output.get_output().stdout.clone()).unwrap()
}

#[rstest]
fn injecting_gives_what_is_expected(#[files("../../examples/*/README.md")] readme: PathBuf) {
    let found = inject(&folder(&readme), &["--diff"]);
    let expected = readme.with_file_name("expected.diff");
    if std::env::var_os("UPDATE_EXAMPLES").is_some() {
        fs::write(&expected, &found).unwrap();
    }
    assert!(!found.is_empty(), "an example shows something");
    assert_eq!(fs::read_to_string(&expected).unwrap(), found, "UPDATE_EXAMPLES=1 writes {}", expected.display());
}

/// A second injection changes nothing: the API server may call a webhook twice.
#[rstest]
fn injecting_twice_changes_nothing(#[files("../../examples/*/README.md")] readme: PathBuf) {
    let folder = folder(&readme);
    let once = inject(&folder, &["--output", "yaml"]);
    let given = given(&folder);
    let settings: Vec<_> = given[1..].iter().map(String::as_str).collect();
    let again = pillion(&[&["inject", "-", "--diff", "--now", "2027-01-01T00:00:00Z"], &settings[..]].concat())
        .write_stdin(once)
        .assert()
        .success();
    assert_eq!(String::from_utf8(again.get_output().stdout.clone()).unwrap(), "");
}

#[rstest]
fn nothing_is_wrong_with_an_example(#[files("../../examples/*/README.md")] readme: PathBuf) {
    pillion(&["check", "--warnings-as-errors", &folder(&readme)]).assert().success();
}

#[test]
fn every_example_is_listed() {
    let list = fs::read_to_string(root().join("examples/README.md")).unwrap();
    for entry in fs::read_dir(root().join("examples")).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            let name = entry.file_name().into_string().unwrap();
            assert!(list.contains(&format!("[{name}]({name})")), "{name} is not in examples/README.md");
            assert!(entry.path().join("README.md").exists(), "{name} has no README.md");
        }
    }
}
