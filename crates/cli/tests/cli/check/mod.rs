//! `pillion check`, as users run it.

mod audiences;
mod autoscalers;
mod beside;
mod bundled;
mod identities;
mod kubewarden;
mod own_account;
mod policies;
mod roles;
mod sarif;
mod shoots;
mod support;
mod twin;
mod warnings;

use std::fs;

use rstest::rstest;
use serde_json::json;

use crate::support::tree::root;

use self::support::{agent, check, folder, found, json_set, lines, set};

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

#[rstest]
#[case::settings("sidecarSets: 5\n", &["error 1:14 sidecarSets: Invalid value: must be a list, found a number"])]
#[case::json(
    "{\"sidecarSets\": [{\"apiVersion\": \"apps.kruise.io/v1beta1\", \"kind\": \"Pod\"}]}",
    &["error 1:67 sidecarSets[0].kind: Unsupported value: \"Pod\" -> use one of \"SidecarSet\""]
)]
#[case::gate("featureGates: {EnableSortSidecarContainersByName: true}\nsidecarSets: []\n", &[
    "error 1:16 featureGates.EnableSortSidecarContainersByName: Unknown field \
     \"EnableSortSidecarContainersByName\" -> did you mean \"EnableSortSidecarContainerByName\"?"
])]
#[case::whitelist("patchPodMetadataWhitelist:\n  rules:\n  - allowedAnnotationKeyExpr: [a]\n  - allowedAnnotationKeyExprs: ['(']\n", &[
    "error 3:5 patchPodMetadataWhitelist.rules[0].allowedAnnotationKeyExpr: Unknown field \
     \"allowedAnnotationKeyExpr\" -> did you mean \"allowedAnnotationKeyExprs\"?",
    "error 4:33 patchPodMetadataWhitelist.rules[1].allowedAnnotationKeyExprs[0]: Invalid value: \"(\": a parenthesis is not closed"
])]
#[case::misspelt_kind("apiVersion: apps.kruise.io/v1beta1\nkind: Sidecarset\n", &[
    "error 2:7 kind: Unsupported value: \"Sidecarset\" -> did you mean \"SidecarSet\"? Supported are \"SidecarSet\""
])]
#[case::item_of_a_list(
    "kind: List\nitems:\n- apiVersion: apps.kruise.io/v1beta1\n  kind: SidecarSet\n  metadata: {name: a}\n  spec:\n    \
     selector: {matchLabels: {a: b}}\n    containers:\n    - name: a\n      image: b\n      env: [{name: A, value: 5}]\n",
    &["error 11:30 spec.containers[0].env[0].value: Invalid value: must be a string, found a number -> put it in quotes"]
)]
#[case::two_of_one_name(&format!("{}---\n{}", set("a", &agent("a")), set("a", &agent("b"))), &[
    "error 15:9 metadata.name: Duplicate value: \"a\": names are unique -> remove one; the other is at <stdin>:1"
])]
#[case::not_yaml("a: [1\n", &["error 1:4 : did not find expected ',' or ']'; close this ["])]
#[case::key_twice("sidecarSets: []\nsidecarSets: []\n", &["error 2:1 : duplicate key \"sidecarSets\": kubectl would take the last and drop the others"])]
fn errors_have_their_place(#[case] text: &str, #[case] expected: &[&str]) {
    assert_eq!(found(text), expected);
}

#[rstest]
#[case::in_the_same_set(
    &set("a", "  containers:\n  - name: a\n    image: 5\n  - name: b\n    image: ''\n"),
    &["10:12 spec.containers[0].image", "12:12 spec.containers[1].image"]
)]
#[case::beside_a_misspelt_gate(
    &format!(
        "featureGates: {{SidecarSetServiceAccountInjection: true, X: true}}\nsistemNamespace: a\nsidecarSets: [{}]\n",
        json_set("a", &json!({"serviceAccountName": "default"}))
    ),
    &["1:57 featureGates.X", "2:1 sistemNamespace", "3:219 sidecarSets[0].spec.serviceAccountName"]
)]
#[case::in_the_document_before_a_broken_one(
    &format!("{}---\na: [1\n", set("a", "  containers: 5\n")), &["8:15 spec.containers", "10:4 "]
)]
#[case::in_the_document_after_a_broken_one(
    &format!("a: b: c\n---\n{}---\nsystemNamespace: 5\n", set("a", "  containers: 5\n")),
    &["1:5 ", "10:15 spec.containers", "12:18 systemNamespace"]
)]
fn one_error_does_not_hide_another(#[case] text: &str, #[case] expected: &[&str]) {
    let found = found(text);
    let places: Vec<&str> =
        found.iter().filter_map(|line| line.strip_prefix("error ")?.split_once(": ").map(|(place, _)| place)).collect();
    assert_eq!(places, expected, "{found:#?}");
}

#[test]
fn all_sidecar_sets_are_validated_where_one_cannot_be_decoded() {
    let broken =
        json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "base"}, "spec": 5});
    let mut canary = json_set("canary", &json!({"updateStrategy": {"type": "NotUpdate"}}));
    canary["metadata"]["annotations"] =
        json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "base"});
    let invalid = json_set("invalid", &json!({"containers": [{"name": "x", "image": ""}]}));
    let settings = json!({"sidecarSets": [broken, canary, invalid]});
    let found = found(&settings.to_string());
    let places: Vec<&str> = found.iter().map(|line| line.split(' ').nth(2).unwrap()).collect();
    // The canary's base exists. The error in the base is reported once.
    assert_eq!(places, ["sidecarSets[0].spec:", "sidecarSets[2].spec.containers[0].image:"], "{found:#?}");
}

#[test]
fn sidecar_sets_of_several_files_conflict() {
    let here = folder(&[
        ("sets/b.yaml", &set("b", &agent("agent"))),
        ("sets/deep/c.yaml", &set("c", &agent("agent"))),
        ("settings.json", &json!({"sidecarSets": [json_set("agent", &json!({}))]}).to_string()),
    ]);
    let answer = check(here.path(), &["-f", "sets", "-R", "settings.json", "-o", "json"], "");
    assert_eq!(answer.code, 1);
    let errors: Vec<String> = lines(&answer.out).into_iter().filter(|line| line.starts_with("error")).collect();
    let of = |name: &str| {
        format!(
            "error 9:11 spec.containers[0].name: Invalid value: \"agent\": SidecarSet \"{name}\" has a container of \
             this name for the same Pods -> rename one of them or change a selector"
        )
    };
    assert_eq!(errors, [of("agent"), of("agent"), of("b")]);
}

#[test]
fn val52_an_init_container_with_the_name_of_another_sidecar_sets_container_is_an_error() {
    let sets = [
        json_set("logs", &json!({"containers": [{"name": "agent", "image": "agent:1"}]})),
        json_set("setup", &json!({"containers": [], "initContainers": [{"name": "agent", "image": "agent:1"}]})),
    ];
    let expected = "spec.initContainers[0].name: Invalid value: \"agent\": SidecarSet \"logs\" has a container of this name for \
                    the same Pods -> rename the init container or change a selector";
    let beside = found(&sets.each_ref().map(ToString::to_string).join("\n---\n"));
    assert!(beside.len() == 1 && beside[0].starts_with("error") && beside[0].ends_with(expected), "{beside:#?}");
    let within = found(&json!({ "sidecarSets": sets }).to_string());
    let expected = format!("sidecarSets[1].{expected}");
    assert!(within.len() == 1 && within[0].starts_with("error") && within[0].ends_with(&expected), "{within:#?}");
}

/// A file that was read from a cluster has uids.
#[test]
fn val52_sidecar_sets_that_a_cluster_has_stored_with_one_name_are_a_warning() {
    let stored = |name: &str, spec: &serde_json::Value| {
        let mut set = json_set(name, spec);
        set["metadata"]["uid"] = format!("uid of {name}").into();
        set.to_string()
    };
    let setup = json!({"containers": [], "initContainers": [{"name": "agent", "image": "agent:1"}]});
    let both = [stored("agent", &json!({})), stored("setup", &setup)].join("\n---\n");
    let said = found(&both);
    let expected = "stored already; an edit is refused: Invalid value: \"agent\": SidecarSet \"agent\" has a container of this \
                    name for the same Pods -> rename the init container or change a selector";
    assert!(said.len() == 1 && said[0].starts_with("warning") && said[0].ends_with(expected), "{said:#?}");
    // One that is written is refused, wherever it stands.
    let new = json_set("new", &json!({"containers": [{"name": "agent", "image": "new:1"}]})).to_string();
    let said = found(&[new, both].join("\n---\n"));
    let errors: Vec<&String> = said.iter().filter(|line| line.starts_with("error")).collect();
    assert_eq!(errors.len(), 2, "{said:#?}");
    assert!(errors.iter().all(|line| line.contains(" 1:") && line.contains("spec.containers[0].name")), "{errors:#?}");
}

/// In settings, nothing makes a name.
#[test]
fn val2_a_file_may_leave_the_name_to_the_api_server_and_settings_may_not() {
    let mut set = json_set("agent", &json!({}));
    set["metadata"] = json!({"generateName": "agent-"});
    assert_eq!(found(&set.to_string()), [] as [&str; 0]);
    let said = found(&json!({"sidecarSets": [set]}).to_string());
    assert!(
        said.len() == 1 && said[0].contains("metadata.name: Required value: a SidecarSet needs a name"),
        "{said:#?}"
    );
}

/// The API server clears the field before admission.
#[test]
fn a_namespace_in_the_metadata_is_a_warning() {
    let mut tail = json_set("tail", &json!({}));
    tail["metadata"]["namespace"] = "shop".into();
    let expected = "metadata.namespace: a SidecarSet is in no namespace: the API server drops this, and it chooses no Pods -> \
                    remove it; spec.namespaceSelector chooses the namespaces of Pods";
    for said in [found(&tail.to_string()), found(&json!({"sidecarSets": [tail]}).to_string())] {
        assert!(said.len() == 1 && said[0].starts_with("warning") && said[0].ends_with(expected), "{said:#?}");
    }
}

#[test]
fn a_sidecar_set_and_its_copy_in_the_settings_are_one() {
    let here = folder(&[
        ("a.json", &json_set("a", &json!({})).to_string()),
        ("settings.json", &json!({"sidecarSets": [json_set("a", &json!({}))]}).to_string()),
    ]);
    let answer = check(here.path(), &["."], "");
    assert_eq!((answer.code, answer.out.as_str()), (0, ""), "{}", answer.err);
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
