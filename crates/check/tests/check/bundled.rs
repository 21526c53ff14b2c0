//! SidecarSets in settings: as manifests, which a policy server copies for each request, or compiled.

use pillion_install::bundling::bundled;
use rstest::rstest;
use serde_json::{Value, json};

use super::support::{agent, check, folder, found, json_set, lines, set};

/// Returns a policy with these settings, one line of JSON. `spec` is YAML.
fn policy(spec: &str, settings: &Value) -> String {
    format!(
        "apiVersion: policies.kubewarden.io/v1\nkind: ClusterAdmissionPolicy\nmetadata: {{name: p}}\nspec:\n  module: \
         registry://registry.example.com/pillion:v1\n  mutating: true\n  timeoutEvalSeconds: 5\n{spec}  settings: \
         {settings}\n"
    )
}

const PODS: &str = "  rules:\n  - {apiGroups: [\"\"], apiVersions: [v1], resources: [pods], operations: [CREATE]}\n";
const SETS: &str = "  contextAwareResources: [{apiVersion: v1, kind: ConfigMap}, {apiVersion: apps/v1, kind: \
                    ControllerRevision}]\n  rules:\n  - {apiGroups: [apps.kruise.io], apiVersions: [v1beta1], resources: \
                    [sidecarsets], operations: [CREATE, UPDATE]}\n";

/// Returns SidecarSets of about a kilobyte each.
fn agents(count: usize) -> Value {
    let agent = |index: usize| {
        let value = "x".repeat(700);
        let name = format!("agent-{index}");
        json_set(
            &name,
            &json!({"containers": [{"name": name, "image": "agent:1", "env": [{"name": "A", "value": value}]}]}),
        )
    };
    (0..count).map(agent).collect()
}

/// Compiles the SidecarSets of settings, as `pillion bundle` does.
fn compiled(settings: &Value) -> Value {
    let assembled = pillion_install::settings::assemble(settings.clone(), &[]).value;
    bundled(assembled).unwrap().unwrap().settings
}

#[test]
fn manifests_in_a_policy_have_a_cost() {
    let settings = json!({"sidecarSets": agents(10)});
    let here = folder(&[("policy.yaml", &policy(PODS, &settings))]);
    let found_in_file = lines(&check(here.path(), &["policy.yaml", "-o", "json"], "").out);
    insta::assert_snapshot!(found_in_file.join("\n"), @"warning 10:14 spec.settings.sidecarSets: the policy server copies 10 manifests with 10 KB for each request: a Pod takes about 1.2 times as long as with a bundle of them -> render the policy again with `pillion manifest kubewarden --settings policy.yaml`, or use the settings of `pillion bundle --settings policy.yaml -o yaml`");
    assert_eq!(found(&policy(PODS, &compiled(&settings))), [""; 0]);
}

#[rstest]
#[case::a_single_one(PODS, 1, 0)]
#[case::a_few(PODS, 7, 0)]
#[case::ten(PODS, 10, 1)]
#[case::a_policy_that_no_pod_waits_for(SETS, 10, 0)]
fn only_many_manifests_that_pods_wait_for_are_warned_of(
    #[case] rules: &str,
    #[case] count: usize,
    #[case] expected: usize,
) {
    let findings = found(&policy(rules, &json!({"sidecarSets": agents(count)})));
    assert_eq!(findings.len(), expected, "{findings:?}");
}

/// `pillion serve` compiles them, and `pillion manifest kubewarden` does: the file is the right place for manifests.
#[rstest]
#[case::ten(10, true)]
#[case::a_few(7, false)]
fn a_file_of_settings_may_have_manifests(#[case] count: usize, #[case] is_told: bool) {
    let here = folder(&[("settings.json", &json!({"sidecarSets": agents(count)}).to_string())]);
    let answer = check(here.path(), &["--warnings-as-errors", "settings.json"], "");
    assert_eq!((answer.code, answer.out.as_str()), (0, ""), "{}", answer.err);
    assert_eq!(answer.err.contains("note: as they are, these SidecarSets slow down"), is_told, "{}", answer.err);
}

/// Where a finding is about a SidecarSet of the settings, its form makes no difference.
#[rstest]
#[case::a_namespace_is_not_read(json!({"sidecarSets": [
    json_set("a", &json!({"namespaceSelector": {"matchLabels": {"team": "a"}}}))]}))]
#[case::it_never_matches(json!({"sidecarSets": [
    json_set("a", &json!({"selector": {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}}))]}))]
#[case::an_identity_without_guards(json!({
    "featureGates": {"SidecarSetServiceAccountInjection": true},
    "sidecarSets": [json_set("a", &json!({"serviceAccountName": "a"}))]}))]
#[case::an_identity_while_the_gate_is_off(json!({"sidecarSets": [json_set("a", &json!({"serviceAccountName": "a"}))]}))]
fn compiled_sidecar_sets_are_checked_like_manifests(#[case] settings: Value) {
    let told = |settings: &Value| -> Vec<String> {
        let here = folder(&[("policy.yaml", &policy(PODS, settings))]);
        let answer = check(here.path(), &["policy.yaml", "-o", "json"], "");
        let findings: Vec<Value> = serde_json::from_str(&answer.out).unwrap();
        let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
        let mut told: Vec<String> = findings
            .iter()
            .map(|finding| {
                format!("{}: {} -> {}", text(finding, "severity"), text(finding, "message"), text(finding, "remedy"))
            })
            .collect();
        told.sort();
        told
    };
    let manifests = told(&settings);
    assert!(!manifests.is_empty());
    assert_eq!(told(&compiled(&settings)), manifests);
}

#[test]
fn a_finding_in_a_bundle_names_the_sidecar_set() {
    let paused = json_set("a", &json!({"injectionStrategy": {"paused": true}}));
    insta::assert_snapshot!(found(&policy(PODS, &compiled(&json!({"sidecarSets": [paused]})))).join("\n"), @"warning 10:14 spec.settings.bundle[a].spec.injectionStrategy.paused: injection is paused: no new Pod gets this SidecarSet -> set it to false to inject");
}

#[test]
fn a_sidecar_set_beside_a_policy_that_has_it_compiled_is_injected() {
    let settings = compiled(&json!({"sidecarSets": [json_set("a", &json!({}))]}));
    let here = folder(&[("policy.yaml", &policy(PODS, &settings)), ("a.yaml", &set("a", &agent("a")))]);
    let answer = check(here.path(), &["."], "");
    assert_eq!((answer.code, answer.out.as_str()), (0, ""), "{}", answer.err);
}

/// The bundle has the revision beside the SidecarSet, and the settings no longer have it.
#[test]
fn a_revision_in_a_bundle_is_not_missing() {
    let strategy = json!({"injectionStrategy": {"revision": {"customVersion": "v1"}}});
    let labels = json!({"kruise.io/sidecarset-name": "a", "apps.kruise.io/sidecarset-custom-version": "v1"});
    let settings = json!({
        "sidecarSets": [json_set("a", &strategy)],
        "controllerRevisions": [{
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
            "metadata": {"name": "a-1", "labels": labels},
            "data": {"spec": {"containers": [{"name": "a", "image": "agent:0"}]}},
        }],
    });
    let compiled = compiled(&settings);
    assert_eq!(compiled.get("controllerRevisions"), None);
    assert_eq!(found(&policy(PODS, &compiled)), [""; 0]);
}
