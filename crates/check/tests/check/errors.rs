//! Errors, and where they stand.

use rstest::rstest;
use serde_json::json;

use super::support::{agent, check, folder, found, json_set, lines, set};

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
