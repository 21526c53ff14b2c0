//! `pillion manifest`, as users run it. What is rendered is tested in crates/install.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rstest::rstest;

use crate::support::files::{objects, root, text};

fn pillion(args: &[&str]) -> assert_cmd::Command {
    let mut command = assert_cmd::Command::cargo_bin("pillion").unwrap();
    command.current_dir(root()).arg("manifest").args(args);
    command
}

/// Returns the exit code, `stdout` and `stderr`.
fn run(args: &[&str], stdin: &str) -> (i32, String, String) {
    let output = pillion(args).write_stdin(stdin).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn stdout_is_data_and_stderr_says_what_it_is() {
    let (code, out, err) = run(&["kubewarden", "--settings", "-"], "sidecarSets: []\n");
    assert_eq!(code, 0);
    assert_eq!(objects("out", &out).len(), 9);
    insta::assert_snapshot!(err, @r#"
      ClusterRole pillion
      ClusterRoleBinding pillion
      Role kruise-system/pillion
      RoleBinding kruise-system/pillion
      Role pillion-system/pillion-bundle
      RoleBinding pillion-system/pillion-bundle
      ClusterRole pillion-sidecarsets-view
      ClusterAdmissionPolicy pillion-pods
      ClusterAdmissionPolicy pillion-sidecarsets
    note: the settings have no SidecarSets, so bundleRef names the ConfigMap "pillion-system/pillion-bundle", which the controller `bundle` keeps (`pillion manifest controller`): until it is there, Pods are refused; bundleRef: null in the settings leaves it out
    note: the Role in namespace "kruise-system" needs this namespace to exist; where it does not, set systemNamespace in the settings
    note: the Role in namespace "pillion-system" needs this namespace to exist; where it does not, name another one in bundleRef of the settings
    note: the module registry://ghcr.io/pillion/policies/pillion:v0.1.0 is a placeholder and is not published yet; push the module to a registry of yours and name it with --module
    "#);
}

/// Returns the modules of the rendered policies, without adjacent duplicates.
fn modules(out: &str) -> Vec<String> {
    let rendered = objects("out", out);
    let modules = rendered.iter().filter_map(|object| object.pointer("/spec/module")?.as_str().map(str::to_owned));
    let mut modules: Vec<String> = modules.collect();
    modules.dedup();
    modules
}

#[test]
fn a_policy_keeps_its_own_module() {
    let policy = fs::read_to_string(root().join("examples/kubewarden/policies/policy-pods.yaml")).unwrap();
    let own = policy.lines().find_map(|line| line.trim().strip_prefix("module: ")).unwrap();
    let (code, out, err) = run(&["kubewarden", "--settings", "examples/kubewarden/policies/policy-pods.yaml"], "");
    assert_eq!((code, modules(&out)), (0, vec![own.to_owned()]), "{err}");
    assert!(!err.contains("placeholder"), "{err}");
    let named = "registry://registry.example.com/mine:v2";
    let (_, out, _) =
        run(&["kubewarden", "--settings", "examples/kubewarden/policies/policy-pods.yaml", "--module", named], "");
    assert_eq!(modules(&out), [named]);
    let (code, _, err) = run(&["kubewarden", "--settings", "-"], &policy.replace(own, "'bad module'"));
    assert_eq!(code, 2);
    assert!(err.contains("the policy's spec.module is \"bad module\": a module is written registry://"), "{err}");
}

#[rstest]
#[case::server("standalone")]
#[case::controllers("controller")]
fn an_image_that_is_not_named_is_a_placeholder_and_says_so(#[case] what: &str) {
    let (code, out, err) = run(&[what, "--settings", "-"], "{}");
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("note: the image ghcr.io/pillion/pillion:v0.1.0 is a placeholder and is not published yet"));
    assert!(out.contains("# The image ghcr.io/pillion/pillion:v0.1.0 is a placeholder"), "{out}");
    let (_, out, err) = run(
        &[
            what,
            "--settings",
            "-",
            "--image",
            "registry.example.com:5000/pillion@sha256:0123456789012345678901234567890123456789012345678901234567890123",
        ],
        "{}",
    );
    assert!(!err.contains("placeholder") && !out.contains("placeholder"), "{err}");
}

/// Renders into a folder, and returns its file names and `stderr`.
fn render_into(folder: &std::path::Path, args: &[&str], settings: &str) -> (Vec<String>, String) {
    let (code, _, err) =
        run(&[args, &["--settings", "-", "--output-dir", folder.to_str().unwrap()]].concat(), settings);
    assert_eq!(code, 0, "{err}");
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    (names, err)
}

#[test]
fn files_that_are_not_needed_any_longer_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let on = "featureGates: {SidecarSetServiceAccountInjection: true}\n";
    let (all, _) = render_into(folder.path(), &["kubewarden"], on);
    assert!(all.contains(&"policy-guards.yaml".to_owned()), "{all:?}");
    // Files of another installation, hand-written files, and files of another kind of rendering.
    let guards = fs::read_to_string(folder.path().join("policy-guards.yaml")).unwrap();
    fs::write(folder.path().join("policy-other.yaml"), guards.replace("instance: pillion", "instance: other")).unwrap();
    fs::write(folder.path().join("policy-mine.yaml"), "kind: ConfigMap\n").unwrap();
    fs::write(folder.path().join("kustomization.yaml"), "resources: []\n").unwrap();
    let (left, err) = render_into(folder.path(), &["kubewarden"], "{}");
    assert_eq!(
        left,
        [
            "kustomization.yaml",
            "policy-mine.yaml",
            "policy-other.yaml",
            "policy-pods.yaml",
            "policy-sidecarsets.yaml",
            "rbac.yaml",
            "sidecarsets-view.yaml",
        ]
    );
    assert!(err.contains("removed ") && err.contains("policy-guards.yaml: an earlier run wrote it"), "{err}");
    // The definition stays, because its deletion would delete all SidecarSets.
    render_into(folder.path(), &["kubewarden", "--crd"], "{}");
    let (left, _) = render_into(folder.path(), &["kubewarden", "-o", "json"], "{}");
    assert_eq!(
        left,
        [
            "kustomization.yaml",
            "policy-mine.yaml",
            "policy-other.yaml",
            "policy-pods.json",
            "policy-sidecarsets.json",
            "rbac.json",
            "sidecarset-crd.yaml",
            "sidecarsets-view.json"
        ]
    );
}

#[test]
fn a_server_and_policies_in_one_folder_leave_each_other_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (policies, _) = render_into(folder.path(), &["kubewarden"], "{}");
    let (both, _) = render_into(folder.path(), &["standalone"], "{}");
    assert!(policies.iter().all(|file| both.contains(file)), "{both:?}");
    let (both, err) = render_into(folder.path(), &["standalone", "--no-network-policy"], "{}");
    assert!(policies.iter().all(|file| both.contains(file)), "{both:?}");
    assert!(!both.contains(&"08-network-policy.yaml".to_owned()) && err.contains("08-network-policy.yaml"), "{both:?}");
}

/// Two installations have files of the same names.
#[test]
fn files_of_another_installation_are_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _) = render_into(folder.path(), &["standalone"], "{}");
    let rights = fs::read_to_string(folder.path().join("02-rbac.yaml")).unwrap();
    let (code, _, err) = run(&["controller", "--settings", "-", "--output-dir", folder.path().to_str().unwrap()], "{}");
    assert_eq!(code, 2);
    assert!(err.contains("belongs to the installation \"pillion\", and this is \"pillion-controller\""), "{err}");
    assert_eq!(fs::read_to_string(folder.path().join("02-rbac.yaml")).unwrap(), rights);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), server.len());
}

/// Settings with a sidecar, an identity, and rules for Shoots.
const EVERYTHING: &str = "\
featureGates: {SidecarSetServiceAccountInjection: true}
shoots: {enabled: true}
serviceAccounts: {protectedNamespaces: [kube-system]}
sidecarSets:
- apiVersion: apps.kruise.io/v1beta1
  kind: SidecarSet
  metadata: {name: logs}
  spec:
    selector: {matchLabels: {app: web}}
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}
    containers: [{name: logs, image: 'logs:1'}]
    serviceAccountName: logs
";

/// Every command that takes settings can read the files that `manifest` writes.
#[rstest]
fn what_is_written_can_be_read_again(
    #[values("kubewarden", "standalone", "controller")] what: &str,
    #[values("yaml", "json")] format: &str,
) {
    let here = tempfile::tempdir().unwrap();
    let out = here.path().join("out");
    let folder = out.to_str().unwrap();
    render_into(&out, &[what, "-o", format], EVERYTHING);
    let command = |args: &[&str], stdin: &str| {
        let mut command = assert_cmd::Command::cargo_bin("pillion").unwrap();
        let output = command.current_dir(here.path()).args(args).write_stdin(stdin).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    let (code, found, err) = command(&["check", "--warnings-as-errors", folder], "");
    assert_eq!((code, found.as_str()), (0, ""), "{err}");
    assert!(err.contains(if what == "kubewarden" { "6 policies" } else { "1 settings file" }), "{err}");

    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop, labels: {app: web}}\nspec:\n  \
               containers: [{name: web, image: web}]\n";
    fs::write(here.path().join("settings.yaml"), EVERYTHING).unwrap();
    let inject = |settings: &str| {
        command(
            &["inject", "-", "--assume-service-accounts", "--now", "2026-01-02T03:04:05Z", "--settings", settings],
            pod,
        )
    };
    let (code, injected, err) = inject(folder);
    assert_eq!(code, 0, "{err}");
    assert!(injected.contains("logs:1"), "{injected}");
    assert_eq!(injected, inject("settings.yaml").1);

    let (code, again, err) = run(&[what, "--settings", folder, "-o", format], "");
    assert_eq!(code, 0, "{err}");
    assert_eq!(again, run(&[what, "--settings", "-", "-o", format], EVERYTHING).1);
}

#[test]
fn files_are_written_one_for_each_object_and_one_for_all_rights() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("new/manifests");
    let (code, printed, err) =
        run(&["standalone", "--settings", "deploy/policy-pods.yaml", "--output-dir", out.to_str().unwrap()], "");
    assert_eq!((code, printed.as_str()), (0, ""));
    assert!(err.starts_with(&format!("19 objects in 10 files in {}\n", out.display())), "{err}");
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
    assert_eq!(objects("rights", &rights).len(), 10);
}

/// Every form with every controller: the folder has the objects of stdout, and the message counts them.
#[rstest]
#[case::policies(&["kubewarden", "--crd"])]
#[case::a_server(&["standalone"])]
#[case::controllers(&["controller", "--controllers", "*,sidecarset-rollout", "--token-namespaces", "shop"])]
#[case::the_definition(&["crd"])]
fn a_folder_has_every_object(#[case] form: &[&str]) {
    let settings = ["--settings", "-"];
    let form = if form == ["crd"] { form.to_vec() } else { [form, &settings].concat() };
    let text = "featureGates: {SidecarSetServiceAccountInjection: true}\n";
    let (code, out, err) = run(&form, text);
    assert_eq!(code, 0, "{err}");
    let wanted = objects("out", &out);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let (code, _, err) = run(&[&form[..], &["--output-dir", path]].concat(), text);
    assert_eq!(code, 0, "{err}");
    let mut files: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let found: Vec<_> = files.iter().flat_map(|file| objects("file", &fs::read_to_string(file).unwrap())).collect();
    let counted = |number: usize, noun: &str| format!("{number} {noun}{}", if number == 1 { "" } else { "s" });
    let says = format!("{} in {} in {path}\n", counted(wanted.len(), "object"), counted(files.len(), "file"));
    assert!(err.starts_with(&says), "{err}");
    assert_eq!(found.len(), wanted.len());
    assert!(wanted.iter().all(|object| found.contains(object)));
}

/// Without rollouts, the files of rollouts go, and the file of both controllers is written anew.
#[test]
fn files_of_rollouts_belong_to_the_installation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let controllers = |names: &str| {
        let args = ["controller", "--settings", "-", "--controllers", names, "--output-dir", path];
        let (code, _, err) = run(&args, "{}\n");
        assert_eq!(code, 0, "{err}");
        err
    };
    controllers("*,sidecarset-rollout");
    let guard = folder.path().join("03-rollout-guard.yaml");
    assert!(guard.exists());
    let said = controllers("*");
    assert!(said.contains(&format!("removed {}: ", guard.display())), "{said}");
    let rights = fs::read_to_string(folder.path().join("02-rbac.yaml")).unwrap();
    assert!(!rights.contains("pillion-controller-rollout"), "{rights}");
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
#[case::broken_yaml(&["kubewarden", "--settings", "-"], "a: [", 2, "<stdin>:1:5")]
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
#[case::an_image_with_a_space(&["standalone", "--settings", "-", "--image", "bad image"], "", 2, "an image is written")]
#[case::an_image_of_a_controller(&["controller", "--settings", "-", "--image", "a:b:c"], "", 2, "an image is written")]
#[case::an_empty_image(&["standalone", "--settings", "-", "--image", ""], "", 2, "--image")]
#[case::a_module_with_a_space(&["kubewarden", "--settings", "-", "--module", "registry://a b"], "", 2, "a module is written")]
#[case::a_module_of_another_scheme(&["kubewarden", "--settings", "-", "--module", "ftp://a/b"], "", 2, "a module is written")]
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

/// The folders of the repository with rendered policies. `PILLION_RENEW=1` rewrites them.
#[rstest]
#[case::deploy("deploy", "deploy/settings/settings.yaml", &["--any-sidecar-sets"])]
#[case::the_example("examples/kubewarden/policies", "examples/kubewarden/settings.yaml", &[])]
fn the_policies_of_the_repository_are_what_is_rendered(
    #[case] place: &str,
    #[case] settings: &str,
    #[case] flags: &[&str],
) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    assert_cmd::Command::cargo_bin("pillion")
        .unwrap()
        .current_dir(root())
        .args(["manifest", "kubewarden", "--settings", settings])
        .args(flags)
        .args(["--module", "registry://registry.example.com/pillion:v0.1.0", "--output-dir"])
        .arg(&out)
        .assert()
        .success();
    let names = |folder: &Path| -> BTreeSet<String> {
        let paths = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let manifests = paths.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
        manifests.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
    };
    if std::env::var_os("PILLION_RENEW").is_some() {
        fs::create_dir_all(root().join(place)).unwrap();
        for name in names(&out) {
            fs::copy(out.join(&name), root().join(place).join(&name)).unwrap();
        }
    }
    assert_eq!(names(&root().join(place)), names(&out));
    for name in names(&out) {
        let rendered = fs::read_to_string(out.join(&name)).unwrap();
        assert_eq!(text(&format!("{place}/{name}")), rendered, "PILLION_RENEW=1 writes {name}");
    }
}
