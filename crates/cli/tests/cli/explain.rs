//! `pillion explain`, as users run it. Its reasons are tested in crates/preview.

use std::fs;
use std::path::Path;

use pillion_samples::folders;
use pillion_samples::manifests::explained::{CLASH, DEPLOYMENT, FILES};
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
