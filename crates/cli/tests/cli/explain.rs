//! `pillion explain`, as users run it.

use std::fs;
use std::path::Path;

use rstest::rstest;
use serde_json::Value;

use crate::support::{Run, pillion};

/// SidecarSets with every outcome in Namespace `shop`, for Pods with `app: web`.
const SETS: &str = "\
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: web}}
  updateStrategy: {type: NotUpdate}
  initContainers:
    - {name: net, image: net:1, restartPolicy: Always}
  containers:
    - name: agent
      image: agent:1
      upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: empty:1}
      volumeMounts: [{name: spool, mountPath: /spool}]
  volumes: [{name: spool, emptyDir: {}}, {name: spare, emptyDir: {}}]
  patchPodMetadata:
    - {patchPolicy: Retain, annotations: {owner: agents}}
---
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: api-only}
spec:
  selector: {matchLabels: {app: api}, matchExpressions: [{key: tier, operator: Exists}]}
  containers: [{name: api-only, image: x:1}]
---
apiVersion: apps.kruise.io/v1alpha1
kind: SidecarSet
metadata: {name: elsewhere}
spec:
  namespace: prod
  selector: {matchLabels: {app: web}}
  containers: [{name: elsewhere, image: x:1}]
---
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: paused}
spec:
  selector: {matchLabels: {app: web}}
  injectionStrategy: {paused: true}
  containers: [{name: paused, image: x:1}]
---
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: team}
spec:
  selector: {matchLabels: {app: web}}
  namespaceSelector: {matchLabels: {team: a}}
  containers: [{name: team, image: x:1}]
";

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {owner: shop}}
    spec:
      containers: [{name: web, image: nginx:1.27}]
";

const NAMESPACE: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: b}}}\n";

const CLASH: &str = "\
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: clash}
spec:
  selector: {matchLabels: {app: web}}
  containers: [{name: web, image: x:1}]
";

/// Returns a folder with the files above.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let files = [("sets.yaml", SETS), ("web.yaml", DEPLOYMENT), ("namespace.yaml", NAMESPACE), ("clash.yaml", CLASH)];
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn explain_in(folder: &Path, args: &[&str], stdin: &str) -> Run {
    pillion(folder, &[&["explain"], args].concat(), stdin)
}

fn explain(args: &[&str]) -> Run {
    explain_in(folder().path(), args, "")
}

/// Returns the path of a file in `test_data`.
fn test_data(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    root.join("test_data").join(name).into_os_string().into_string().unwrap()
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
fn every_set_has_its_reasons() {
    let answer = explain(&["web.yaml", "--sidecar-sets", "sets.yaml", "namespace.yaml"]);
    assert_eq!(
        answer.out,
        "\
Deployment shop/web: 1 of 5 SidecarSets injected
  agent      injected: Pods with app=web
               native sidecar net: added, at place 1 of 1 in initContainers
               container agent-1: added, at place 1 of 3 in containers, one of the hot-upgrade pair of agent
               container agent-2: added, at place 2 of 3 in containers, one of the hot-upgrade pair of agent
               volume spool: added
               volume spare: left out, nothing of the SidecarSet uses it
               annotation owner: left out, the Pod has its own
  api-only   not injected:
               spec.selector.matchLabels[app]: Pod has \"web\", wanted \"api\"
               spec.selector.matchExpressions[0]: Pod has no label \"tier\" (it has app=web), wanted any value
  elsewhere  not injected: spec.namespace: the namespace is \"shop\", wanted \"prod\"
  paused     not injected: spec.injectionStrategy.paused: injection is paused
  team       not injected: spec.namespaceSelector.matchLabels[team]: Namespace \"shop\" has \"b\", wanted \"a\"
"
    );
    assert_eq!((answer.code, answer.err.as_str()), (0, ""));
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
fn a_refusal_names_the_rule_and_what_to_do_and_exits_with_1() {
    let answer = explain(&["web.yaml", "clash.yaml", "sets.yaml", "--sidecar-set", "agent", "--sidecar-set", "clash"]);
    assert_eq!(
        answer.out,
        "\
Deployment shop/web: the policy refuses it (403)
  agent  would be injected (Pods with app=web), but the Pod is refused
  clash  refuses the Pod: spec.containers[0].name: sidecar \"web\" has the name of a container of the Pod
           to do: rename the Pod's \"web\" or the sidecar
"
    );
    assert_eq!(answer.code, 1);
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

#[test]
fn machines_read_the_same_as_json_and_yaml() {
    let inputs = ["-", "--sidecar-sets", "sets.yaml", "namespace.yaml"];
    let folder = folder();
    let json = explain_in(folder.path(), &[&inputs[..], &["-o", "json"]].concat(), DEPLOYMENT);
    let told: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(told[0]["pod"], "Deployment shop/web");
    assert_eq!(told[0]["source"], "<stdin>:1");
    assert_eq!(told[0]["verdict"], "Mutated");
    let sets = told[0]["sidecarSets"].as_array().unwrap();
    let injected: Vec<bool> = sets.iter().map(|set| set["injected"].as_bool().unwrap()).collect();
    assert_eq!(injected, [true, false, false, false, false]);
    assert_eq!(sets[0]["containers"][1]["hotUpgradeOf"], "agent");
    assert_eq!(
        sets[1]["reasons"][0],
        serde_json::json!({
            "reason": "PodLabel", "rule": "MATCH-6", "path": "spec.selector.matchLabels[app]",
            "wanted": "app=api", "found": "web", "message": "Pod has \"web\", wanted \"api\"",
            "remedy": "label the Pod or its template app=api, or change the selector"
        })
    );
    let yaml = explain_in(folder.path(), &[&inputs[..], &["-o", "yaml"]].concat(), DEPLOYMENT);
    assert!(yaml.out.starts_with("- pod: Deployment shop/web\n  source: \"<stdin>:1\"\n"), "{}", yaml.out);
    let wrapped = format!("items:\n{}", yaml.out);
    let source = pillion_documents::manifest::Source::new("yaml", wrapped);
    let read = pillion_documents::manifest::parse(&std::sync::Arc::new(source)).unwrap();
    assert_eq!(read[0].value["items"], told);
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

#[rstest]
#[case::no_pod(&["sets.yaml"], "nothing to explain: no Pod, no workload and no AdmissionReview")]
#[case::a_request_about_something_else(&["review.json"], "nothing to explain")]
#[case::no_file(&["gone.yaml"], "gone.yaml: No such file or directory")]
#[case::no_yaml(&["broken.yaml"], "broken.yaml")]
#[case::no_settings(&["web.yaml", "--settings", "unknown.yaml"], "settings: nonsense: Unknown field")]
fn errors_exit_with_2_and_print_nothing(#[case] args: &[&str], #[case] says: &str) {
    let folder = folder();
    fs::write(folder.path().join("broken.yaml"), "a: [\n").unwrap();
    fs::copy(test_data("sidecarset-create-review.json"), folder.path().join("review.json")).unwrap();
    fs::write(folder.path().join("unknown.yaml"), "nonsense: 1\n").unwrap();
    let answer = explain_in(folder.path(), args, "");
    assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{}", answer.err);
    assert!(answer.err.contains(says), "{}", answer.err);
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

#[test]
fn invalid_sidecar_sets_are_the_same_errors_as_for_inject() {
    let folder = folder();
    fs::write(folder.path().join("bad.yaml"), CLASH.replace("image: x:1", "imagePullPolicy: Sometimes")).unwrap();
    let errors = ["explain", "inject"].map(|command| {
        let run = pillion(folder.path(), &[command, "web.yaml", "--sidecar-sets", "bad.yaml"], "");
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{command}: {}", run.err);
        run.err
    });
    assert!(errors[0].contains("error: bad.yaml:") && errors[0].contains("imagePullPolicy"), "{}", errors[0]);
    assert_eq!(errors[0], errors[1]);
}

#[rstest]
#[case::coloured(&["--color", "always"], true)]
#[case::in_a_pipe(&[], false)]
fn outcomes_have_colours_on_a_terminal_only(#[case] args: &[&str], #[case] coloured: bool) {
    let answer = explain(&[&["web.yaml", "--sidecar-sets", "sets.yaml"], args].concat());
    assert_eq!(answer.out.contains("\u{1b}[32minjected\u{1b}[0m: Pods with app=web"), coloured, "{}", answer.out);
}
