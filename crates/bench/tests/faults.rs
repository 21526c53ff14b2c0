//! `pillion-bench faults` as a process. It starts `pillion`, which cargo builds for the tests of its own package: run
//! `make pillion` before these tests alone.
#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

use std::path::Path;
use std::process::{Command, Output};

use rstest::rstest;

const BENCH: &str = env!("CARGO_BIN_EXE_pillion-bench");

fn faults(args: &[&str]) -> Output {
    Command::new(BENCH).arg("faults").args(args).output().unwrap()
}

/// The faults that are over in seconds, with a twentieth of the clients.
#[rstest]
#[case("connections,silent,descriptors")]
#[case("bodies,resets")]
#[case("stop,disk")]
fn nothing_is_lost(#[case] only: &str) {
    let program = Path::new(BENCH).with_file_name("pillion");
    assert!(program.exists(), "{} is missing: make pillion", program.display());
    let output = faults(&["--quick", "--only", only]);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let rows: Vec<_> = out.lines().skip(2).collect();
    assert_eq!(rows.len(), only.split(',').count(), "{out}");
    assert!(rows.iter().all(|row| row.contains(" 0 lost;")), "{out}");
}

#[test]
fn without_a_server_there_is_nothing_to_break() {
    let output = faults(&["--pillion", "nowhere/pillion"]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && err.contains("nowhere/pillion is missing"), "{err}");
}
