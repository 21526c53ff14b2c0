//! `pillion plan`: what changes, in which order, and what is in the way.

use std::fs;

use pillion_samples::manifests::planned::MANIFESTS;
use pillion_sidecarset::sidecar_set::SidecarSet;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{Run, pillion};

const SETTINGS: &str = "featureGates: {SidecarSetServiceAccountInjection: true}\n";
const OF_CLUSTER: &str = "\
featureGates: {SidecarSetServiceAccountInjection: true}
bundleRef: {namespace: pillion-system, name: sidecarsets}
";

/// Runs the command in a folder with these settings, and with these manifests as input.
fn plan(settings: &str, manifests: &str, args: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("settings.yaml"), settings).unwrap();
    let args: Vec<&str> = ["plan", "-", "--settings", "settings.yaml"].iter().chain(args).copied().collect();
    pillion(folder.path(), &args, manifests)
}

#[test]
fn sidecar_sets_of_the_cluster_get_into_the_bundle() {
    let run = plan(OF_CLUSTER, MANIFESTS, &["--assume-service-accounts", "--controllers", "bundle", "-o", "json"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let plan = run.json();
    let change = &plan["changes"][0];
    assert_eq!(change["controller"], "bundle");
    assert_eq!(change["object"]["name"], "sidecarsets");
    assert!(change["after"]["data"]["bundle"].as_str().is_some_and(|text| text.starts_with("pillion")), "{plan:#}");
    // The condition of each SidecarSet tells that it is in the bundle.
    let written: Vec<_> = plan["changes"].as_array().unwrap().iter().map(|it| &it["object"]["kind"]).collect();
    assert_eq!(written, ["ConfigMap", "SidecarSet", "SidecarSet", "SidecarSet"], "{plan:#}");
}

/// Policies without SidecarSets of their own read those of the settings from the bundle.
#[rstest]
#[case::on_demand(&["--bundle-settings"], &["audit", "logs", "metrics", "own"])]
#[case::by_default(&[], &["audit", "logs", "metrics"])]
fn sidecar_sets_of_the_settings_get_into_the_bundle_on_demand(#[case] flags: &[&str], #[case] expected: &[&str]) {
    let settings = format!(
        "{OF_CLUSTER}sidecarSets:\n- apiVersion: apps.kruise.io/v1beta1\n  kind: SidecarSet\n  metadata: {{name: own}}\n  \
         spec: {{selector: {{matchLabels: {{app: other}}}}, containers: [{{name: own, image: own:1}}]}}\n"
    );
    let args = ["--assume-service-accounts", "--controllers", "bundle", "-o", "json"];
    let run = plan(&settings, MANIFESTS, &[&args, flags].concat());
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let plan = run.json();
    let text = plan["changes"][0]["after"]["data"]["bundle"].as_str().unwrap();
    let sets = pillion_bundle::Bundle::read(text.as_bytes()).unwrap().verify().unwrap();
    assert_eq!(sets.iter().map(SidecarSet::name).collect::<Vec<_>>(), expected);
}

/// The merged objects exist already. The Role lacks a rule and has another label.
#[test]
fn a_change_says_which_fields_it_changes_and_what_for() {
    let made = plan(SETTINGS, MANIFESTS, &["--controllers", "merged-serviceaccounts", "-o", "json"]).json();
    let mut there = MANIFESTS.to_owned();
    for change in made["changes"].as_array().unwrap() {
        let mut object = change["after"].clone();
        assert_eq!(change.get("fields"), None, "what is made has no fields that differ");
        if object["kind"] == "Role" {
            object["rules"].as_array_mut().unwrap().remove(0);
            object["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "me".into();
        }
        there = [there, format!("---\n{object}\n")].concat();
    }
    let run = plan(SETTINGS, &there, &["--controllers", "merged-serviceaccounts"]);
    insta::assert_snapshot!(run.out);
    assert_eq!(run.code, 0, "{}", run.err);
    let json = plan(SETTINGS, &there, &["--controllers", "merged-serviceaccounts", "-o", "json"]).json();
    let fields = json["changes"][0]["fields"].as_array().unwrap();
    assert!(fields.len() >= 2, "{json:#}");
    let difference = plan(SETTINGS, &there, &["--controllers", "merged-serviceaccounts", "--diff"]).out;
    for line in ["-    app.kubernetes.io/managed-by: me", "+    app.kubernetes.io/managed-by: pillion"] {
        assert!(difference.contains(line), "{difference}");
    }
}

#[test]
fn formats_say_the_same() {
    let of = |format| plan(SETTINGS, MANIFESTS, &["-o", format]);
    let timeless = |mut plan: Value| {
        for change in plan["changes"].as_array_mut().unwrap() {
            // The two plans may be made in different seconds.
            change["after"]["metadata"].as_object_mut().unwrap().remove("creationTimestamp");
        }
        plan
    };
    let yaml: Value = timeless(serde_saphyr::from_str(&of("yaml").out).unwrap());
    assert_eq!(yaml, timeless(of("json").json()));
    let verbs: Vec<&str> = yaml["changes"].as_array().unwrap().iter().map(|it| it["verb"].as_str().unwrap()).collect();
    assert_eq!(verbs, ["create", "create", "create"]);
    assert_eq!(yaml["problems"][0]["controller"], "sidecar-tokens");
}

const AGENT: &str = "\
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: log-agent, uid: u}
spec:
  selector: {matchLabels: {app: web}}
  containers: [{name: log-agent, image: fluent/fluent-bit:3.1}]
";

/// Returns running Pods with the sidecar of [`AGENT`].
fn running(count: usize) -> String {
    let pod = |number: usize| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web-{number}, namespace: shop, labels: {{app: web}}}}\n\
             spec: {{containers: [{{name: web, image: web:1}}]}}\n"
        )
    };
    let pods: Vec<String> = (0..count).map(pod).collect();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("set.yaml"), AGENT).unwrap();
    let run = pillion(folder.path(), &["inject", "-", "--sidecar-sets", "set.yaml", "-o", "json"], &pods.join("---\n"));
    let mut pods = run.json()["items"].clone();
    for (number, pod) in pods.as_array_mut().unwrap().iter_mut().enumerate() {
        pod["metadata"]["uid"] = format!("p{number}").into();
        let status =
            |(name, image): (&str, &str)| json!({"name": name, "image": image, "imageID": image, "ready": true});
        let containers = [("log-agent", "fluent/fluent-bit:3.1"), ("web", "web:1")].map(status);
        pod["status"] = json!({
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": containers,
        });
    }
    let pods: Vec<String> = pods.as_array().unwrap().iter().map(Value::to_string).collect();
    format!("---\n{}\n", pods.join("\n---\n"))
}

#[test]
fn a_rollout_is_told_in_words() {
    let manifests = AGENT.replace(":3.1", ":3.2") + &running(5);
    let rollout = ["--controllers", "sidecarset-rollout"];
    let run = plan(OF_CLUSTER, &manifests, &[&rollout[..], &["--waves", "2"]].concat());
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    insta::assert_snapshot!(run.out);
    let json = plan(OF_CLUSTER, &manifests, &[&rollout[..], &["-o", "json"]].concat()).json();
    let told = &json["rollouts"][0];
    assert_eq!([&told["now"], &told["pods"], &told["updated"]], [1, 5, 0], "{told}");
    let fields = json["changes"].to_string();
    assert!(fields.contains("kruise.io/sidecarset-hash"), "JSON is complete: {json:#}");
}

/// A rollout with nothing to do says how far it is.
#[rstest]
#[case::complete("", ":3.1", "SidecarSet log-agent: 2 of 2 Pods are updated, 2 of them are ready\n")]
#[case::paused("  updateStrategy: {paused: true}\n", ":3.2", "SidecarSet log-agent: updateStrategy.paused is true; ")]
fn a_rollout_that_rests_says_why(#[case] strategy: &str, #[case] version: &str, #[case] expected: &str) {
    let manifests = AGENT.replace(":3.1", version) + strategy + &running(2);
    let run = plan(OF_CLUSTER, &manifests, &["--controllers", "sidecarset-rollout"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert!(run.out.contains(expected) && !run.out.contains("Pod shop/"), "{}", run.out);
}

#[test]
fn a_sidecar_set_that_is_not_valid_names_its_place() {
    let run = plan(SETTINGS, &MANIFESTS.replace("image: audit:1", "image: 1"), &[]);
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    assert!(run.err.contains("<stdin>:28: "), "{}", run.err);
    assert!(run.err.contains("spec.containers[0].image"), "{}", run.err);
}

#[test]
fn manifests_that_no_api_server_would_take_name_their_place() {
    let run = plan(SETTINGS, &format!("{MANIFESTS}---\napiVersion: v1\nkind: Pod\nmetadata: {{name: half}}\n"), &[]);
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    assert_eq!(run.err, "error: <stdin>:42: Pod \"half\": missing field `spec`\n");
}
