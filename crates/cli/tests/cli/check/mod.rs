//! `pillion check`, as users run it.

mod beside;
mod sarif;
mod support;

use std::fs;

use rstest::rstest;
use serde_json::json;

use pillion_samples::repository::root;

use self::support::{agent, check, folder, set};

#[test]
fn what_is_sound_is_silent() {
    let here = folder(&[("a.yaml", &set("a", &agent("a")))]);
    let answer = check(here.path(), &["a.yaml"], "");
    assert_eq!((answer.code, answer.out.as_str()), (0, ""));
    assert_eq!(answer.err, "0 errors, 0 warnings in 1 SidecarSet\n");
}

#[test]
fn people_see_every_problem_with_its_place() {
    let settings = "sidecarsets: []\nsystemNamespace: 5\nsidecarSets:\n- apiVersion: apps.kruise.io/v1beta1\n  kind: \
                    SidecarSet\n  metadata:\n    name: log-agent\n  spec:\n    containers:\n    - name: log-agent\n      \
                    image: \"\"\n      volumeMoutns: []\n";
    let here = folder(&[("settings.yaml", settings)]);
    let answer = check(here.path(), &["settings.yaml"], "");
    assert_eq!(answer.code, 1);
    assert_eq!(answer.err, "4 errors, 1 warning in 1 settings file\n");
    insta::assert_snapshot!(answer.out, @r#"
error: Unknown field "sidecarsets"
 --> settings.yaml:1:1
  |
1 | sidecarsets: []
  | ^^^^^^^^^^^ sidecarsets
  |
  = help: did you mean "sidecarSets"?

error: Invalid value: must be a string, found a number
 --> settings.yaml:2:18
  |
2 | systemNamespace: 5
  |                  ^ systemNamespace

error: Required value: say which Pods to inject into
 --> settings.yaml:8:3
  |
8 |   spec:
  |   ^^^^ sidecarSets[0].spec.selector
  |
  = note: in SidecarSet "log-agent"

error: Required value: must not be empty
  --> settings.yaml:11:14
   |
11 |       image: ""
   |              ^^ sidecarSets[0].spec.containers[0].image
   |
   = note: in SidecarSet "log-agent"

warning: unknown field; it is kept and injected, but rollouts do not see changes to it
  --> settings.yaml:12:7
   |
12 |       volumeMoutns: []
   |       ^^^^^^^^^^^^ sidecarSets[0].spec.containers[0].volumeMoutns
   |
   = note: in SidecarSet "log-agent"
   = help: did you mean "volumeMounts"?
"#);
}

/// The file of `--old` is looked for alone, and every other path with the folders inside.
#[test]
fn files_are_given_in_every_way() {
    let image = |image: &str| set("a", &agent("a")).replace("agent:1", image);
    let here = folder(&[("new/deep/a.yaml", &image("nginx:1.23")), ("old.yaml", &image("nginx"))]);
    let run = |args: &[&str]| check(here.path(), &[&["-f", "new", "-R", "-o", "github"], args].concat(), "");
    let alone = run(&[]);
    assert_eq!((alone.code, alone.out.as_str()), (0, ""), "{}", alone.err);
    let update = run(&["--old", "old.yaml"]);
    assert_eq!(update.code, 0, "{}", update.err);
    assert!(update.out.starts_with("::warning file=new/deep/a.yaml,line=9,"), "{}", update.out);
    assert!(update.out.contains("it changes from Always to IfNotPresent"), "{}", update.out);
    let missing = run(&["--old", "gone.yaml"]);
    assert_eq!((missing.code, missing.out.as_str()), (2, ""));
    assert_eq!(missing.err, "error: gone.yaml: No such file or directory (os error 2)\n");
}

#[test]
fn good_files_are_checked_beside_broken_ones() {
    let here = folder(&[
        ("a.yaml", "a: [1\n"),
        ("b.yaml", &set("b", "  containers: 5\n")),
        ("c.txt", "not read"),
        ("d.yaml", "- a list\n"),
        ("e.yaml", "kind: Deployment\nmetadata: {name: web}\n"),
    ]);
    let answer = check(here.path(), &[".", "missing.yaml", "-v"], "");
    assert_eq!(answer.code, 2);
    assert!(answer.out.contains("./a.yaml:1:4") && answer.out.contains("./b.yaml:8:15"), "{}", answer.out);
    assert_eq!(
        answer.err,
        "error: missing.yaml: No such file or directory (os error 2)\n./e.yaml:1: Deployment \"web\" passed over\n2 \
         errors, 0 warnings in 1 SidecarSet; 1 other document passed over; 1 could not be read\n"
    );
}

#[rstest]
#[case::no_file(&["nowhere.yaml"], "error: nowhere.yaml: No such file or directory (os error 2)\n0 errors, 0 warnings in 0 files; 1 could not be read\n")]
#[case::nothing_of_ours(&["other.yaml"], "error: there is nothing to check: no settings, SidecarSet, Shoot or policy of Pillion; a file of settings that is not known as one can be given with --settings\n")]
#[case::empty_folder(&["empty"], "error: empty: no .yaml, .yml or .json file in this folder\n0 errors, 0 warnings in 0 files; 1 could not be read\n")]
#[case::no_utf8(&["binary.yaml"], "error: binary.yaml: line 1 is not UTF-8: save the file as UTF-8\n0 errors, 0 warnings in 0 files; 1 could not be read\n")]
fn what_cannot_be_checked_is_said(#[case] args: &[&str], #[case] expected: &str) {
    let here = folder(&[("other.yaml", "kind: Deployment\n"), ("empty/.keep", "")]);
    fs::write(here.path().join("binary.yaml"), [0xff, 0xff, 0x00]).unwrap();
    let answer = check(here.path(), args, "");
    assert_eq!((answer.code, answer.err.as_str()), (2, expected));
}

#[test]
fn settings_are_read_as_such_where_that_is_asked_for() {
    let here =
        folder(&[("a.yaml", "image: a\nfeatureGates: {X: true}\n"), ("list.yaml", "- 1\n"), ("empty.yaml", "{}\n")]);
    assert_eq!(check(here.path(), &["a.yaml"], "").code, 2);
    assert_eq!(check(here.path(), &["--settings", "a.yaml"], "").code, 1);
    assert_eq!(check(here.path(), &["--settings", "empty.yaml"], "").code, 0);
    // A file that is given twice counts once.
    let answer = check(here.path(), &["a.yaml", "--settings", "a.yaml"], "");
    assert!(answer.err.contains("\n2 errors, 0 warnings in 1 settings file\n"), "{}", answer.err);
    // These settings inject nothing.
    let says = |settings: &str| {
        fs::write(here.path().join("b.yaml"), settings).unwrap();
        check(here.path(), &["--settings", "b.yaml"], "").err.contains("settings without bundleRef")
    };
    assert!(says("featureGates: {SidecarSetServiceAccountInjection: true}\n"));
    assert!(says("bundleRef: null\n"));
    assert!(!says("bundleRef: {namespace: a, name: b}\n"));
    assert!(!says("shoots: {enabled: true}\n"));
    let answer = check(here.path(), &["--settings", "list.yaml"], "");
    assert_eq!(answer.code, 1);
    assert!(answer.out.contains("settings are an object, this is a list"), "{}", answer.out);
}

#[test]
fn warnings_fail_only_where_that_is_asked_for() {
    let text = set("a", &format!("  color: red\n{}", agent("a")));
    let here = folder(&[("a.yaml", &text)]);
    assert_eq!(check(here.path(), &["a.yaml"], "").code, 0);
    assert_eq!(check(here.path(), &["a.yaml", "--warnings-as-errors"], "").code, 1);
    assert_eq!(check(here.path(), &["a.yaml", "--strict"], "").code, 1);
}

#[test]
fn workflows_get_annotations() {
    let answer = check(folder(&[]).path(), &["-", "-o", "github"], &set("a", "  containers: 5\n"));
    assert_eq!(
        answer.out,
        "::error file=<stdin>,line=8,endLine=8,col=15,endColumn=16,title=spec.containers::SidecarSet \"a\": Invalid \
         value: must be a list, found a number\n"
    );
}

/// A file that cannot be read is in every machine-readable list.
#[test]
fn programs_are_told_of_files_that_cannot_be_read() {
    let here = folder(&[("a.yaml", &set("a", &agent("a"))), ("empty/.keep", "")]);
    let answer = check(here.path(), &["a.yaml", "gone.yaml", "empty", "-o", "json"], "");
    assert_eq!(answer.code, 2);
    let findings: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(findings.as_array().map(Vec::len), Some(2), "{findings:#}");
    assert_eq!((&findings[0]["file"], &findings[0]["severity"]), (&json!("gone.yaml"), &json!("error")));
    assert_eq!(findings[0]["message"], "No such file or directory (os error 2)");
    assert_eq!(
        (&findings[1]["file"], &findings[1]["message"]),
        (&json!("empty"), &json!("no .yaml, .yml or .json file in this folder"))
    );
    let answer = check(here.path(), &["gone.yaml", "-o", "github"], "");
    assert_eq!(answer.code, 2);
    assert_eq!(
        answer.out,
        "::error file=gone.yaml,line=1,endLine=1,col=1,endColumn=1::No such file or directory (os error 2)\n"
    );
}

#[test]
fn nothing_found_is_an_empty_list() {
    let answer = check(folder(&[]).path(), &["-", "-o", "json"], &set("a", &agent("a")));
    assert_eq!(answer.out, "[]\n");
}

#[test]
fn colour_is_for_terminals() {
    let here = folder(&[("a.yaml", &set("a", "  containers: 5\n"))]);
    assert!(!check(here.path(), &["a.yaml"], "").out.contains('\u{1b}'));
    assert!(check(here.path(), &["a.yaml", "--color", "always"], "").out.contains('\u{1b}'));
}

/// The action and the hooks need no cache of compiled code (docs/guides/ci.md).
#[test]
fn the_policy_module_is_not_compiled() {
    let folder = tempfile::tempdir().unwrap();
    let output = assert_cmd::Command::new(env!("CARGO_BIN_EXE_pillion"))
        .current_dir(root())
        .env("XDG_CACHE_HOME", folder.path())
        .args(["check", "-R", "examples/log-agent"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_folder_with_manifests_only_in_the_folders_inside_tells_of_the_option() {
    let here =
        folder(&[("examples/a/set.yaml", "{}\n"), ("examples/b/c/set.json", "{}\n"), ("one/d/set.yaml", "{}\n")]);
    let said = |args: &[&str]| check(here.path(), args, "").err;
    let nothing = "no .yaml, .yml or .json file in this folder";
    let hint = format!("error: examples: {nothing}; the folders inside have 2: read them with -R\n");
    assert!(said(&["examples"]).starts_with(&hint), "{}", said(&["examples"]));
    let hint = format!("error: one: {nothing}; the folders inside have 1: read it with -R\n");
    assert!(said(&["one"]).starts_with(&hint), "{}", said(&["one"]));
    assert!(!said(&["-R", "examples"]).contains(nothing), "{}", said(&["-R", "examples"]));
}
