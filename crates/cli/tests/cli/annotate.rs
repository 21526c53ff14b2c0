//! `pillion annotate`, as users and makefiles run it.

use std::fs;
use std::path::Path;

use pillion_host::metadata::{self, Metadata};
use pillion_host::wasm;
use rstest::rstest;

use crate::support::{self, Run};

const METADATA: &str = "\
rules:
- apiGroups: ['']
  apiVersions: [v1]
  resources: [pods]
  operations: [CREATE]
mutating: true
hostCapabilities: [kubernetes/can_i, kubernetes/get_resource]
";

/// Returns a folder with the module and its metadata.
fn folder(metadata: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("policy.wasm"), pillion_preview::module::BYTES).unwrap();
    fs::write(folder.path().join("metadata.yml"), metadata).unwrap();
    fs::write(folder.path().join("README.md"), "# How to\n").unwrap();
    folder
}

fn pillion(folder: &Path, args: &[&str]) -> Run {
    let run = support::pillion(folder, &[&["annotate"], args].concat(), "");
    assert_eq!(run.out, "", "there is no data to print");
    run
}

fn annotate(folder: &Path) -> Run {
    pillion(folder, &["-m", "metadata.yml", "-u", "README.md", "-o", "out.wasm", "policy.wasm"])
}

/// Returns the names of the files in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}

#[test]
fn the_module_keeps_its_code_and_gets_the_metadata() {
    let folder = folder(METADATA);
    let run = annotate(folder.path());
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let module = fs::read(folder.path().join("out.wasm")).unwrap();
    assert!(module.starts_with(pillion_preview::module::BYTES), "nothing else has changed");
    let section = wasm::custom_section(&module, metadata::SECTION).unwrap().unwrap();
    assert_eq!(
        std::str::from_utf8(section).unwrap(),
        concat!(
            r#"{"protocolVersion":"v1","rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"],"#,
            r##""operations":["CREATE"]}],"annotations":{"io.kubewarden.policy.usage":"# How to\n"},"mutating":true,"##,
            r#""backgroundAudit":true,"executionMode":"kubewarden-wapc","policyType":"kubernetes","#,
            r#""contextAwareResources":[],"hostCapabilities":["kubernetes/can_i","kubernetes/get_resource"]}"#
        )
    );
    assert_eq!(names(folder.path()), ["README.md", "metadata.yml", "out.wasm", "policy.wasm"], "and nothing is left");
}

#[test]
fn the_same_input_gives_the_same_bytes_and_old_metadata_goes() {
    let folder = folder(METADATA);
    annotate(folder.path());
    let first = fs::read(folder.path().join("out.wasm")).unwrap();
    annotate(folder.path());
    assert_eq!(fs::read(folder.path().join("out.wasm")).unwrap(), first);
    let long =
        ["--metadata-path", "metadata.yml", "--usage-path", "README.md", "--output-path", "out.wasm", "out.wasm"];
    assert_eq!(pillion(folder.path(), &long).code, 0, "in place");
    assert_eq!(fs::read(folder.path().join("out.wasm")).unwrap(), first);
    assert_eq!(pillion(folder.path(), &["-m", "metadata.yml", "-o", "out.wasm", "out.wasm"]).code, 0);
    let metadata = Metadata::of_module(&fs::read(folder.path().join("out.wasm")).unwrap()).unwrap().unwrap();
    assert_eq!(metadata.annotations, None, "no usage, no annotation");
}

#[test]
fn what_looks_wrong_is_told_and_done() {
    let metadata =
        format!("{METADATA}contextAwareResource: []\n").replace("kubernetes/get_resource", "net/v1/dns_lookup_host");
    let folder = folder(&metadata);
    let run = annotate(folder.path());
    assert_eq!(run.code, 0);
    for warning in [
        "warning: metadata.yml: contextAwareResource: unknown, and ignored by policy servers\n",
        "warning: hostCapabilities: the module seems to use kubernetes/get_resource, which is not listed\n",
        "warning: hostCapabilities: net/v1/dns_lookup_host is listed, but the module does not seem to use it\n",
    ] {
        assert!(run.err.contains(warning), "{}", run.err);
    }
}

#[rstest]
#[case::no_rules("mutating: true\n", "missing field `rules`")]
#[case::no_yaml("rules: [\n", "metadata.yml: ")]
#[case::not_an_object("- a\n", "metadata.yml: ")]
#[case::empty_lists(
    "rules: [{apiGroups: [], apiVersions: [v1], resources: [], operations: [CREATE]}]\nmutating: true\n",
    "rules[0].apiGroups: Required value\nrules[0].resources: Required value"
)]
#[case::no_version(
    "rules: []\nmutating: true\nminimumKubewardenVersion: '1.35'\n",
    "minimumKubewardenVersion: Invalid value"
)]
#[case::rego("rules: []\nmutating: true\nexecutionMode: opa\n", "only waPC modules run here, use kwctl for the others")]
fn metadata_that_is_wrong_exits_with_1_and_leaves_nothing(#[case] metadata: &str, #[case] message: &str) {
    let folder = folder(metadata);
    let run = annotate(folder.path());
    assert_eq!(run.code, 1);
    assert!(run.err.starts_with("error: metadata.yml: ") && run.err.contains(message), "{}", run.err);
    assert_eq!(names(folder.path()), ["README.md", "metadata.yml", "policy.wasm"]);
}

#[rstest]
#[case::no_metadata(&["-m", "gone.yml", "-o", "out.wasm", "policy.wasm"], "gone.yml: ")]
#[case::no_usage(&["-m", "metadata.yml", "-u", "gone.md", "-o", "out.wasm", "policy.wasm"], "gone.md: ")]
#[case::no_module(&["-m", "metadata.yml", "-o", "out.wasm", "gone.wasm"], "gone.wasm: ")]
#[case::no_wasm(&["-m", "metadata.yml", "-o", "out.wasm", "README.md"], "README.md: not a WebAssembly module: ")]
#[case::no_policy(&["-m", "metadata.yml", "-o", "out.wasm", "empty.wasm"], "empty.wasm: ")]
#[case::no_folder(&["-m", "metadata.yml", "-o", "no/such/out.wasm", "policy.wasm"], "no/such/out.wasm: ")]
#[case::into_a_folder(&["-m", "metadata.yml", "-o", ".", "policy.wasm"], "error: .: ")]
fn what_cannot_be_read_or_written_exits_with_1(#[case] args: &[&str], #[case] message: &str) {
    let folder = folder(METADATA);
    fs::write(folder.path().join("empty.wasm"), b"\0asm\x01\0\0\0").unwrap();
    let before = names(folder.path());
    let run = pillion(folder.path(), args);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("error: ") && run.err.contains(message), "{}", run.err);
    assert_eq!(names(folder.path()), before);
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_takes_nothing_is_an_error_and_a_device_stays_one() {
    let folder = folder(METADATA);
    let run = pillion(folder.path(), &["-m", "metadata.yml", "-o", "/dev/full", "policy.wasm"]);
    assert_eq!(run.code, 1);
    assert!(run.err.starts_with("error: /dev/full: "), "{}", run.err);
    assert!(Path::new("/dev/full").exists());
}

#[cfg(unix)]
#[test]
fn links_and_permissions_stay() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let folder = folder(METADATA);
    let real = folder.path().join("real.wasm");
    fs::write(&real, "old").unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("real.wasm", folder.path().join("out.wasm")).unwrap();
    assert_eq!(annotate(folder.path()).code, 0);
    assert!(folder.path().join("out.wasm").is_symlink());
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(fs::read(&real).unwrap().starts_with(b"\0asm"));
}

#[rstest]
#[case::no_output(&["-m", "metadata.yml", "policy.wasm"])]
#[case::no_metadata(&["-o", "out.wasm", "policy.wasm"])]
#[case::no_module(&["-m", "metadata.yml", "-o", "out.wasm"])]
fn wrong_arguments_exit_with_2(#[case] args: &[&str]) {
    let run = pillion(folder(METADATA).path(), args);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("Usage: "), "{}", run.err);
}
