//! The first look prints the same differences as `pillion inject --diff`, which asks the module.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pillion_first_look::{Look, SETTINGS, look};
use pillion_kubernetes::time::Timestamp;
use rstest::rstest;

/// The fixed time in the expected output of all examples.
const NOW: &str = "2026-01-02T03:04:05Z";

const SET: &str = "\
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: log-agent}
spec:
  selector: {matchLabels: {logs: collect}}
  containers: [{name: log-agent, image: agent}]
";

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {logs: collect}}
spec: {containers: [{name: web, image: web}]}
";

fn plain(text: &[u8]) -> String {
    let mut out = anstream::StripStream::new(Vec::new());
    out.write_all(text).unwrap();
    String::from_utf8(out.into_inner()).unwrap()
}

fn looked(files: &[(&str, &str)]) -> anyhow::Result<Look> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    look(folder.path(), Timestamp::parse(NOW).unwrap())
}

#[rstest]
fn an_example_gives_the_difference_that_the_module_gives(#[files("../../examples/*/README.md")] readme: PathBuf) {
    let found = look(readme.parent().unwrap(), Timestamp::parse(NOW).unwrap()).unwrap();
    let expected = fs::read_to_string(readme.with_file_name("expected.diff")).unwrap();
    assert!(!expected.is_empty(), "an example shows something");
    assert_eq!(plain(&found.diff), expected);
    assert_eq!(found.refused, [] as [&str; 0]);
}

#[test]
fn a_folder_without_settings_has_the_default_ones() {
    let found = looked(&[("a.yaml", SET), ("b.yaml", POD)]).unwrap();
    assert_eq!(found.pods, ["Pod shop/web: injected"]);
    assert!(plain(&found.diff).contains("+  - name: log-agent"), "{}", plain(&found.diff));
}

#[test]
fn a_pod_that_no_sidecar_set_selects_is_unchanged() {
    let found = looked(&[("a.yaml", SET), ("b.yaml", &POD.replace("collect", "keep"))]).unwrap();
    assert_eq!(found.pods, ["Pod shop/web: unchanged"]);
    assert!(found.diff.is_empty());
}

#[test]
fn a_refused_pod_is_not_shown_and_the_reason_names_the_remedy() {
    let settings = "featureGates: {SidecarSetServiceAccountInjection: true}\n";
    let set = SET.replace("spec:\n", "spec:\n  serviceAccountName: absent\n");
    let found = looked(&[("a.yaml", &set), ("b.yaml", POD), (SETTINGS, settings)]).unwrap();
    assert!(found.diff.is_empty() && found.pods.is_empty());
    let [refusal] = &found.refused[..] else { panic!("{found:?}") };
    assert!(refusal.starts_with("Pod shop/web: refused ("), "{refusal}");
    assert!(refusal.contains("ServiceAccount \"absent\" does not exist in namespace \"shop\"; create "), "{refusal}");
}

#[rstest]
#[case::no_yaml("a.yaml", "a: [", "a.yaml")]
#[case::a_misspelt_field_of_a_pod("a.yaml", "apiVersion: v1\nkind: pod\nmetadata: {}\n", "did you mean \"Pod\"?")]
#[case::settings_of_a_wrong_type(SETTINGS, "sidecarSets: 3\n", "sidecarSets")]
#[case::a_sidecar_set_of_a_wrong_type("a.yaml", &SET.replace("[{name: log-agent, image: agent}]", "3"), "spec.containers")]
#[case::settings_are_a_list(SETTINGS, "- a\n", "this is a list")]
fn what_is_wrong_is_named(#[case] file: &str, #[case] text: &str, #[case] expected: &str) {
    let error = looked(&[(file, text), ("pod.yaml", POD)]).unwrap_err();
    let error = format!("{error:#}");
    assert!(error.contains(expected), "{error}");
}

fn run(arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Command::new(env!("CARGO_BIN_EXE_pillion-first-look")).current_dir(root).args(arguments).output().unwrap()
}

#[test]
fn the_program_prints_data_on_stdout_and_the_rest_on_stderr() {
    let output = run(&["examples/identity-isolate"]);
    assert_eq!(output.status.code(), Some(0));
    let expected = include_str!("../../../examples/identity-isolate/expected.diff");
    let lines = |text: &str| text.lines().filter(|line| !line.contains("updateTimestamp")).map(str::to_owned).collect();
    let (found, expected): (Vec<String>, Vec<String>) =
        (lines(&String::from_utf8(output.stdout).unwrap()), lines(expected));
    assert_eq!(found, expected);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "Deployment shop/web: injected\n");
}

#[rstest]
#[case::no_folder(&[], "give one folder")]
#[case::two_folders(&["a", "b"], "give one folder")]
#[case::a_folder_that_does_not_exist(&["no-such-folder"], "no-such-folder")]
fn mistakes_end_with_2(#[case] arguments: &[&str], #[case] expected: &str) {
    let output = run(arguments);
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("error: ") && error.contains(expected), "{error}");
}

#[test]
fn help_has_an_example() {
    let output = run(&["--help"]);
    assert_eq!((output.status.code(), output.stderr.is_empty()), (Some(0), true));
    assert!(String::from_utf8(output.stdout).unwrap().contains("Example: pillion-first-look examples/"));
}
