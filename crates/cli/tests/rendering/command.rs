//! The command, as people use it.

use std::fs;

use rstest::rstest;

use super::root;

fn pillion(args: &[&str]) -> assert_cmd::Command {
    let mut command = assert_cmd::Command::cargo_bin("pillion").unwrap();
    command.current_dir(root()).arg("manifest").args(args);
    command
}

/// Exit code, `stdout` and `stderr`.
fn run(args: &[&str], stdin: &str) -> (i32, String, String) {
    let output = pillion(args).write_stdin(stdin).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn stdout_is_data_and_stderr_says_what_it_is() {
    let (code, out, err) = run(&["kubewarden", "--settings", "-"], "sidecarSets: []\n");
    assert_eq!(code, 0);
    assert_eq!(super::objects("out", &out).len(), 4);
    insta::assert_snapshot!(err, @r#"
      Role kruise-system/pillion
      RoleBinding kruise-system/pillion
      ClusterAdmissionPolicy pillion-pods
      ClusterAdmissionPolicy pillion-sidecarsets
    note: the Role in namespace "kruise-system" needs this namespace to exist; where it does not, use --no-system-role, or set systemNamespace in the settings
    "#);
}

#[test]
fn files_are_written_one_for_each_object_and_one_for_all_rights() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("new/manifests");
    let (code, printed, err) =
        run(&["standalone", "--settings", "deploy/policy-pods.yaml", "--output-dir", out.to_str().unwrap()], "");
    assert_eq!((code, printed.as_str()), (0, ""));
    assert!(err.starts_with(&format!("10 files in {}\n", out.display())), "{err}");
    let mut names: Vec<String> =
        fs::read_dir(&out).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    insta::assert_snapshot!(names.join("\n"), @r"
    01-namespace.yaml
    02-rbac.yaml
    03-settings.yaml
    05-service.yaml
    06-deployment.yaml
    07-pod-disruption-budget.yaml
    08-network-policy.yaml
    09-sidecarset-crd.yaml
    10-mutating-webhooks.yaml
    11-validating-webhooks.yaml
    ");
    let rights = fs::read_to_string(out.join("02-rbac.yaml")).unwrap();
    assert_eq!(super::objects("rights", &rights).len(), 9);
}

#[test]
fn json_is_one_list() {
    let (code, out, _) = run(&["kubewarden", "--settings", "test_data/settings-log-agent.json", "-o", "json"], "");
    assert_eq!(code, 0);
    let list: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((list["apiVersion"].as_str(), list["kind"].as_str()), (Some("v1"), Some("List")));
    let (_, out, _) = run(&["crd", "-o", "json"], "");
    assert!(
        out.starts_with("{\n  \"apiVersion\": \"apiextensions.k8s.io/v1\",\n  \"kind\": \"CustomResourceDefinition\"")
    );
}

#[rstest]
#[case::no_such_file(&["kubewarden", "--settings", "gone.yaml"], "", 2, "gone.yaml: No such file or directory")]
#[case::no_settings(&["kubewarden"], "", 2, "--settings <PATH>")]
#[case::no_target(&[], "", 2, "Usage: pillion manifest")]
#[case::broken_yaml(&["kubewarden", "--settings", "-"], "a: [", 2, "<stdin>:1:4")]
#[case::invalid_settings(
    &["standalone", "--settings", "-"], "sidecarSet: []\nsystemNamespace: 1\n", 1,
    "error: settings: systemNamespace"
)]
#[case::invalid_sets(
    &["kubewarden", "--settings", "-"],
    "sidecarSets: [{apiVersion: apps.kruise.io/v1beta1, kind: SidecarSet, metadata: {name: a}, spec: {}}]\n", 1,
    "sidecarSets[0].spec.selector"
)]
#[case::the_twins_settings(&["kubewarden", "--settings", "-"], "role: Assert\n", 2, "role Assert; leave it out")]
#[case::a_name_with_a_dot(&["standalone", "--settings", "-", "--name", "a.b"], "", 2, "--name <NAME>")]
#[case::a_name_with_a_digit(&["standalone", "--settings", "-", "--name", "1a"], "", 2, "begins with a letter")]
#[case::no_servers(&["standalone", "--settings", "-", "--replicas", "0"], "", 2, "--replicas <COUNT>")]
#[case::an_issuer_of_no_kind(&["standalone", "--settings", "-", "--issuer", "ca"], "", 2, "KIND/NAME")]
#[case::an_issuer_of_another_kind(&["standalone", "--settings", "-", "--issuer", "Ca/x"], "", 2, "Issuer or ClusterIssuer")]
#[case::a_label_without_a_value(&["kubewarden", "--settings", "-", "--opt-out-label", "x"], "", 2, "KEY=VALUE")]
#[case::an_unknown_part(&["kubewarden", "--settings", "-", "--without", "pod"], "", 2, "a similar value exists: 'pods'")]
#[case::no_ca(
    &["standalone", "--settings", "-", "--ca-bundle", "README.md"], "", 2, "README.md: no certificate in PEM"
)]
#[case::a_file_in_the_way(
    &["kubewarden", "--settings", "-", "--output-dir", "README.md"], "", 2, "error: README.md: "
)]
fn mistakes_say_what_is_wrong(#[case] args: &[&str], #[case] stdin: &str, #[case] code: i32, #[case] says: &str) {
    let (found, out, err) = run(args, stdin);
    assert_eq!((found, out.as_str()), (code, ""), "{err}");
    assert!(err.contains(says), "{err}");
}

#[test]
fn a_closed_pipe_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = std::process::Command::new(env!("CARGO_BIN_EXE_pillion"))
        .current_dir(root())
        .args(["manifest", "crd"])
        .stdout(writer)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_ca_is_encoded_as_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.crt");
    fs::write(&path, "-----BEGIN CERTIFICATE-----\nMAo=\n-----END CERTIFICATE-----\n").unwrap();
    let args = ["standalone", "--settings", "-", "--no-crd", "--certificates", "files", "--ca-bundle"];
    let (code, out, err) = run(&[&args[..], &[path.to_str().unwrap()]].concat(), "");
    assert_eq!(code, 0, "{err}");
    assert!(
        out.contains("caBundle: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1Bbz0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="),
        "{out}"
    );
}
