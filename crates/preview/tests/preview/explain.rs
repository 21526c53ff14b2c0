//! `pillion explain`: every reason, for people and for programs.

use std::fs;
use std::path::Path;

use pillion_samples::folders;
use pillion_samples::manifests::explained::{DEPLOYMENT, FILES, SETS};
use pillion_samples::repository::root;
use rstest::rstest;
use serde_json::Value;

use crate::support::{Run, pillion};

/// Returns a folder with SidecarSets of every outcome, and what they are injected into.
fn folder() -> tempfile::TempDir {
    folders::folder(&FILES)
}

fn explain_in(folder: &Path, args: &[&str], stdin: &str) -> Run {
    pillion(folder, &[&["explain"], args].concat(), stdin)
}

fn explain(args: &[&str]) -> Run {
    explain_in(folder().path(), args, "")
}

/// Returns the path of a file in `test_data`.
fn test_data(name: &str) -> String {
    root().join("test_data").join(name).into_os_string().into_string().unwrap()
}

/// `shared/cases/host-network`: what `-o json` has as warnings is told in text, too.
#[rstest]
#[case::host_network("hostNetwork: true", "the Pod has hostNetwork, so the ports of container")]
#[case::windows("os: {name: windows}", "the Pod is for Windows")]
#[case::ending("restartPolicy: Never", "may keep the Pod (restartPolicy Never) from completing")]
fn inj31_warnings_of_the_policy_are_told(#[case] field: &str, #[case] expected: &str) {
    let set = "\
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: web}}
  containers: [{name: agent, image: agent:1, ports: [{containerPort: 8080}]}]
";
    let folder = folder();
    fs::write(folder.path().join("ports.yaml"), set).unwrap();
    let pod = format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: p, labels: {{app: web}}}}, spec: {{{field}, containers: [{{name: web, \
         image: web:1}}]}}}}"
    );
    let args = ["-", "--sidecar-sets", "ports.yaml"];
    let text = explain_in(folder.path(), &args, &pod).out;
    assert!(
        text.contains("\n  warning: SidecarSet agent: ") && text.replace("\n    ", " ").contains(expected),
        "{text}"
    );
    let json = explain_in(folder.path(), &[&args[..], &["-o", "json"]].concat(), &pod).out;
    let explained: Value = serde_json::from_str(&json).unwrap();
    assert!(explained[0]["warnings"][0].as_str().unwrap().contains(expected), "{json}");
}

#[test]
fn one_set_is_told_with_what_to_do() {
    let answer = explain(&["web.yaml", "sets.yaml", "--sidecar-set", "api-only"]);
    assert_eq!(
        answer.out,
        "\
Deployment shop/web: 1 of 5 SidecarSets injected
  api-only  not injected:
              spec.selector.matchLabels[app]: Pod has \"web\", wanted \"api\"
                to do: label the Pod or its template app=api, or change the selector
              spec.selector.matchExpressions[0]: Pod has no label \"tier\" (it has app=web), wanted any value
                to do: label the Pod or its template with tier, or change the selector
"
    );
    let answer = explain(&["web.yaml", "sets.yaml", "--sidecar-set", "agnet"]);
    assert_eq!(answer.code, 2);
    assert_eq!(
        answer.err,
        "error: there is no SidecarSet \"agnet\"; there are agent, api-only, elsewhere, paused, team\n"
    );
}

#[test]
fn a_namespace_that_nobody_described_is_not_known() {
    let answer = explain(&["web.yaml", "sets.yaml", "--sidecar-set", "team"]);
    assert!(answer.out.contains("the Namespace is in no manifest, wanted one with team=a\n"), "{}", answer.out);
    assert!(answer.out.contains("to do: give the Namespace's manifest, or --namespace-labels\n"), "{}", answer.out);
    assert!(answer.err.contains("Namespace \"shop\" is in no manifest"), "{}", answer.err);
    let answer = explain(&["web.yaml", "sets.yaml", "--sidecar-set", "team", "--namespace-labels", "team=a"]);
    assert!(answer.out.contains("team  injected: Pods with app=web in namespaces with team=a\n"), "{}", answer.out);
}

#[rstest]
#[case::review("pod-create-review.json")]
#[case::bare_request("pod-create-request.json")]
fn a_request_of_an_api_server_is_explained(#[case] file: &str) {
    let settings = test_data("settings-log-agent.json");
    let answer = explain(&[&test_data(file), "--settings", &settings]);
    assert_eq!(answer.code, 0, "{}", answer.err);
    assert!(answer.out.contains("log-agent  injected: Pods with mode=strip\n"), "{}", answer.out);
}

#[test]
fn what_is_no_creation_is_told_so() {
    let answer = explain(&[&test_data("pod-delete-review.json"), "--settings", &test_data("settings-log-agent.json")]);
    let says = "operation: this is a delete of pod; SidecarSets are injected when a Pod is created, and never after\n";
    assert!(answer.out.contains(says), "{}", answer.out);
    assert!(answer.out.starts_with("Pod default/p-strip: nothing to inject\n"), "{}", answer.out);
    assert_eq!(answer.code, 0);
}

#[test]
fn a_pod_that_was_injected_before_has_it_already() {
    let folder = folder();
    let args = ["inject", "web.yaml", "--sidecar-sets", "sets.yaml", "--as-pods"];
    let pod = pillion(folder.path(), &args, "").out;
    let answer = explain_in(folder.path(), &["-", "sets.yaml", "--sidecar-set", "agent"], &pod);
    assert!(answer.out.contains("agent  injected already: Pods with app=web\n"), "{}{}", answer.out, answer.err);
    assert!(answer.out.contains("container agent-1: there already, at place 1 of 3 in containers"), "{}", answer.out);
}

#[test]
fn a_policy_that_is_not_asked_is_told_so() {
    let folder = folder();
    let sets = "{apiVersion: apps.kruise.io/v1beta1, kind: SidecarSet, metadata: {name: a}, \
                spec: {selector: {matchLabels: {app: web}}, containers: [{name: a, image: x:1}]}}";
    let policy = |mode: &str, mutating: bool| {
        format!(
            "apiVersion: policies.kubewarden.io/v1\nkind: ClusterAdmissionPolicy\nmetadata: {{name: p}}\nspec:\n  \
             mode: {mode}\n  mutating: {mutating}\n  rules: [{{apiGroups: [''], apiVersions: [v1], resources: [pods], \
             operations: [CREATE]}}]\n  settings: {{sidecarSets: [{sets}]}}\n"
        )
    };
    let explain = |mode, mutating| {
        fs::write(folder.path().join("policy.yaml"), policy(mode, mutating)).unwrap();
        explain_in(folder.path(), &["web.yaml", "--settings", "policy.yaml"], "")
    };
    let asked = explain("protect", true);
    assert!(asked.out.starts_with("Deployment shop/web: 1 of 1 SidecarSet injected\n"), "{}", asked.out);
    let monitor = explain("monitor", true);
    assert_eq!(
        monitor.out.lines().take(3).collect::<Vec<_>>(),
        [
            "Deployment shop/web: nothing happens, since the policy is not asked or not heeded; otherwise 1 of 1 SidecarSet injected",
            "  the policy's spec.mode: nothing is injected and nothing refused, only logged",
            "    to do: set mode to protect",
        ]
    );
    assert_eq!(monitor.code, 0);
    let unable = explain("protect", false);
    assert!(unable.out.contains("the policy's spec.mutating: the policy server refuses"), "{}", unable.out);
    assert_eq!(unable.code, 1);
}

#[test]
fn a_pod_without_sets_is_explained_all_the_same() {
    let answer = explain(&["web.yaml"]);
    assert_eq!(answer.out, "Deployment shop/web: no SidecarSets\n");
    assert!(answer.err.contains("no SidecarSets: give them"), "{}", answer.err);
    assert_eq!(answer.code, 0);
}

#[test]
fn a_workload_whose_pods_cannot_be_read_is_told_with_its_line() {
    let folder = folder();
    let broken = DEPLOYMENT.replace("containers: [{name: web, image: nginx:1.27}]", "container: []");
    fs::write(folder.path().join("broken.yaml"), broken).unwrap();
    let args = ["web.yaml", "broken.yaml", "--sidecar-sets", "sets.yaml", "--sidecar-set", "agent"];
    let answer = explain_in(folder.path(), &args, "");
    assert_eq!(answer.code, 1, "{}", answer.err);
    assert!(
        answer.out.ends_with(
            "\nDeployment shop/web: the API server refuses it before the policy is asked\n  broken.yaml:9: \
             spec.template.spec.container: Unknown field: did you mean \"containers\"?\n"
        ),
        "{}",
        answer.out
    );
    let answer = explain_in(folder.path(), &["broken.yaml", "-o", "json"], "");
    assert_eq!((answer.code, &answer.json()[0]["verdict"]), (1, &Value::from("Refused")));
    let message = answer.json()[0]["reasons"][0]["message"].clone();
    assert_eq!(message, "broken.yaml:9: spec.template.spec.container: Unknown field: did you mean \"containers\"?");
}

#[test]
fn the_name_of_a_namespace_cannot_be_relabelled() {
    let folder = folder();
    let set = SETS.split("---\n").last().unwrap().replace(
        "matchLabels: {team: a}",
        "matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [shop]}]",
    );
    fs::write(folder.path().join("one.yaml"), set).unwrap();
    let answer = explain_in(folder.path(), &["web.yaml", "one.yaml", "namespace.yaml", "--sidecar-set", "team"], "");
    assert!(
        answer.out.contains("to do: create the Pod in another Namespace, or change the selector\n"),
        "{}",
        answer.out
    );
}

/// Pods of three outcomes: injected, refused and not selected.
const THREE: &str = "\
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop, labels: {app: web}}, spec: {containers: [{name: a, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: shop, labels: {app: web}}, spec: {containers: [{name: web, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: c, namespace: shop}, spec: {containers: [{name: c, image: i}]}}
";

#[rstest]
#[case::all(&[], "3 Pods and workloads: 1 injected, 1 refused, 1 not selected\n\nPod shop/a: ", &["a", "b", "c"])]
#[case::refused(&["--only=refused"], "3 Pods and workloads: 1 injected, 1 refused, 1 not selected\n\nPod shop/b: ", &["b"])]
#[case::two(&["--only", "injected,not-selected"], "3 Pods and workloads: ", &["a", "c"])]
#[case::none(&["--only=not-asked"], "3 Pods and workloads: ", &[])]
fn many_pods_have_a_summary_and_can_be_filtered(#[case] args: &[&str], #[case] start: &str, #[case] pods: &[&str]) {
    let folder = folder();
    let explain = |more: &[&str]| {
        explain_in(folder.path(), &[&["-", "--sidecar-sets", "clash.yaml"], args, more].concat(), THREE)
    };
    let text = explain(&[]);
    assert_eq!(text.code, 1, "the exit code is that of all Pods: {}", text.err);
    assert!(text.out.starts_with(start), "{}", text.out);
    let expected: Vec<String> = pods.iter().map(|name| format!("Pod shop/{name}")).collect();
    let labels = text.out.lines().filter(|line| line.starts_with("Pod ")).map(|line| line.split(':').next().unwrap());
    assert_eq!(labels.collect::<Vec<_>>(), expected);
    let json = explain(&["-o", "json"]).json();
    let labels = json.as_array().unwrap().iter().map(|told| told["pod"].as_str().unwrap());
    assert_eq!(labels.collect::<Vec<_>>(), expected);
}
