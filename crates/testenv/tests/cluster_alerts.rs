//! The rules for Prometheus: promtool reads them and runs their unit tests.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

use std::path::{Path, PathBuf};
use std::process::Command;

use pillion_testenv::tool;

const RULES: &str = "charts/pillion/files/alerts.yaml";
const UNIT_TESTS: &str = "charts/pillion/tests/alerts_test.yaml";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Runs promtool in a folder. Returns whether it succeeded, and its output.
fn promtool(folder: &Path, args: &[&str]) -> (bool, String) {
    let output = Command::new(tool("promtool").unwrap()).args(args).current_dir(folder).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.success(), text)
}

#[test]
fn promtool_accepts_the_rules() {
    let (is_accepted, text) = promtool(&root(), &["check", "rules", "--lint=all", "--lint-fatal", RULES]);
    assert!(is_accepted, "{text}");
    assert!(text.contains("SUCCESS"), "{text}");
}

#[test]
fn every_alert_fires_when_it_must_and_only_then() {
    let (is_passed, text) = promtool(&root(), &["test", "rules", UNIT_TESTS]);
    assert!(is_passed, "{text}");
}

/// The unit tests notice a rule that never fires and a rule that always does.
#[test]
fn a_wrong_rule_fails_its_unit_test() {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).unwrap();
    for (right, wrong) in [
        ("pillion_settings_current == 0", "pillion_settings_current == 2"),
        ("pillion_settings_current == 0", "pillion_settings_current >= 0"),
    ] {
        let rules = read(RULES);
        assert!(rules.contains(right));
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [(RULES, rules.replace(right, wrong)), (UNIT_TESTS, read(UNIT_TESTS))] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let (is_passed, text) = promtool(folder.path(), &["test", "rules", UNIT_TESTS]);
        assert!(!is_passed && text.contains("PillionSettingsRejected"), "{text}");
    }
}
