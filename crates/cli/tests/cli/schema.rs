//! `pillion schema`, and the files in `schemas/` that it writes. The schemas are tested in crates/install.

use std::{env, fs};

use pillion_install::schema::{self, markdown};
use pillion_samples::repository::root;
use rstest::rstest;
use serde_json::Value;

use crate::support::{Run, pillion};

/// The variable that makes the test write the files.
const RENEW: &str = "PILLION_RENEW";

fn print(args: &[&str]) -> Run {
    pillion(root(), &[&["schema"], args].concat(), "")
}

#[test]
fn the_command_prints_what_the_library_makes() {
    let printed = |args: &[&str]| {
        let run = print(args);
        assert_eq!(run.code, 0, "{}", run.err);
        run.out
    };
    assert_eq!(serde_json::from_str::<Value>(&printed(&[])).unwrap(), schema::of_settings());
    assert_eq!(serde_json::from_str::<Value>(&printed(&["--sidecar-set"])).unwrap(), schema::of_sidecar_set());
    assert_eq!(printed(&["-o", "markdown"]), markdown::reference());
    assert_eq!(printed(&["-o", "markdown", "--sidecar-set"]), markdown::sidecar_set());
}

#[rstest]
#[case::settings("settings", schema::of_settings)]
#[case::policy("policy", schema::of_policy)]
#[case::sidecarset("sidecarset", schema::of_sidecar_set)]
fn the_files_are_what_the_program_prints(#[case] subject: &str, #[case] schema: fn() -> Value) {
    let run = print(&[subject]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(run.json(), schema());
    let path = root().join(format!("schemas/{subject}.json"));
    if env::var_os(RENEW).is_some() {
        fs::write(&path, &run.out).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == run.out,
        "{} is stale; renew it with: {RENEW}=1 cargo test --workspace --test cli schema::",
        path.display()
    );
}

#[test]
fn a_policy_has_no_tables() {
    let run = print(&["policy", "-o", "markdown"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("pillion schema settings -o markdown"), "{}", run.err);
}
