//! `pillion check`, as people run it.
#![allow(missing_docs, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use rstest::rstest;
use serde_json::{Value, json};
use tempfile::TempDir;

struct Answer {
    code: i32,
    out: String,
    err: String,
}

fn check(folder: &Path, args: &[&str], stdin: &str) -> Answer {
    let output = Command::cargo_bin("pillion")
        .unwrap()
        .current_dir(folder)
        .arg("check")
        .args(args)
        .write_stdin(stdin)
        .output()
        .unwrap();
    Answer {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// What is found in one text on stdin: severity, line, column, path and message, then the remedy.
fn found(text: &str) -> Vec<String> {
    let here = folder(&[]);
    lines(&check(here.path(), &["-", "-o", "json"], text).out)
}

fn lines(json: &str) -> Vec<String> {
    let findings: Vec<Value> = serde_json::from_str(json).unwrap();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    findings
        .iter()
        .map(|finding| {
            let remedy = text(finding, "remedy");
            format!(
                "{} {}:{} {}: {}{}",
                text(finding, "severity"),
                finding["line"],
                finding["column"],
                text(finding, "path"),
                text(finding, "message"),
                if remedy.is_empty() { String::new() } else { format!(" -> {remedy}") },
            )
        })
        .collect()
}

/// A SidecarSet in YAML; `spec` is put below its selector.
fn set(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: apps.kruise.io/v1beta1\nkind: SidecarSet\nmetadata:\n  name: {name}\nspec:\n  selector:\n    \
         matchLabels: {{logs: collect}}\n{spec}"
    )
}

fn agent(name: &str) -> String {
    format!("  containers:\n  - name: {name}\n    image: agent:1\n")
}

/// A policy in YAML with this `spec` and SidecarSets in flow style.
fn policy(kind: &str, spec: &str, sets: &Value) -> String {
    format!(
        "apiVersion: policies.kubewarden.io/v1\nkind: {kind}\nmetadata: {{name: p, namespace: n}}\nspec:\n  module: \
         registry://registry.example.com/pillion:v1\n{spec}  settings: {{sidecarSets: {sets}}}\n"
    )
}

const RULES: &str = "  rules:\n  - {apiGroups: [\"\"], apiVersions: [v1], resources: [pods], operations: [CREATE]}\n";

fn json_set(name: &str, spec: &Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"logs": "collect"}}, "containers": [{"name": name, "image": "agent:1"}],
        },
    });
    for (key, value) in spec.as_object().unwrap() {
        set["spec"][key] = value.clone();
    }
    set
}

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

warning: unknown field; it is kept and injected, but no hash sees it, so rollouts do not see changes to it
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
    "error 1:16 featureGates: Unsupported value: \"EnableSortSidecarContainersByName\" -> did you mean \
     \"EnableSortSidecarContainerByName\"? Supported are \"SidecarSetServiceAccountInjection\", \
     \"SidecarSetPatchPodMetadataDefaultsAllowed\", \"EnableSortSidecarContainerByName\""
])]
#[case::whitelist("patchPodMetadataWhitelist:\n  rules:\n  - allowedAnnotationKeyExpr: [a]\n  - allowedAnnotationKeyExprs: ['(']\n", &[
    "error 3:5 patchPodMetadataWhitelist.rules[0].allowedAnnotationKeyExpr: Unknown field \
     \"allowedAnnotationKeyExpr\" -> did you mean \"allowedAnnotationKeyExprs\"?"
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
    "error 15:9 metadata.name: Duplicate value: \"a\": names are unique -> remove one"
])]
#[case::not_yaml("a: [1\n", &["error 1:4 : unclosed bracket '['"])]
#[case::key_twice("sidecarSets: []\nsidecarSets: []\n", &["error 2:1 : duplicate mapping key: sidecarSets"])]
fn errors_have_their_place(#[case] text: &str, #[case] expected: &[&str]) {
    assert_eq!(found(text), expected);
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
    // The canary's base is there; that it is broken is said once.
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
             this name for the same Pods"
        )
    };
    assert_eq!(errors, [of("agent"), of("agent"), of("b")]);
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

#[rstest]
#[case::container(
    &agent("a").replace("image", "imagge: x\n    image"),
    "warning 10:5 spec.containers[0].imagge: unknown field; it is kept and injected, but no hash sees it, so rollouts \
     do not see changes to it -> did you mean \"image\"?"
)]
#[case::elsewhere(
    &format!("  color: red\n{}", agent("a")),
    "warning 8:3 spec.color: unknown field; nothing reads it -> correct its name or its indentation, or remove it"
)]
#[case::field_of_the_other_version(
    &format!("  namespace: x\n{}", agent("a")),
    "warning 8:3 spec.namespace: unknown field; nothing reads it -> v1beta1 has no such field: without it every \
     namespace is meant; use namespaceSelector with matchLabels kubernetes.io/metadata.name"
)]
#[case::paused(
    &format!("  injectionStrategy: {{paused: true}}\n{}", agent("a")),
    "warning 8:31 spec.injectionStrategy.paused: injection is paused: no new Pod gets this SidecarSet -> set it to \
     false to inject"
)]
#[case::contradiction(
    &format!("    matchExpressions: [{{key: logs, operator: NotIn, values: [collect]}}]\n{}", agent("a")),
    "warning 6:3 spec.selector: the requirements contradict each other: no Pod can be selected -> all of them have to \
     hold at once; remove one"
)]
#[case::no_namespace(
    &format!(
        "  namespaceSelector:\n    matchExpressions: [{{key: kubernetes.io/metadata.name, operator: DoesNotExist}}]\n{}",
        agent("a")
    ),
    "warning 8:3 spec.namespaceSelector: the requirements contradict each other: no namespace can be selected -> all \
     of them have to hold at once; remove one"
)]
#[case::unused_volume(
    &format!("{}  volumes:\n  - name: v\n    emptyDir: {{}}\n", agent("a")),
    "warning 12:11 spec.volumes[0].name: no container of this SidecarSet uses the volume; it is not injected -> mount \
     it, or remove it"
)]
#[case::word(
    &agent("a").replace("image: agent:1", "image: agent:1\n    upgradeStrategy: {upgradeType: hotUpgrade}"),
    "warning 11:36 spec.containers[0].upgradeStrategy.upgradeType: \"hotUpgrade\" means nothing here; the default is \
     used -> did you mean \"HotUpgrade\"?"
)]
#[case::no_whitelist(
    &format!("  patchPodMetadata:\n  - annotations: {{a: b}}\n{}", agent("a")),
    "warning 8:3 spec.patchPodMetadata: not checked whether these annotations are allowed: there is neither a \
     whitelist in settings nor ConfigMap \"kruise-system/kruise-configuration\" -> check it together with the \
     settings, or with that ConfigMap"
)]
#[case::revision(
    &format!("  injectionStrategy: {{revision: {{revisionName: a-1}}}}\n{}", agent("a")),
    "warning 8:48 spec.injectionStrategy.revision.revisionName: not checked whether this ControllerRevision is in \
     namespace \"kruise-system\" and can be used -> check it together with the ControllerRevision"
)]
fn sidecar_sets_get_warnings(#[case] spec: &str, #[case] expected: &str) {
    assert_eq!(found(&set("a", spec)), [expected]);
}

#[test]
fn v1alpha1_is_reported_as_it_is_written() {
    let text =
        "apiVersion: apps.kruise.io/v1alpha1\nkind: SidecarSet\nmetadata: {name: a}\nspec:\n  namespace: Bad!\n  \
                selector:\n    matchLabels: {logs: collect}\n"
            .to_owned()
            + &agent("a");
    let found = found(&text);
    assert!(found[0].starts_with("error 5:14 spec.namespace: Invalid value: \"Bad!\""), "{found:#?}");
    assert_eq!(found.len(), 1);
}

#[test]
fn a_hash_that_is_not_of_these_containers_is_found() {
    let text = set("a", &agent("a"))
        .replace("name: a\nspec", "name: a\n  annotations:\n    kruise.io/sidecarset-hash: x\nspec");
    let warnings: Vec<String> = found(&text).into_iter().filter(|line| line.starts_with("warning")).collect();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("warning 6:32 metadata.annotations[kruise.io/sidecarset-hash]: the hash is not"));
}

#[test]
fn a_base_that_its_canary_hides_and_a_shared_volume_are_found() {
    let volume = json!({"name": "v", "emptyDir": {}});
    let mount = json!([{"name": "v", "mountPath": "/v"}]);
    let with = |name: &str| {
        json_set(
            name,
            &json!({"volumes": [volume], "containers": [{"name": name, "image": "a:1", "volumeMounts": mount}]}),
        )
    };
    let mut canary = json_set("canary", &json!({"updateStrategy": {"type": "NotUpdate"}}));
    canary["metadata"]["annotations"] =
        json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "one"});
    let mut other = with("other");
    other["spec"]["selector"] = json!({"matchLabels": {"logs": "none"}});
    let settings = json!({"sidecarSets": [with("one"), with("two"), canary, other]});
    let found = found(&settings.to_string());
    let ends: Vec<&str> = found.iter().map(|line| line.split_once(' ').unwrap().1.split_once(' ').unwrap().1).collect();
    assert_eq!(
        ends,
        [
            "sidecarSets[0].spec.selector: its canary \"canary\" selects every Pod that this SidecarSet selects; no Pod \
             gets this one -> let the canary select fewer Pods, or remove one of them",
            "sidecarSets[1].spec.volumes[0].name: SidecarSet \"one\" has the same volume: Pods that get both have one, \
             and both write to it -> rename one of them if that is not meant",
        ]
    );
}

#[test]
fn namespaces_that_are_given_are_looked_at() {
    let own = set("a", &format!("  namespaceSelector: {{matchLabels: {{team: a}}}}\n{}", agent("a")));
    let namespace =
        |team: &str| format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: n, labels: {{team: {team}}}}}\n");
    assert_eq!(found(&format!("{own}---\n{}", namespace("a"))), Vec::<String>::new());
    let missed = found(&format!("{own}---\n{}", namespace("b")));
    assert_eq!(
        missed,
        [
            "warning 8:3 spec.namespaceSelector: the Namespace that was given is not selected -> compare it with their labels"
        ]
    );
}

#[test]
fn the_whitelist_is_applied_where_it_is_there() {
    let patching = json_set("a", &json!({"patchPodMetadata": [{"annotations": {"k": "v"}}]}));
    let settings = |expression: &str| {
        json!({
            "sidecarSets": [json_set("a", &json!({}))],
            "patchPodMetadataWhitelist": {"rules": [{"allowedAnnotationKeyExprs": [expression]}]},
        })
    };
    let here = folder(&[
        ("a.json", &patching.to_string()),
        ("yes.json", &settings("^k$").to_string()),
        ("no.json", &settings("^x").to_string()),
    ]);
    assert_eq!(check(here.path(), &["a.json", "yes.json"], "").code, 0);
    let answer = check(here.path(), &["a.json", "no.json", "-o", "json"], "");
    assert_eq!(answer.code, 1);
    assert!(lines(&answer.out)[0].contains("the whitelist does not allow this annotation"), "{}", answer.out);
    let config_map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kruise-configuration", "namespace": "kruise-system"},
        "data": {"SidecarSet_PatchPodMetadata_WhiteList": "{\"rules\": [{\"allowedAnnotationKeyExprs\": [\"^k$\"]}]}"},
    });
    fs::write(here.path().join("map.json"), config_map.to_string()).unwrap();
    let answer = check(here.path(), &["a.json", "map.json"], "");
    assert_eq!((answer.code, answer.out.as_str()), (0, ""));
}

#[test]
fn revisions_are_looked_for() {
    let revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {"spec": {"containers": []}},
        "metadata": {"name": "a-1", "namespace": "kruise-system", "labels": {"kruise.io/sidecarset-name": "a"}},
    });
    let asking = json_set("a", &json!({"injectionStrategy": {"revision": {"revisionName": "a-1"}}}));
    let here = folder(&[("a.json", &asking.to_string()), ("r.json", &revision.to_string())]);
    let answer = check(here.path(), &["."], "");
    assert_eq!((answer.code, answer.out.as_str()), (0, ""));
    // The settings are valid, and yet no Pod can have it.
    let asking = json_set("a", &json!({"injectionStrategy": {"revision": {"customVersion": "v9"}}}));
    let found = found(&json!({"sidecarSets": [asking]}).to_string());
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("every Pod that this SidecarSet matches is refused: Invalid value: \"v9\""), "{found:?}");
}

#[test]
fn policies_are_read_for_how_they_run_the_module() {
    let sets = json!([json_set("a", &json!({"namespaceSelector": {"matchLabels": {"team": "a"}}}))]);
    let spec = "  mode: monitor\n  mutating: false\n  failurePolicy: Ignore\n  namespaceSelector:\n    matchLabels: \
                {team: b}\n  rules:\n  - {apiGroups: [\"\"], resources: [pods], operations: [UPDATE]}\n  - {apiGroups: \
                [apps.kruise.io], resources: [sidecarsets], operations: [CREATE]}\n";
    insta::assert_snapshot!(found(&policy("ClusterAdmissionPolicy", spec, &sets)).join("\n"), @r#"
warning 4:1 spec.contextAwareResources: SidecarSets that are written may name a revision, but the policy may not read apps/v1 ControllerRevision; such requests are refused with 503 -> add {apiVersion: apps/v1, kind: ControllerRevision} to contextAwareResources, and give the policy server's ServiceAccount "get" on it
warning 4:1 spec.contextAwareResources: SidecarSets that are written may use patchPodMetadata, and the settings have no whitelist, but the policy may not read v1 ConfigMap; such requests are refused with 503 -> add {apiVersion: v1, kind: ConfigMap} to contextAwareResources, and give the policy server's ServiceAccount "get" on it
warning 4:1 spec.timeoutEvalSeconds: look-ups count as evaluation, which by default ends within 2 seconds -> set it, for instance to 5
warning 6:9 spec.mode: the policy only monitors: nothing is injected, nothing is refused -> set it to protect when its log says what you expect
warning 7:13 spec.mutating: the policy may not mutate: every Pod that would get a sidecar is refused -> set it to true
warning 8:18 spec.failurePolicy: while the policy server does not answer, Pods start without their sidecars -> use Fail, and leave out the namespaces that must start without it
warning 10:5 spec.namespaceSelector.matchLabels: Kubewarden drops matchLabels without a word: the policy gets the Pods of every namespace -> use matchExpressions with operator In
warning 11:3 spec.rules: SidecarSets are checked when they are created, but not when they are changed -> add UPDATE to the rule for sidecarsets
"#);
}

#[rstest]
#[case::namespace_is_read(
    "ClusterAdmissionPolicy", "  mutating: true\n  timeoutEvalSeconds: 5\n  contextAwareResources: [{apiVersion: v1, kind: ConfigMap}]\n",
    &json!({"namespaceSelector": {"matchLabels": {"team": "a"}}}),
    &["warning 8:3 spec.contextAwareResources: SidecarSet \"a\" has a namespaceSelector, but the policy may not read v1 \
       Namespace; such requests are refused with 503 -> add {apiVersion: v1, kind: Namespace} to contextAwareResources, \
       and give the policy server's ServiceAccount \"get\" on it"]
)]
#[case::nothing_is_missing(
    "ClusterAdmissionPolicy", "  mutating: true\n  timeoutEvalSeconds: 5\n  contextAwareResources: [{apiVersion: v1, kind: Namespace}]\n",
    &json!({"namespaceSelector": {"matchLabels": {"team": "a"}}}),
    &[]
)]
#[case::a_policy_of_one_namespace_cannot_read(
    "AdmissionPolicy", "  mutating: true\n  timeoutEvalSeconds: 5\n",
    &json!({"namespaceSelector": {"matchLabels": {"team": "a"}}}),
    &["warning 4:1 spec.contextAwareResources: SidecarSet \"a\" has a namespaceSelector, but the policy may not read v1 \
       Namespace; such requests are refused with 503 -> use a ClusterAdmissionPolicy: an AdmissionPolicy cannot read the \
       cluster"]
)]
#[case::other_namespaces(
    "ClusterAdmissionPolicy",
    "  mutating: true\n  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [x]}]}\n  \
     timeoutEvalSeconds: 5\n  contextAwareResources: [{apiVersion: v1, kind: Namespace}]\n",
    &json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "y"}}}),
    &["warning 12:208 spec.settings.sidecarSets[0].spec.namespaceSelector: the policy is for other namespaces \
       (kubernetes.io/metadata.name in (x)) than these (kubernetes.io/metadata.name=y) -> change one of the two"]
)]
#[case::other_pods(
    "ClusterAdmissionPolicy", "  mutating: true\n  objectSelector: {matchLabels: {logs: none}}\n", &json!({}),
    &["warning 10:208 spec.settings.sidecarSets[0].spec.selector: the policy's objectSelector (logs=none) lets none of \
       these Pods through (logs=collect) -> change one of the two"]
)]
fn policies_get_warnings(#[case] kind: &str, #[case] spec: &str, #[case] of_set: &Value, #[case] expected: &[&str]) {
    let text = policy(kind, &format!("{spec}{RULES}"), &json!([json_set("a", of_set)]));
    let without_column = |line: &str| {
        let mut parts = line.splitn(3, ' ');
        let (severity, place, rest) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        format!("{severity} {} {rest}", place.split(':').next().unwrap())
    };
    let found: Vec<String> = found(&text).iter().map(|line| without_column(line)).collect();
    let expected: Vec<String> = expected.iter().map(|line| without_column(line)).collect();
    assert_eq!(found, expected);
}

#[test]
fn settings_that_do_not_fit_are_found() {
    let filler = "x".repeat(600 * 1024);
    let set = json_set("a", &json!({"containers": [{"name": "a", "image": "a:1", "args": [filler]}]}));
    let large = found(&json!({"sidecarSets": [set]}).to_string());
    assert_eq!(large.len(), 1);
    assert!(large[0].starts_with("warning 1:1 : these settings have 6"), "{large:?}");
    // Two policies of one server share what there is.
    let policies = [
        policy("ClusterAdmissionPolicy", "  mutating: true\n", &json!([set])),
        policy("ClusterAdmissionPolicy", "  mutating: true\n", &json!([set])),
    ];
    let both = found(&policies.join("---\n"));
    assert!(
        both.iter().any(|line| line.starts_with("error") && line.contains("the 2 policies of this policy server")),
        "{both:?}"
    );
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
#[case::nothing_of_ours(&["other.yaml"], "error: there is nothing to check: no settings, SidecarSet or policy of Pillion; a file of settings that is not known as one can be given with --settings\n")]
#[case::empty_folder(&["empty"], "error: empty: no .yaml, .yml or .json file in this folder\n0 errors, 0 warnings in 0 files; 1 could not be read\n")]
#[case::no_utf8(&["binary.yaml"], "error: binary.yaml: stream did not contain valid UTF-8\n0 errors, 0 warnings in 0 files; 1 could not be read\n")]
fn what_cannot_be_checked_is_said(#[case] args: &[&str], #[case] expected: &str) {
    let here = folder(&[("other.yaml", "kind: Deployment\n"), ("empty/.keep", "")]);
    fs::write(here.path().join("binary.yaml"), [0xff, 0xfe, 0x00]).unwrap();
    let answer = check(here.path(), args, "");
    assert_eq!((answer.code, answer.err.as_str()), (2, expected));
}

#[test]
fn settings_are_read_as_such_where_that_is_asked_for() {
    let here = folder(&[("a.yaml", "featureGates: {X: true}\n"), ("list.yaml", "- 1\n"), ("empty.yaml", "{}\n")]);
    assert_eq!(check(here.path(), &["a.yaml"], "").code, 2);
    assert_eq!(check(here.path(), &["--settings", "a.yaml"], "").code, 1);
    assert_eq!(check(here.path(), &["--settings", "empty.yaml"], "").code, 0);
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
