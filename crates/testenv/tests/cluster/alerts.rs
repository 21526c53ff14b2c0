//! The rules for Prometheus and the dashboard for Grafana: promtool reads the rules and runs their unit tests, the chart
//! and the commands of docs/operations.md make objects of the files.

use std::path::{Path, PathBuf};
use std::process::Command;

use pillion_testenv::tool;
use rstest::rstest;
use serde_json::Value;

const RULES: &str = "charts/pillion/files/alerts.yaml";
const UNIT_TESTS: &str = "charts/pillion/tests/alerts_test.yaml";

const DASHBOARD: &str = "charts/pillion/files/dashboards/pillion.json";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Runs a tool in a folder. Returns whether it succeeded, and its output.
fn run(name: &'static str, folder: &Path, args: &[&str]) -> (bool, String) {
    let output = Command::new(tool(name).unwrap()).args(args).current_dir(folder).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.success(), text)
}

fn promtool(folder: &Path, args: &[&str]) -> (bool, String) {
    run("promtool", folder, args)
}

/// Renders a template of the chart with these values.
fn rendered(release: &str, template: &str, values: &[&str]) -> Value {
    let template = format!("templates/monitoring/{template}.yaml");
    let mut args =
        vec!["template", release, "charts/pillion", "--namespace", "pillion-system", "--show-only", &template];
    let all = ["monitoring.prometheusRule.enabled=true", "monitoring.dashboard.enabled=true"];
    args.extend(all.iter().chain(values).flat_map(|value| ["--set", *value]));
    let (is_rendered, text) = run("helm", &root(), &args);
    assert!(is_rendered, "{text}");
    yaml(&text)
}

#[test]
fn promtool_accepts_the_rules() {
    let (is_accepted, text) = promtool(&root(), &["check", "rules", RULES]);
    assert!(is_accepted, "{text}");
    assert!(text.contains("SUCCESS"), "{text}");
}

#[test]
fn every_alert_fires_when_it_must_and_only_then() {
    let (is_passed, text) = promtool(&root(), &["test", "rules", UNIT_TESTS]);
    assert!(is_passed, "{text}");
}

/// The unit tests notice a rule that never fires and a rule that always does.
#[test]
fn a_wrong_rule_fails_its_unit_test() {
    for (right, wrong) in [
        ("pillion_settings_current == 0", "pillion_settings_current == 2"),
        ("pillion_settings_current == 0", "pillion_settings_current >= 0"),
    ] {
        let rules = read(RULES);
        assert!(rules.contains(right));
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [(RULES, rules.replace(right, wrong)), (UNIT_TESTS, read(UNIT_TESTS))] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let (is_passed, text) =
            promtool(folder.path(), &["test", "rules", "--run=PillionSettingsRejected", UNIT_TESTS]);
        assert!(!is_passed && text.contains("PillionSettingsRejected"), "{text}");
    }
}

#[rstest]
#[case::as_it_is(&[], &["pillion-server", "pillion-certificates", "pillion-controller"])]
#[case::rollouts(
    &["controller.rollouts.enabled=true"],
    &["pillion-server", "pillion-certificates", "pillion-controller", "pillion-rollouts"]
)]
#[case::without_controllers(
    &["controller.enabled=false", "settings.bundleRef=null"],
    &["pillion-server", "pillion-certificates"]
)]
#[case::kubewarden(&["kubewarden.enabled=true"], &["pillion-controller", "pillion-kubewarden"])]
fn the_chart_has_the_alerts_of_what_it_runs(#[case] values: &[&str], #[case] groups: &[&str]) {
    let labels = ["monitoring.prometheusRule.labels.release=prometheus"];
    let rule = rendered("pillion", "prometheusrule", &[values, &labels].concat());
    assert_eq!((&rule["kind"], &rule["metadata"]["name"]), (&"PrometheusRule".into(), &"pillion".into()));
    assert_eq!(rule["metadata"]["labels"]["release"], "prometheus");
    let all = yaml(&read(RULES));
    let all = all["groups"].as_array().unwrap().iter();
    let wanted: Vec<&Value> = all.filter(|group| groups.contains(&group["name"].as_str().unwrap())).collect();
    assert_eq!(wanted.len(), groups.len());
    assert_eq!(rule["spec"]["groups"].as_array().unwrap().iter().collect::<Vec<_>>(), wanted);
}

#[test]
fn the_chart_has_the_dashboard() {
    let map = rendered("pillion", "dashboard", &[]);
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    assert_eq!(map["data"]["pillion.json"].as_str().unwrap().trim(), read(DASHBOARD).trim());
}

/// The policies have the name of the release.
#[test]
fn another_release_asks_for_its_own_policies() {
    for template in ["prometheusrule", "dashboard"] {
        let text = rendered("side", template, &["kubewarden.enabled=true"]).to_string();
        assert!(text.contains("clusterwide-side-.+") && !text.contains("clusterwide-pillion"), "{template}");
    }
    let map = rendered("side", "dashboard", &[]);
    let dashboard: Value = serde_json::from_str(map["data"]["pillion.json"].as_str().unwrap()).unwrap();
    assert_eq!(dashboard["uid"], "side");
}

/// Returns the line of docs/operations.md that begins like this.
fn command(begin: &str) -> String {
    let text = read("docs/operations.md");
    text.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("no line {begin}")).to_owned()
}

/// Runs a line of a document in the repository, with the tools in `PATH`, and returns the YAML that it prints.
fn shell(line: &str) -> Value {
    let tools = tool("kubectl").unwrap().parent().unwrap().to_owned();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    let output = command.args(["-euo", "pipefail", "-c", line]).env("PATH", path).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    yaml(&String::from_utf8(output.stdout).unwrap())
}

#[test]
fn without_helm_the_commands_of_the_document_make_the_same_objects() {
    let map = shell(&(command("kubectl create configmap pillion-dashboard") + " --dry-run=client -o yaml"));
    assert_eq!(map["metadata"]["name"], "pillion-dashboard");
    assert_eq!(map["data"]["pillion.json"].as_str().unwrap().trim(), read(DASHBOARD).trim());

    let line = command("{ printf");
    let (make, apply) = line.rsplit_once(" | ").unwrap();
    assert!(apply.starts_with("kubectl apply"), "{apply}");
    let rule = shell(make);
    assert_eq!((&rule["kind"], &rule["metadata"]["name"]), (&"PrometheusRule".into(), &"pillion".into()));
    assert_eq!(rule["spec"]["groups"], yaml(&read(RULES))["groups"]);
}
