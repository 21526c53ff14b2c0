//! `pillion bench` as a process.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

mod support;

use std::path::Path;

use crate::support::pillion;

#[test]
fn every_answer_is_there_and_right() {
    let folder = tempfile::tempdir().unwrap();
    let run = pillion(folder.path(), &["bench", "--reviews", "300", "--concurrency", "8", "-o", "json"], "");
    assert_eq!(run.code, 0, "{}", run.err);
    let report = run.json();
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let script = r#"
        "$0" serve --config test_data/serve.yaml --ca-file "$1/ca.crt" --log-format json 2> "$1/log" &
        trap 'kill $!' EXIT
        until address=$(grep -o '127.0.0.1:[0-9]*' "$1/log"); do sleep 0.1; done
        "$0" bench --url "https://$address" --ca "$1/ca.crt" --reviews 50 --concurrency 2"#;
    let folder = tempfile::tempdir().unwrap();
    let output = std::process::Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_pillion"), folder.path().to_str().unwrap()])
        .current_dir(root)
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    assert!(out.contains("answers     0 lost, ") && !out.contains("0 lost, 0 wrong"), "{out}");
    assert!(err.contains("warning: ") && err.contains("answers {"), "{err}");
}

#[test]
fn without_a_server_there_is_nothing_to_measure() {
    let folder = tempfile::tempdir().unwrap();
    let run = pillion(folder.path(), &["bench", "--url", "https://127.0.0.1:1", "--ca", "ca.crt"], "");
    assert_eq!(run.code, 2);
    assert!(run.err.contains("ca.crt"), "{}", run.err);
    let run = pillion(folder.path(), &["bench", "--url", "https://127.0.0.1:1"], "");
    assert!(run.code == 2 && run.err.contains("--ca"), "{}", run.err);
}
