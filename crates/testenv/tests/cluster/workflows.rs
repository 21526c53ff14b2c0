//! The workflows of GitHub, as actionlint sees them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs actionlint on a repository.
fn lint(repository: &Path) -> Output {
    let actionlint = pillion_testenv::tool("actionlint").unwrap();
    Command::new(actionlint).arg("-no-color").current_dir(repository).output().unwrap()
}

/// Returns a repository with the workflows, and a change of one of them.
fn changed(from: &str, to: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let workflows = folder.path().join(".github/workflows");
    fs::create_dir_all(&workflows).unwrap();
    fs::create_dir(folder.path().join(".git")).unwrap();
    for entry in fs::read_dir(root().join(".github/workflows")).unwrap() {
        let entry = entry.unwrap();
        let text = fs::read_to_string(entry.path()).unwrap().replace(from, to);
        fs::write(workflows.join(entry.file_name()), text).unwrap();
    }
    folder
}

#[test]
fn actionlint_finds_nothing() {
    let output = lint(&root());
    assert!(output.status.success(), "{}", text(&output));
}

/// It would find something: an output that a job does not have, and a job that is not there.
#[test]
fn actionlint_finds_what_is_wrong() {
    for (from, to, says) in [
        ("needs.ci.outputs.module-digest", "needs.ci.outputs.digest", "property \"digest\" is not defined"),
        ("needs: [annotate, programs, image, sbom]", "needs: [anotate]", "job \"anotate\""),
        ("runs-on: ubuntu-24.04\n", "runs-on: ubuntu-1.0\n", "label \"ubuntu-1.0\" is unknown"),
    ] {
        let repository = changed(from, to);
        let output = lint(repository.path());
        assert!(!output.status.success() && text(&output).contains(says), "{to}: {}", text(&output));
    }
}

/// `make workflows` is what `.ci/run` calls.
#[test]
fn the_makefile_runs_it() {
    let actionlint = pillion_testenv::tool("actionlint").unwrap();
    let mut command = Command::new("make");
    command.arg("workflows").arg(format!("ACTIONLINT={}", actionlint.display())).current_dir(root());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    command.arg("ACTIONLINT=/nowhere/actionlint");
    let output = command.output().unwrap();
    assert!(!output.status.success() && text(&output).contains("actionlint is missing"), "{}", text(&output));
}
