//! `pillion bundle`, as users run it.

use std::fs;

use pillion_samples::manifests::SET;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::pillion;

const SETS: &str = "\
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: mesh}
spec:
  selector: {matchLabels: {mesh: 'on'}}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}
  containers: [{name: proxy, image: registry.example.com/proxy:1}]
---
apiVersion: apps.kruise.io/v1alpha1
kind: SidecarSet
metadata: {name: logs}
spec:
  selector: {matchLabels: {app: web}}
  containers: [{name: agent, image: registry.example.com/agent:1}]
";
const POD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: shop, labels: {app: web}}
spec: {containers: [{name: app, image: registry.example.com/app:1}]}
";

/// Returns a folder with the SidecarSets and a Pod.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("sets.yaml"), SETS).unwrap();
    fs::write(folder.path().join("pod.yaml"), POD).unwrap();
    folder
}

#[test]
fn sidecar_sets_become_one_line() {
    let folder = folder();
    let run = pillion(folder.path(), &["bundle", "sets.yaml"], "");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.starts_with("pillion-bundle-3:") && run.out.ends_with('\n') && run.out.lines().count() == 1);
    assert!(run.err.starts_with("2 SidecarSets, "), "{}", run.err);
    let piped = pillion(folder.path(), &["bundle", "-"], SETS);
    assert_eq!(piped.out, run.out);
}

/// The API server clears the field before admission.
#[test]
fn a_namespace_in_the_metadata_is_left_out_with_a_warning() {
    let folder = folder();
    let plain = pillion(folder.path(), &["bundle", "sets.yaml"], "").out;
    let run = pillion(folder.path(), &["bundle", "-"], &SETS.replace("{name: logs}", "{name: logs, namespace: shop}"));
    assert_eq!((run.code, run.out), (0, plain), "{}", run.err);
    assert!(run.err.contains("<stdin>:11: metadata.namespace: a SidecarSet is in no namespace"), "{}", run.err);
}

#[test]
fn what_is_inside_is_shown() {
    let folder = folder();
    let bundle = pillion(folder.path(), &["bundle", "sets.yaml"], "").out;
    let run = pillion(folder.path(), &["bundle", "--inspect", "-"], &bundle);
    let (head, table) = run.out.split_once('\n').unwrap();
    assert!(
        head.starts_with("<stdin>: format 3, 2 SidecarSets, ") && head.ends_with(" bytes, checksum right"),
        "{head}"
    );
    let words: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().take(4).collect()).collect();
    assert_eq!(
        words,
        [
            vec!["NAME", "SELECTOR", "NAMESPACES", "SIDECARS"],
            vec!["logs", "app=web", "*", "1"],
            vec!["mesh", "mesh=on", "kubernetes.io/metadata.name=shop", "1"],
        ]
    );
    let list = pillion(folder.path(), &["bundle", "--inspect", "-", "-o", "json"], &bundle).out;
    let list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list["items"][0]["apiVersion"], "apps.kruise.io/v1beta1", "as it is stored");
    // The output can be bundled again.
    let again = pillion(folder.path(), &["bundle", "-"], &list.to_string());
    assert_eq!(again.out, bundle, "{}", again.err);
    let yaml = pillion(folder.path(), &["bundle", "--inspect", "-", "-o", "yaml"], &bundle).out;
    assert_eq!(pillion(folder.path(), &["bundle", "-"], &yaml).out, bundle);
}

#[rstest]
#[case::yaml("yaml", "settings.yaml")]
#[case::json("json", "settings.json")]
fn settings_keep_everything_else_and_work_as_before(#[case] format: &str, #[case] file: &str) {
    let folder = folder();
    let manifests: Vec<Value> = SETS.split("---\n").map(|set| serde_saphyr::from_str(set).unwrap()).collect();
    let settings = json!({"systemNamespace": "elsewhere", "sidecarSets": manifests});
    fs::write(folder.path().join("before.json"), settings.to_string()).unwrap();
    let run = pillion(folder.path(), &["bundle", "--settings", "before.json", "-o", format, "--output-file", file], "");
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);
    let after: Value = serde_saphyr::from_str(&fs::read_to_string(folder.path().join(file)).unwrap()).unwrap();
    assert_eq!(after["systemNamespace"], "elsewhere");
    assert!(after["sidecarSets"].is_null() && after["bundle"].is_string());

    let injected = |settings: &str| {
        pillion(folder.path(), &["inject", "pod.yaml", "--settings", settings, "--now", "2026-01-02T03:04:05Z"], "")
    };
    assert!(injected(file).out.contains("registry.example.com/agent:1"));
    assert_eq!(injected(file).out, injected("before.json").out);
    let explained = |settings: &str| pillion(folder.path(), &["explain", "pod.yaml", "--settings", settings], "");
    assert_eq!(
        (explained(file).code, explained(file).out),
        (0, explained("before.json").out),
        "{}",
        explained(file).err
    );
    let checked = pillion(folder.path(), &["check", file], "");
    assert_eq!(checked.code, 0, "{}{}", checked.out, checked.err);
    let inspected = pillion(folder.path(), &["bundle", "--inspect", file], "");
    assert!(inspected.out.contains("2 SidecarSets"), "{}{}", inspected.out, inspected.err);
}

#[rstest]
#[case::invalid(
    "apiVersion: apps.kruise.io/v1beta1\nkind: SidecarSet\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n",
    1,
    "<stdin>:4: spec."
)]
#[case::nothing("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n", 2, "no SidecarSets")]
#[case::broken("a: [", 2, "<stdin>")]
fn what_cannot_be_compiled_is_said(#[case] manifest: &str, #[case] code: i32, #[case] says: &str) {
    let run = pillion(folder().path(), &["bundle", "-"], manifest);
    assert_eq!((run.code, run.out.as_str()), (code, ""), "{}", run.err);
    assert!(run.err.contains(says), "{}", run.err);
}

#[rstest]
#[case::newer("pillion-bundle-4:a:b", 1, "has the format 4")]
#[case::early("pillion-bundle-3:a:b", 1, "is damaged (it ends early)")]
#[case::something_else("sidecarSets: []", 2, "neither a bundle nor settings with one")]
fn what_is_no_bundle_is_said(#[case] text: &str, #[case] code: i32, #[case] says: &str) {
    let run = pillion(folder().path(), &["bundle", "--inspect", "-"], text);
    assert_eq!(run.code, code, "{}", run.err);
    assert!(run.err.contains(says), "{}", run.err);
}

#[test]
fn damage_is_found() {
    let folder = folder();
    let bundle = pillion(folder.path(), &["bundle", "sets.yaml"], "").out;
    let swapped = bundle.replacen("AAAA", "AAAB", 1);
    assert_ne!(swapped, bundle);
    let run = pillion(folder.path(), &["bundle", "--inspect", "-"], &swapped);
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert!(run.err.contains("is damaged"), "{}", run.err);
}

/// Returns a typical SidecarSet with some unique texts.
fn agent(index: usize) -> Value {
    let name = format!("agent-{index}");
    let variables: Vec<Value> = (0..8)
        .map(|variable| json!({"name": format!("VARIABLE_{variable}"), "value": format!("{:x}", (index * 31 + variable + 1) * 2_654_435_761)}))
        .collect();
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": format!("service-{index}")}},
            "containers": [{
                "name": name, "image": format!("registry.example.com/team-{}/{name}:1.{index}", index % 7), "env": variables,
                "volumeMounts": [{"name": "config", "mountPath": format!("/etc/{name}")}],
                "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8000 + index}},
            }],
            "volumes": [{"name": "config", "configMap": {"name": name}}],
        },
    })
}

/// The lengths that `--help` states are right.
#[rstest]
#[case::a_single_one_is_longer(1, 100, 400)]
#[case::a_hundred_are_about_half(100, 40, 70)]
fn lengths_are_as_the_help_says(#[case] count: usize, #[case] least: usize, #[case] most: usize) {
    let folder = tempfile::tempdir().unwrap();
    let sets: Vec<Value> = (0..count).map(agent).collect();
    let length: usize = sets.iter().map(|set| set.to_string().len()).sum();
    fs::write(folder.path().join("settings.json"), json!({"sidecarSets": sets}).to_string()).unwrap();
    let run = pillion(folder.path(), &["bundle", "--settings", "settings.json"], "");
    assert_eq!(run.code, 0, "{}", run.err);
    let percent = run.out.trim_end().len() * 100 / length;
    assert!((least..most).contains(&percent), "{percent}");
}

#[test]
fn a_missing_file_is_an_error() {
    let run = pillion(folder().path(), &["bundle", "gone.yaml"], "");
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    assert!(run.err.contains("gone.yaml"), "{}", run.err);
}

/// Returns settings that name the ConfigMap of [`folder`]'s SidecarSets, and creates the ConfigMap with these
/// arguments.
fn kept(folder: &tempfile::TempDir, args: &[&str]) -> Value {
    let settings = "bundleRef: {namespace: pillion-system, name: sets}\n";
    fs::write(folder.path().join("settings.yaml"), settings).unwrap();
    let args = [&["bundle", "--config-map", "pillion-system/sets", "sets.yaml"], args].concat();
    let run = pillion(folder.path(), &args, "");
    assert_eq!((run.code, run.err.as_str()), (0, "2 SidecarSets\n"));
    fs::write(folder.path().join("kept.yaml"), &run.out).unwrap();
    serde_saphyr::from_str(&run.out).unwrap()
}

#[test]
fn a_config_map_is_made_that_pods_get_sidecars_from() {
    let folder = folder();
    let object = kept(&folder, &["--time", "2026-01-02T03:04:05Z"]);
    assert_eq!(object["metadata"]["annotations"]["pillion.dev/bundle-time"], "2026-01-02T03:04:05Z");
    assert_eq!(
        (&object["metadata"]["namespace"], &object["metadata"]["name"]),
        (&json!("pillion-system"), &json!("sets"))
    );
    let inject = ["inject", "pod.yaml", "--settings", "settings.yaml", "--sidecar-sets", "kept.yaml"];
    let old = pillion(folder.path(), &inject, "");
    assert_eq!(old.code, 1, "{}", old.err);
    assert!(old.err.contains("ConfigMap \"pillion-system/sets\" is older than bundleMaxAge"), "{}", old.err);
    kept(&folder, &[]);
    let run = pillion(folder.path(), &inject, "");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("registry.example.com/agent:1"), "{}", run.out);
    let explained = pillion(
        folder.path(),
        &["explain", "pod.yaml", "--settings", "settings.yaml", "--sidecar-sets", "kept.yaml"],
        "",
    );
    assert_eq!(explained.code, 0, "{}", explained.err);
    assert!(explained.out.contains("logs") && explained.out.contains("mesh"), "{}", explained.out);
}

#[test]
fn check_says_what_is_wrong_with_the_config_map() {
    let folder = folder();
    kept(&folder, &[]);
    let check = |folder: &tempfile::TempDir| pillion(folder.path(), &["check", "settings.yaml", "kept.yaml"], "");
    let fine = check(&folder);
    assert!(fine.code == 0 && fine.out.is_empty(), "{}{}", fine.out, fine.err);
    kept(&folder, &["--time", "2026-01-02T03:04:05Z"]);
    let old = check(&folder);
    assert!(
        old.out.contains("ConfigMap \"pillion-system/sets\", which bundleRef names, is older than bundleMaxAge"),
        "{}",
        old.out
    );
    kept(&folder, &[]);
    let path = folder.path().join("kept.yaml");
    fs::write(&path, fs::read_to_string(&path).unwrap().replace("pillion-bundle-3:", "pillion-bundle-3:0")).unwrap();
    let damaged = check(&folder);
    assert!(damaged.out.contains("is damaged"), "{}", damaged.out);
}

#[rstest]
#[case::no_namespace(&["--config-map", "sets"], "write NAMESPACE/NAME")]
#[case::no_name(&["--config-map", "a/"], "RFC 1123 subdomain")]
#[case::no_time(&["--config-map", "a/b", "--time", "now"], "write it as in 2026-01-02T03:04:05Z")]
fn config_maps_have_names_and_times(#[case] args: &[&str], #[case] wrong: &str) {
    let run = pillion(folder().path(), &[&["bundle", "sets.yaml"], args].concat(), "");
    assert_eq!(run.code, 2);
    assert!(run.err.contains(wrong), "{}", run.err);
}

/// `injectionStrategy.revision`: the stored version goes into the bundle. If it is missing, an error says so.
#[test]
fn rev9_a_stored_version_among_the_manifests_goes_into_the_bundle() {
    let set = "\
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: logs}
spec:
  selector: {matchLabels: {app: web}}
  injectionStrategy: {revision: {customVersion: v1}}
  containers: [{name: agent, image: registry.example.com/agent:2}]
";
    let revision = "\
---
apiVersion: apps/v1
kind: ControllerRevision
metadata: {name: logs-1, labels: {kruise.io/sidecarset-name: logs, apps.kruise.io/sidecarset-custom-version: v1}}
revision: 1
data: {spec: {containers: [{name: agent, image: registry.example.com/agent:1}]}}
";
    let folder = folder();
    let without = pillion(folder.path(), &["bundle", "-"], set);
    assert!(without.err.contains("no ControllerRevision with customVersion \"v1\" was given"), "{}", without.err);
    let with = pillion(folder.path(), &["bundle", "-"], &format!("{set}{revision}"));
    assert_eq!((with.code, with.err.contains("no ControllerRevision")), (0, false), "{}", with.err);
    fs::write(folder.path().join("settings.json"), json!({"bundle": with.out.trim()}).to_string()).unwrap();
    let injected = pillion(folder.path(), &["inject", "--settings", "settings.json", "pod.yaml"], "");
    assert!(injected.out.contains("registry.example.com/agent:1"), "{}{}", injected.out, injected.err);
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
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("set.yaml"), &set).unwrap();
    let bundled = pillion(folder.path(), &["bundle", "set.yaml"], "");
    assert_eq!((bundled.code, bundled.out.as_str()), (2, ""), "{}", bundled.err);
    assert!(bundled.err.starts_with(&format!("error: {says}")), "{}", bundled.err);
}
