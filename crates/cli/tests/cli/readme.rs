//! What README.md shows of an injection.

use std::fs;

use pillion_samples::repository::root;
use serde_json::{Value, json};

use crate::support::pillion;

/// The README shows the SidecarSet of the example that `make run` shows, and lines of the difference that it prints.
#[test]
fn the_readme_shows_the_example_of_make_run() {
    let text = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let readme = text("README.md");
    let block = |language: &str| {
        let (_, rest) = readme.split_once(&format!("```{language}\n")).unwrap();
        rest.split_once("```").unwrap().0
    };
    let without_comments = |yaml: &str| {
        let lines = yaml.lines().map(|line| line.split('#').next().unwrap().trim_end().to_owned());
        lines.filter(|line| !line.is_empty()).collect::<Vec<_>>()
    };
    let example = text("examples/identity-isolate/sidecarset.yaml");
    assert_eq!(without_comments(block("yaml")), without_comments(&example));
    let expected = text("examples/identity-isolate/expected.diff");
    let mut printed = expected.lines();
    for line in block("diff").lines() {
        assert!(printed.any(|one| one == line), "not printed, or not in this order: {line}");
    }
}

/// The README's SidecarSet gives the Pod of its command what the README shows: the app keeps its ServiceAccount and its
/// token, which the API server mounts, and the log agent mounts another one.
#[test]
fn the_readme_shows_what_its_sidecar_set_does() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let block = |language: &str| {
        let (_, rest) = readme.split_once(&format!("```{language}\n")).unwrap();
        rest.split_once("```").unwrap().0
    };
    // The Pod that `kubectl --namespace shop run web --image nginx --labels logs=collect` sends, with `--overrides`.
    assert!(block("sh").contains("kubectl --namespace shop run web --image nginx --labels logs=collect"));
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"logs": "collect"}},
        "spec": {"serviceAccountName": "web", "containers": [{"name": "web", "image": "nginx"}]},
    });
    assert!(block("sh").contains("--overrides '{\"spec\": {\"serviceAccountName\": \"web\"}}'"));
    let folder = tempfile::tempdir().unwrap();
    let settings = json!({"featureGates": {"SidecarSetServiceAccountInjection": true}});
    assert!(block("sh").contains("--set settings.featureGates.SidecarSetServiceAccountInjection=true"));
    let files = [("pod.json", pod.to_string()), ("settings.json", settings.to_string())];
    for (name, text) in files.into_iter().chain([("log-agent.yaml", block("yaml").to_owned())]) {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let arguments = ["inject", "pod.json", "--sidecar-sets", "log-agent.yaml", "--settings", "settings.json"];
    let run = pillion(folder.path(), &[&arguments[..], &["--assume-service-accounts", "-o", "json"]].concat(), "");
    assert_eq!(run.code, 0, "{}", run.err);
    let injected: Value = serde_json::from_str(&run.out).unwrap();
    let shown = injected["spec"]["containers"].as_array().unwrap().iter().map(|container| {
        let mounts = container["volumeMounts"].as_array().into_iter().flatten();
        let names: Vec<_> = mounts.map(|mount| mount["name"].as_str().unwrap()).collect();
        format!("{}: {}", container["name"].as_str().unwrap(), names.join(" "))
    });
    let by_api_server = "kube-api-access-…";
    let expected = block("text").replace(by_api_server, "");
    assert!(block("text").contains(&format!("web: {by_api_server}\n")));
    assert_eq!(shown.collect::<Vec<_>>(), expected.lines().collect::<Vec<_>>(), "{injected:#}");
    assert_eq!(injected["spec"]["serviceAccountName"], "web");
    assert_eq!(injected["spec"].get("automountServiceAccountToken"), None);
}
