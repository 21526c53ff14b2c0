//! `pillion-stress faults` as a process. It starts `pillion`, which cargo builds for the tests of its own package: run
//! `make pillion` before these tests alone.

use std::path::Path;
use std::process::{Command, Output};

const STRESS: &str = env!("CARGO_BIN_EXE_pillion-stress");

fn faults(args: &[&str]) -> Output {
    Command::new(STRESS).arg("faults").args(args).output().unwrap()
}

/// A fault whose outcome does not depend on how fast the machine is, with a twentieth of the clients. `make bench-faults`
/// has the others.
#[test]
fn nothing_is_lost() {
    let program = Path::new(STRESS).with_file_name("pillion");
    assert!(program.exists(), "{} is missing: make pillion", program.display());
    let output = faults(&["--quick", "--only", "connections"]);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let rows: Vec<_> = out.lines().skip(2).collect();
    assert_eq!(rows.len(), 1, "{out}{err}");
    assert!(rows[0].contains(" 0 lost;") && rows[0].contains(" 0 failed;"), "{out}{err}");
}

#[test]
fn without_a_server_there_is_nothing_to_break() {
    let output = faults(&["--pillion", "nowhere/pillion"]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && err.contains("nowhere/pillion is missing"), "{err}");
}
