//! `pillion plan`, as users run it. What it plans is tested in crates/preview.

use std::fs;
use std::path::Path;

use pillion_samples::manifests::planned::MANIFESTS;
use rstest::rstest;

use crate::support::{Run, pillion};

const SETTINGS: &str = "featureGates: {SidecarSetServiceAccountInjection: true}\n";

/// Runs the command in a folder with these settings, and with these manifests as input.
fn plan(settings: &str, manifests: &str, args: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("settings.yaml"), settings).unwrap();
    let args: Vec<&str> = ["plan", "-", "--settings", "settings.yaml"].iter().chain(args).copied().collect();
    pillion(folder.path(), &args, manifests)
}

#[test]
fn what_would_be_made_and_what_is_in_the_way() {
    let run = plan(SETTINGS, MANIFESTS, &[]);
    insta::assert_snapshot!(run.out);
    assert_eq!((run.code, run.err.as_str()), (1, ""), "an account is missing, which a controller cannot make");
}

#[test]
fn accounts_can_be_taken_to_exist() {
    let run = plan(SETTINGS, MANIFESTS, &["--assume-service-accounts"]);
    insta::assert_snapshot!(run.out);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
}

#[rstest]
#[case::no_settings(&["plan", "-"], "no settings: give a file with --settings")]
#[case::no_such_controller(&["plan", "-", "--settings", "s.yaml", "--controllers", "x"], "no controller has this name")]
#[case::nothing_left(&["plan", "-", "--settings", "s.yaml", "--controllers=-bundle,-sidecar-tokens,-merged-serviceaccounts"], "none of them is left")]
#[case::a_context_without_a_cluster(&["plan", "-", "--settings", "s.yaml", "--context", "x"], "--cluster")]
#[case::nothing_to_publish(&["plan", "-", "--settings", "s.yaml", "--controllers", "root-ca-publisher"], "--root-ca-file")]
#[case::invalid_settings(&["plan", "-", "--settings", "bad.yaml"], "bundel")]
fn mistakes_are_said(#[case] args: &[&str], #[case] expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("s.yaml"), SETTINGS).unwrap();
    fs::write(folder.path().join("bad.yaml"), "bundel: x\n").unwrap();
    let run = pillion(folder.path(), args, MANIFESTS);
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    assert!(run.err.contains(expected), "{}", run.err);
}

#[test]
fn without_a_cluster_there_is_no_plan_of_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("s.yaml"), SETTINGS).unwrap();
    let output = assert_cmd::Command::new(env!("CARGO_BIN_EXE_pillion"))
        .current_dir(folder.path())
        .env("KUBECONFIG", Path::new("nowhere"))
        .args(["plan", "--cluster", "--settings", "s.yaml"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("no cluster"));
}
