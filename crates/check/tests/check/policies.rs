//! Policies: the way in which they run the module.

use rstest::rstest;
use serde_json::{Value, json};

use super::support::{found, json_set};

/// Returns a policy in YAML with this `spec`, and with SidecarSets in flow style.
fn policy(kind: &str, spec: &str, sets: &Value) -> String {
    format!(
        "apiVersion: policies.kubewarden.io/v1\nkind: {kind}\nmetadata: {{name: p, namespace: n}}\nspec:\n  module: \
         registry://registry.example.com/pillion:v1\n{spec}  settings: {{sidecarSets: {sets}}}\n"
    )
}

const RULES: &str = "  rules:\n  - {apiGroups: [\"\"], apiVersions: [v1], resources: [pods], operations: [CREATE]}\n";

#[test]
fn policies_are_read_for_how_they_run_the_module() {
    let sets = json!([json_set("a", &json!({"namespaceSelector": {"matchLabels": {"team": "a"}}}))]);
    let spec = "  mode: monitor\n  mutating: false\n  failurePolicy: Ignore\n  namespaceSelector:\n    matchLabels: \
                {team: b}\n  rules:\n  - {apiGroups: [\"\"], resources: [pods], operations: [CREATE]}\n  - {apiGroups: \
                [apps.kruise.io], resources: [sidecarsets], operations: [CREATE]}\n";
    insta::assert_snapshot!(found(&policy("ClusterAdmissionPolicy", spec, &sets)).join("\n"), @r#"
warning 4:1 spec.contextAwareResources: SidecarSet "a" has a namespaceSelector, but the policy may not read v1 Namespace; such requests are refused with 503 -> add {apiVersion: v1, kind: Namespace} to contextAwareResources, and give the policy server's ServiceAccount "get" on it
warning 4:1 spec.contextAwareResources: SidecarSets that are written may name a revision, but the policy may not read apps/v1 ControllerRevision; such requests are refused with 503 -> add {apiVersion: apps/v1, kind: ControllerRevision} to contextAwareResources, and give the policy server's ServiceAccount "get" on it
warning 4:1 spec.contextAwareResources: SidecarSets that are written may use patchPodMetadata, and the settings have no whitelist, but the policy may not read v1 ConfigMap; such requests are refused with 503 -> add {apiVersion: v1, kind: ConfigMap} to contextAwareResources, and give the policy server's ServiceAccount "get" on it
warning 4:1 spec.timeoutEvalSeconds: look-ups count as evaluation, which by default ends within 2 seconds -> set it, for instance to 5
warning 6:9 spec.mode: the policy only monitors: nothing is injected, nothing is refused -> set it to protect when its log says what you expect
warning 7:13 spec.mutating: the policy may not mutate: every Pod that would get a sidecar is refused, every SidecarSet without its defaults and hash is refused -> set it to true
warning 10:5 spec.namespaceSelector.matchLabels: Kubewarden silently drops matchLabels: the policy gets the Pods of every namespace -> use matchExpressions with operator In
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
#[case::opt3_a_namespace_may_leave_it_out(
    "ClusterAdmissionPolicy", "  mutating: true\n  timeoutEvalSeconds: 5\n  contextAwareResources: [{apiVersion: v1, kind: ConfigMap}]\n",
    &json!({"annotations": {"pillion.dev/opt-out": "Allowed"}}),
    &["warning 8:3 spec.contextAwareResources: SidecarSet \"a\" has the annotation pillion.dev/opt-out: Allowed, so a \
       Namespace may leave it out, but the policy may not read v1 Namespace; such requests are refused with 503 -> add \
       {apiVersion: v1, kind: Namespace} to contextAwareResources, and give the policy server's ServiceAccount \"get\" on it"]
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
    // Two policies of one server share the limit.
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
fn members_of_groups_are_read_too() {
    let set = json_set("a", &json!({"containers": [{"name": "a", "image": ""}]}));
    let text = format!(
        "apiVersion: policies.kubewarden.io/v1\nkind: ClusterAdmissionPolicyGroup\nmetadata: {{name: g}}\nspec:\n  \
         policies:\n    a.b:\n      module: registry://registry.example.com/pillion:v1\n      settings:\n        \
         sidecarSets: [{set}]\n    other:\n      module: registry://registry.example.com/other:v1\n"
    );
    let found = found(&text);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert_eq!(
        found[0],
        "warning 6:5 spec.policies.a.b: members of a policy group may not mutate: nothing is injected -> use a \
         ClusterAdmissionPolicy"
    );
    assert!(found[1].starts_with("error 9:"), "{}", found[1]);
    assert!(found[1].contains(" spec.policies.a.b.settings.sidecarSets[0].spec.containers[0].image: "), "{}", found[1]);
}
