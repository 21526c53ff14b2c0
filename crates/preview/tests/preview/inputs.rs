//! The input of `pillion inject` and `explain`: manifests that no API server accepts, lists, JSON mixed with YAML,
//! Kubewarden policies, Helm templates.

use std::fs;

use pillion_samples::manifests::{POD, SERVICE, SET, containers};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::injection::{run, run_in};
use crate::support::pillion;

/// Returns a Deployment whose Pods have this spec, from line 5 on.
fn deployment(spec: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  template:\n    metadata: {{labels: {{logs: collect}}}}\n    spec:\n      {spec}\n"
    )
}

#[rstest]
#[case::misspelt("container: [{name: a}]", "spec.template.spec.container: Unknown field: did you mean \"containers\"?")]
#[case::object("containers: {}", "spec.template.spec.containers: must be a list, found an object")]
#[case::empty("containers: []", "spec.template.spec.containers: Required value: a Pod has at least one container")]
#[case::null("containers: null", "spec.template.spec.containers: Required value: a Pod has at least one container")]
#[case::no_name("containers: [{image: a}]", "spec.template.spec.containers[0].name: Required value: give it a name")]
#[case::number(
    "containers: [{name: 7, image: a}]",
    "spec.template.spec.containers[0].name: must be a string, found a number; put it in quotes"
)]
fn a_workload_whose_pods_cannot_be_read_is_refused_with_its_line(#[case] spec: &str, #[case] problem: &str) {
    let text = format!("{POD}---\n{}", deployment(spec));
    let run = run(&[("app.yaml", &text), ("set.yaml", SET)], &["app.yaml", "--sidecar-sets=set.yaml"], "");
    assert_eq!(run.code, 1, "{}", run.err);
    assert_eq!(
        run.err,
        format!(
            "Pod shop/p: injected agent/agent\nerror: app.yaml:19: {problem} (Deployment default/web)\n1 injected, 0 \
             unchanged, 1 refused\n"
        )
    );
    assert!(run.out.contains("name: p\n") && !run.out.contains("Deployment"), "{}", run.out);
}

#[rstest]
#[case::namespace("metadata:\n  name: p\n  namespace: 5\n", "metadata.namespace", "found a number")]
#[case::label("metadata:\n  name: p\n  labels: {v: true}\n", "metadata.labels[v]", "found a boolean")]
#[case::annotation("metadata:\n  name: p\n  annotations: {v: 1}\n", "metadata.annotations[v]", "found a number")]
fn metadata_that_no_api_server_takes_is_refused_with_its_line(
    #[case] metadata: &str,
    #[case] path: &str,
    #[case] found: &str,
) {
    let kinds = [
        ("v1", "Pod", "spec: {containers: [{name: a, image: a}]}\n"),
        ("apps/v1", "Deployment", "spec: {template: {spec: {containers: [{name: a, image: a}]}}}\n"),
        ("v1", "Service", ""),
    ];
    for (api_version, kind, spec) in kinds {
        let text = format!("apiVersion: {api_version}\nkind: {kind}\n{metadata}{spec}");
        let run = run(&[("set.yaml", SET)], &["--sidecar-sets=set.yaml"], &text);
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{kind}: {}", run.err);
        let expected = format!("error: <stdin>:5: {path}: must be a string, {found}; put it in quotes");
        assert!(run.err.contains(&expected), "{kind}: {}", run.err);
    }
}

#[test]
fn fields_that_are_almost_others_are_doubted() {
    let text = deployment("containers: [{name: a, image: a}]\n      initContainer: []");
    let run = run(&[("set.yaml", SET)], &["--sidecar-sets=set.yaml", "-q"], &text);
    assert_eq!(run.code, 0);
    insta::assert_snapshot!(run.err, @r#"warning: <stdin>:9: spec.template.spec.initContainer: Unknown field: did you mean "initContainers"?"#);
}

#[rstest]
#[case::kind(
    "kind: SidecarSet",
    "kind: SidecarsSet",
    "set.yaml:2: kind: Unsupported value: \"SidecarsSet\": did you mean \"SidecarSet\"?"
)]
#[case::api_version(
    "/v1beta1",
    "/v1",
    "set.yaml:1: apiVersion: Unsupported value: \"apps.kruise.io/v1\": supported values: "
)]
#[case::no_api_version(
    "apiVersion: apps.kruise.io/v1beta1\n",
    "",
    "set.yaml:1: apiVersion: Required value: a SidecarSet has "
)]
fn what_was_meant_to_be_a_sidecar_set_is_an_error(#[case] old: &str, #[case] new: &str, #[case] says: &str) {
    let set = SET.replace(old, new);
    for args in [&["pod.yaml", "--sidecar-sets=set.yaml"][..], &["pod.yaml", "set.yaml"]] {
        let run = run(&[("pod.yaml", POD), ("set.yaml", &set)], args, "");
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{}", run.err);
        assert!(run.err.starts_with(&format!("error: {says}")), "{}", run.err);
    }
}

#[test]
fn misspelt_fields_of_a_sidecar_set_are_told_with_what_was_meant() {
    let set = SET.replace("podInjectPolicy", "podInjectPolcy");
    let run = run(&[("set.yaml", &set)], &["--sidecar-sets=set.yaml", "-q"], POD);
    assert_eq!(run.code, 0);
    insta::assert_snapshot!(run.err, @r#"warning: set.yaml:7: spec.containers[0].podInjectPolcy: unknown field; it is kept and injected, but rollouts do not see changes to it; did you mean "podInjectPolicy"? (SidecarSet "agent")"#);
}

const ALLOW_LIST: &str = "{\"apiVersion\": \"example.com/v1\", \"kind\": \"AllowList\", \"metadata\": {\"name\": \"a\"}, \"items\": [\"10.0.0.1\"]}";

#[test]
fn only_lists_of_kubernetes_stand_for_their_items() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"logs": "collect"}},
        "spec": {"containers": [{"name": "app", "image": "i"}]}});
    let allowed: Value = serde_json::from_str(ALLOW_LIST).unwrap();
    let inner = json!({"apiVersion": "v1", "kind": "List", "items": [pod, allowed]});
    let outer = json!({"apiVersion": "v1", "kind": "List", "items": [inner]});
    let json = run(&[("set.yaml", SET)], &["--sidecar-sets=set.yaml", "-o=json"], &outer.to_string());
    assert_eq!(json.code, 0, "{}", json.err);
    assert!(json.err.contains("1 injected"), "{}", json.err);
    assert_eq!(json.json()["items"].as_array().unwrap().len(), 2);
    assert_eq!(containers(&json.json()["items"][0], ""), ["app", "agent"]);
    assert_eq!(json.json()["items"][1], allowed);
    let alone = run(&[], &["-o=json"], ALLOW_LIST);
    assert_eq!(alone.json(), allowed);
}

#[test]
fn a_list_of_an_api_server_has_pods() {
    let list = json!({"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": [
        {"metadata": {"name": "p", "labels": {"logs": "collect"}}, "spec": {"containers": [{"name": "app", "image": "i"}]}}
    ]});
    let run = run(&[("set.yaml", SET)], &["--sidecar-sets=set.yaml", "-o=json"], &list.to_string());
    assert_eq!(run.json()["kind"], "Pod", "{}", run.err);
    assert_eq!(containers(&run.json(), ""), ["app", "agent"]);
}

#[test]
fn an_item_that_is_no_object_is_an_error() {
    let run = run(&[], &["-"], "apiVersion: v1\nkind: List\nitems:\n- 5\n");
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    assert!(
        run.err.contains("<stdin>:4: a manifest is an object with apiVersion and kind, this is a number"),
        "{}",
        run.err
    );
}

/// kubectl reads a stream as JSON if it starts with a brace, otherwise as YAML.
#[rstest]
#[case::json_first("a.json", "b.yaml")]
#[case::yaml_first("b.json", "a.yaml")]
fn yaml_and_json_come_out_as_yaml(#[case] json: &str, #[case] yaml: &str) {
    let files = [(json, ALLOW_LIST), (yaml, SERVICE), ("set.yaml", SET)];
    let run = run(&files, &[".", "-q"], "");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.lines().all(|line| !line.starts_with('{')), "{}", run.out);
    assert!(run.out.contains("# a comment\napiVersion: v1\nkind:   Service\n"), "{}", run.out);
    let expected = "apiVersion: example.com/v1\nkind: AllowList\nmetadata:\n  name: a\nitems:\n- \"10.0.0.1\"\n";
    assert!(run.out.contains(expected), "{}", run.out);
    assert_eq!(run.out.split("---\n").count(), 3, "{}", run.out);
}

#[test]
fn yaml_that_starts_with_a_brace_is_not_taken_for_json() {
    let run = run(&[], &["-q"], "{apiVersion: v1, kind: Service} # a\n---\n{apiVersion: v1, kind: Service}\n");
    assert_eq!(run.out, "---\n{apiVersion: v1, kind: Service} # a\n---\n{apiVersion: v1, kind: Service}\n");
}

/// Returns a policy with the SidecarSet and these lines of its spec.
fn policy(spec: &str) -> String {
    let rules = "  rules: [{apiGroups: [''], apiVersions: [v1], resources: [pods], operations: [CREATE]}]\n";
    format!(
        "apiVersion: policies.kubewarden.io/v1\nkind: ClusterAdmissionPolicy\nmetadata: {{name: p}}\nspec:\n  module: x\n{rules}{spec}  settings:\n    sidecarSets:\n    - {}",
        SET.replace('\n', "\n      ")
    )
}

const EXCEPT_SHOP: &str =
    "  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [shop]}]}\n";

#[rstest]
#[case::asked("  mutating: true\n", None)]
#[case::namespace(&format!("  mutating: true\n{EXCEPT_SHOP}"), Some("spec.namespaceSelector.matchExpressions[0]: Namespace \"shop\" has kubernetes.io/metadata.name=\"shop\", wanted not \"shop\""))]
#[case::object(
    "  mutating: true\n  objectSelector: {matchLabels: {a: b}}\n",
    Some("spec.objectSelector.matchLabels[a]: Pod has no label \"a\"")
)]
#[case::monitor(
    "  mutating: true\n  mode: monitor\n",
    Some("spec.mode: nothing is injected and nothing refused, only logged")
)]
fn a_policy_that_is_not_asked_injects_nothing_and_says_why(#[case] spec: &str, #[case] why: Option<&str>) {
    let args = ["pod.yaml", "--settings=policy.yaml"];
    let files = [("pod.yaml", POD), ("policy.yaml", &policy(spec))];
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let injected = run_in(folder.path(), &args, "");
    let explained = pillion(folder.path(), &[&["explain"][..], &args].concat(), "");
    assert_eq!((injected.code, explained.code), (0, 0), "{}{}", injected.err, explained.err);
    match why {
        None => {
            assert!(injected.err.contains("Pod shop/p: injected agent/agent\n"), "{}", injected.err);
            assert!(explained.out.starts_with("Pod shop/p: 1 of 1 SidecarSet injected\n"), "{}", explained.out);
        }
        Some(why) => {
            let warning = "warning: Pod shop/p: nothing happens, since the policy is not asked or not heeded: ";
            assert!(injected.err.contains(&format!("{warning}{why}")), "{}", injected.err);
            assert!(injected.err.ends_with("0 injected, 1 unchanged, 0 refused\n"), "{}", injected.err);
            assert_eq!(injected.out, POD);
            assert!(explained.out.contains(&format!("the policy's {why}")), "{}", explained.out);
        }
    }
}

#[test]
fn a_policy_that_may_not_change_pods_refuses_them() {
    let run = run(&[("policy.yaml", &policy("  mutating: false\n"))], &["--settings=policy.yaml"], POD);
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert!(
        run.err.contains("<stdin>:1: Pod shop/p: the policy server refuses it: spec.mutating: the policy server refuses Pods that the policy changes; set mutating to true"),
        "{}",
        run.err
    );
}

#[test]
fn conditions_that_are_not_looked_at_are_told() {
    let spec = "  mutating: true\n  matchConditions: [{name: a, expression: 'false'}]\n";
    let run = run(&[("policy.yaml", &policy(spec))], &["--settings=policy.yaml"], POD);
    assert!(run.err.contains("warning: the policy's spec.matchConditions are not looked at"), "{}", run.err);
}

#[test]
fn a_helm_template_is_called_one() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Release.Name }}\n";
    let run = run(&[("pod.yaml", text)], &["pod.yaml"], "");
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    assert!(
        run.err.starts_with(
            "error: pod.yaml: line 4 column 10: this is a Helm template, no manifest: line 4 has {{ ... }}\n"
        ),
        "{}",
        run.err
    );
}

#[test]
fn sidecar_sets_of_settings_have_lines_too() {
    let wrong = SET.replace("image: 'agent:1'", "image: 5").replace("podInjectPolicy", "podInjectPolcy");
    let settings = |set: &str| format!("sidecarSets:\n- {}", set.replace('\n', "\n  "));
    let files = [
        ("settings.yaml", settings(&wrong)),
        ("policy.yaml", policy("  mutating: true\n").replace(":1'", ":1', x: 1")),
    ];
    let [(settings, _), (policy, _)] = files.each_ref();
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let first = run(&files, &["-", "--settings", settings], POD);
    assert_eq!(first.code, 2);
    assert!(
        first.err.contains("error: settings.yaml:8: settings: sidecarSets[0].spec.containers[0].image: Invalid value"),
        "{}",
        first.err
    );
    let second = run(&files, &["-q", "-", "--settings", policy], POD);
    assert_eq!(second.code, 0);
    assert!(
        second
            .err
            .starts_with("warning: policy.yaml:16: spec.settings.sidecarSets[0].spec.containers[0].x: unknown field"),
        "{}",
        second.err
    );
}
