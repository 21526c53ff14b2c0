//! `pillion-bench load` as a process. It starts `pillion`, which cargo builds for the tests of its own package: run
//! `make pillion` before these tests alone.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pillion_testkit::module;
use serde_json::Value;

const BENCH: &str = env!("CARGO_BIN_EXE_pillion-bench");

/// Returns the path of this build's `pillion`.
fn pillion() -> PathBuf {
    let program = Path::new(BENCH).with_file_name(format!("pillion{}", std::env::consts::EXE_SUFFIX));
    assert!(program.exists(), "{} is missing: make pillion", program.display());
    program
}

fn load(args: &[&str]) -> Command {
    let mut command = Command::new(BENCH);
    command.arg("load").arg("--module").arg(module::path()).args(args);
    command
}

fn texts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn every_answer_is_there_and_right() {
    pillion();
    let (code, out, err) = texts(&load(&["--reviews", "300", "--concurrency", "8", "-o", "json"]).output().unwrap());
    assert_eq!(code, Some(0), "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (report["reviews"].as_u64(), report["lost"].as_u64(), report["wrong"].as_u64()),
        (Some(300), Some(0), Some(0))
    );
    let latency = |name: &str| report["latencyMilliseconds"][name].as_f64().unwrap();
    assert!(latency("p50") > 0.0 && latency("p50") <= latency("p99") && latency("p99") <= latency("max"));
    assert!(report["memoryBytes"]["peak"].as_u64() >= report["memoryBytes"]["end"].as_u64());
}

/// The server has other settings than those that its answers are compared with.
#[test]
fn wrong_answers_are_told() {
    let script = r#"
        "$0" serve --config test_data/serve.yaml --ca-file "$1/ca.crt" --log-format json 2> "$1/log" &
        trap 'kill $!' EXIT
        until address=$(grep -o '127.0.0.1:[0-9]*' "$1/log"); do sleep 0.1; done
        "$2" load --module "$3" --url "https://$address" --ca "$1/ca.crt" --reviews 50 --concurrency 2"#;
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("bash")
        .args(["-c", script])
        .args([pillion().as_path(), folder.path(), Path::new(BENCH), &module::path()])
        .current_dir(module::workspace())
        .output()
        .unwrap();
    let (code, out, err) = texts(&output);
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(out.contains("answers     0 lost, ") && !out.contains("0 lost, 0 wrong"), "{out}");
    assert!(err.contains("warning: ") && err.contains("answers {"), "{err}");
}

#[test]
fn without_a_server_there_is_nothing_to_measure() {
    let (code, _, err) = texts(&load(&["--url", "https://127.0.0.1:1", "--ca", "ca.crt"]).output().unwrap());
    assert!(code == Some(2) && err.contains("ca.crt"), "{err}");
    let (code, _, err) = texts(&load(&["--url", "https://127.0.0.1:1"]).output().unwrap());
    assert!(code == Some(2) && err.contains("--ca"), "{err}");
    let (code, _, err) = texts(&load(&["--pillion", "nowhere/pillion"]).output().unwrap());
    assert!(code == Some(2) && err.contains("nowhere/pillion is missing"), "{err}");
}
