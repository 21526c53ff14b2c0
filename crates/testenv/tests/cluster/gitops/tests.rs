//! What deploy/argocd and deploy/flux say: how healthy SidecarSets are, and which differences are none.
#![allow(clippy::string_slice, reason = "a panic is how a test fails")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use kube::api::{ListParams, Patch, PatchParams};
use pillion_cluster::rollouts::standing::{RolloutState, Standing};
use pillion_documents::manifest::{Source, parse};
use pillion_install::rendering::crd;
use pillion_rollout::counts::Counts;
use pillion_sidecarset::upgrades::RolloutSettings;
use pillion_testenv::{Cluster, Options, apply, tool, until};
use pillion_testkit::module::workspace;
use serde_json::{Value, json};

use super::{Case, GENERATION, by_counters, cases};
use crate::support::{Installation, SELF_SIGNED, SOON, create, dynamic, log_agent};

fn file(name: &str) -> String {
    fs::read_to_string(workspace().join("deploy").join(name)).unwrap()
}

fn objects(name: &str) -> Vec<Value> {
    let source = std::sync::Arc::new(Source::new(name, file(name)));
    parse(&source).unwrap().into_iter().map(|manifest| manifest.value).collect()
}

/// Returns a value as an expression of Lua.
fn lua(value: &Value) -> String {
    let text = |text: &str| format!("{text:?}").replace("\\u{", "\\u").replace('\'', "\\'");
    match value {
        Value::Null => "nil".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(string) => text(string),
        Value::Array(items) => format!("{{{}}}", items.iter().map(lua).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(key, value)| format!("[{}]={}", text(key), lua(value))).collect();
            format!("{{{}}}", fields.join(","))
        }
    }
}

/// Runs Argo CD's health check on each object, with the libraries that Argo CD gives to it. Returns status and message.
fn healths(objects: &[Value]) -> Vec<(String, String)> {
    let folder = std::env::temp_dir().join(format!("pillion-health-{}-{}", std::process::id(), objects.len()));
    let without = "local texts = getmetatable('')\nif texts then texts.__index = nil end\n\
                   string, math, io, os, debug, coroutine, channel, package, require = nil\n";
    let script = format!(
        "{without}local function check()\n{}\nend\nfor _, each in ipairs({}) do\nobj = each\nlocal found = check()\n\
         print(found.status)\nprint(found.message)\nend\n",
        file("argocd/health.lua"),
        lua(&objects.to_vec().into())
    );
    fs::write(&folder, script).unwrap();
    let output = Command::new(tool("glua").unwrap()).arg(&folder).output().unwrap();
    fs::remove_file(&folder).unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{err}{out}");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), objects.len() * 2, "{out}");
    lines.chunks(2).map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect()
}

#[test]
fn argo_cd_knows_how_healthy_a_sidecar_set_is() {
    let cases = cases();
    let objects: Vec<Value> = cases.iter().map(|case| case.object.clone()).collect();
    for (case, (found, message)) in cases.iter().zip(healths(&objects)) {
        assert_eq!(found, case.argo_cd, "{}: {message}", case.name);
        assert!(!message.is_empty() && message != "nil", "{}", case.name);
        if let Some(said) = &case.message {
            assert!(message.contains(said), "{}: {message}", case.name);
        }
    }
}

/// Where a definition drops conditions, the health check decides by the counters as `pillion status` does.
#[test]
fn argo_cd_reads_counters_as_the_command_line_does() {
    let strategies = [
        json!({}),
        json!({"type": "NotUpdate"}),
        json!({"paused": true}),
        json!({"partition": 2}),
        json!({"partition": "2"}),
        json!({"partition": "0%"}),
        json!({"partition": "34%"}),
        json!({"partition": "99%"}),
        json!({"partition": "100%"}),
        json!({"partition": "50%", "paused": true}),
    ];
    let mut objects = Vec::new();
    for strategy in &strategies {
        for matched in 0..=4 {
            for updated in 0..=matched {
                for updated_ready in 0..=updated {
                    let counts = Counts { matched, updated, ready: updated_ready, updated_ready, ..Counts::default() };
                    objects.push(by_counters(&json!({"updateStrategy": strategy}), counts));
                }
            }
        }
    }
    for (object, (found, message)) in objects.iter().zip(healths(&objects)) {
        let standing = Standing::from_status(object, &RolloutSettings::default());
        let expected = match standing.state {
            RolloutState::Ready => "Healthy",
            RolloutState::Waiting => "Suspended",
            RolloutState::Reconciling | RolloutState::Unobserved => "Progressing",
            RolloutState::Stalled => "Degraded",
        };
        let shown = format!("{} {}: {message}; {}", object["spec"], object["status"], standing.message);
        assert_eq!(found, expected, "{shown}");
    }
}

#[test]
fn argo_cds_config_map_has_the_health_check() {
    let config_map = &objects("argocd/argocd-cm.yaml")[0];
    let found = config_map["data"]["resource.customizations.health.apps.kruise.io_SidecarSet"].as_str().unwrap();
    assert_eq!(found, file("argocd/health.lua"), "copy deploy/argocd/health.lua into deploy/argocd/argocd-cm.yaml");
}

/// Returns the two expressions of Flux's example for a `ValidatingAdmissionPolicy`, which sees the fields of the object
/// below `object`.
fn expressions() -> [String; 2] {
    let kustomization = &objects("flux/sidecarsets.yaml")[0];
    let check = &kustomization["spec"]["healthCheckExprs"][0];
    assert_eq!((&check["apiVersion"], &check["kind"]), (&json!("apps.kruise.io/v1beta1"), &json!("SidecarSet")));
    assert_eq!(check.get("inProgress"), None, "Flux asks it first, and this test does not");
    ["failed", "current"].map(|key| {
        let mut mapped = String::new();
        let text = check[key].as_str().unwrap();
        for (at, letter) in text.char_indices() {
            let begins = |name: &str| text[at..].starts_with(name);
            let is_inside = text[..at].ends_with(|before: char| before.is_alphanumeric() || before == '.');
            if !is_inside && ["status.", "metadata.", "spec."].into_iter().any(begins) {
                mapped.push_str("object.");
            }
            mapped.push(letter);
        }
        mapped
    })
}

/// Flux evaluates expressions with the library that the API server uses, too.
#[tokio::test]
async fn flux_waits_for_the_end_of_a_rollout() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let definition = crd::document("pillion", &crd::Conversion::None, &Value::Null);
    apply(&client, &definition.to_yaml().unwrap(), "test").await.unwrap();
    let [failed, current] = expressions();
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "tell"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["apps.kruise.io"], "apiVersions": ["v1beta1"], "operations": ["UPDATE"],
                "resources": ["sidecarsets/status"],
            }]},
            "validations": [{
                "expression": "false", "message": "an error",
                "messageExpression":
                    format!("({failed}) ? 'found Failed' : ({current}) ? 'found Current' : 'found InProgress'"),
            }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "tell"}, "spec": {"policyName": "tell", "validationActions": ["Deny"]},
    });
    apply(&client, &format!("{policy}\n---\n{binding}"), "test").await.unwrap();

    let sets = dynamic(&client, "apps.kruise.io/v1beta1", "SidecarSet", "sidecarsets");
    let listed = async || sets.list(&ListParams::default()).await.ok();
    until("SidecarSets being served", SOON, listed).await.unwrap();
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    let ask = async |case: &Case| {
        let status = case.object.get("status").cloned().unwrap_or(json!({}));
        let patch = Patch::Merge(json!({"status": status}));
        let refused = sets.patch_status(case.object["metadata"]["name"].as_str().unwrap(), &dry, &patch).await;
        Some(refused.err()?.to_string())
    };
    let cases = cases();
    for case in &cases {
        let mut new = case.object.clone();
        new["metadata"] = json!({"name": new["metadata"]["name"]});
        let stored = create(&sets, &new).await.unwrap();
        assert_eq!(stored["metadata"]["generation"], GENERATION, "{}", case.name);
    }
    let first = cases.iter().find(|case| case.flux == "Current").unwrap();
    until("the policy being asked", SOON, async || ask(first).await).await.unwrap();
    for case in &cases {
        let said = ask(case).await.unwrap_or_default();
        // Without a status, Flux cannot evaluate an expression either, and goes on waiting.
        let is_found = said.contains(&format!("found {}", case.flux));
        let is_unknown = case.flux == "InProgress" && case.object.get("status").is_none() && said.contains("an error");
        assert!(is_found || is_unknown, "{}: wanted {}: {said}", case.name, case.flux);
    }
}

/// Removes what the expression of jq, as in `.a[]?.b`, selects.
fn remove(value: &mut Value, expression: &str) {
    let Some((first, rest)) = expression.trim_start_matches('.').split_once('.') else {
        if let Some(fields) = value.as_object_mut() {
            fields.remove(expression.trim_start_matches('.'));
        }
        return;
    };
    match first.strip_suffix("[]?") {
        Some(list) => {
            for item in value.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                remove(item, rest);
            }
        }
        None => {
            if let Some(below) = value.get_mut(first) {
                remove(below, rest);
            }
        }
    }
}

/// Whether an object has everything that its manifest says. Lists are compared as a whole, as Argo CD does.
fn covers(live: &Value, manifest: &Value) -> bool {
    match manifest {
        Value::Object(fields) => {
            fields.iter().all(|(key, value)| live.get(key).is_some_and(|live| covers(live, value)))
        }
        _ => live == manifest,
    }
}

/// Returns a manifest with the defaults of the API server, which Argo CD knows for the kinds of Kubernetes.
async fn with_defaults(api: &kube::Api<kube::api::DynamicObject>, mut manifest: Value) -> Value {
    if manifest["kind"] == "CustomResourceDefinition" {
        return manifest;
    }
    manifest["metadata"]["name"] = "defaulted".into();
    let dry = kube::api::PostParams { dry_run: true, ..kube::api::PostParams::default() };
    let defaulted = api.create(&dry, &serde_json::from_value(manifest.clone()).unwrap()).await.unwrap();
    manifest["webhooks"] = defaulted.data["webhooks"].clone();
    manifest["metadata"]["name"] = "pillion".into();
    manifest
}

/// Returns an object without what every write changes.
fn content(mut object: Value) -> Value {
    for field in ["managedFields", "resourceVersion"] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    object
}

/// The CA that the server writes is a difference, and with the example it is none.
#[tokio::test]
async fn what_is_written_into_the_cluster_is_no_difference_for_argo_cd() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let settings = json!({
        "featureGates": {"SidecarSetServiceAccountInjection": true}, "sidecarSets": log_agent()["sidecarSets"]
    });
    let installation = Installation::prepare(&cluster, &settings, &["--any-sidecar-sets"], &[SELF_SIGNED]).await;
    installation.register("").await;
    installation.start_server().await;
    installation.wait_for_webhooks().await;

    let config_map = objects("argocd/argocd-cm.yaml").remove(0);
    let mut seen = 0;
    for (group, kind, plural, name) in [
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "pillion"),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
            "pillion",
        ),
        ("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", crd::NAME),
    ] {
        let api = dynamic(&client, &format!("{group}/v1"), kind, plural);
        let manifest = with_defaults(&api, installation.manifest(kind)).await;
        let has_ca = async || {
            let live = serde_json::to_value(api.get(name).await.unwrap()).unwrap();
            live.to_string().contains("\"caBundle\":\"LS0t").then_some(live)
        };
        let mut live = content(until("the CA being written", SOON, has_ca).await.unwrap());
        assert!(kind == "CustomResourceDefinition" || !covers(&live, &manifest), "{kind}: no difference to ignore");
        let key = format!("resource.customizations.ignoreDifferences.{group}_{kind}");
        let ignored: Value = serde_saphyr::from_str(config_map["data"][&key].as_str().expect(&key)).unwrap();
        for expression in ignored["jqPathExpressions"].as_array().unwrap() {
            remove(&mut live, expression.as_str().unwrap());
            seen += 1;
        }
        assert!(!live.to_string().contains("caBundle"), "{live}");
        assert!(covers(&live, &manifest), "{kind}: {live}\n{manifest}");
    }
    assert_eq!(seen, 3);

    // With ServerSideDiff, the API server says what applying the manifest would change.
    let manifest = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "containers": [{"name": "agent", "image": "agent:1"}]},
    });
    let sets = dynamic(&client, "apps.kruise.io/v1beta1", "SidecarSet", "sidecarsets");
    let apply = PatchParams::apply("argocd-controller");
    let live = sets.patch("agent", &apply, &Patch::Apply(&manifest)).await.unwrap();
    let live = serde_json::to_value(live).unwrap();
    assert!(live["metadata"]["annotations"]["kruise.io/sidecarset-hash"].is_string(), "{live}");
    assert!(!covers(&live, &manifest), "admission writes no defaults into lists, so ServerSideDiff is not needed");
    let predicted =
        sets.patch("agent", &PatchParams { dry_run: true, ..apply }, &Patch::Apply(&manifest)).await.unwrap();
    assert_eq!(content(serde_json::to_value(predicted).unwrap()), content(live));
    let sidecar_sets = objects("argocd/applications.yaml").remove(1);
    let compared = &sidecar_sets["metadata"]["annotations"]["argocd.argoproj.io/compare-options"];
    assert_eq!(compared, "ServerSideDiff=true,IncludeMutationWebhook=true");
}

/// The examples name the chart and its version as they are.
#[test]
fn the_examples_install_this_chart() {
    let argo_cd = &objects("argocd/applications.yaml")[0]["spec"]["source"];
    assert_eq!((&argo_cd["chart"], &argo_cd["targetRevision"]), (&json!("pillion"), &json!(env!("CARGO_PKG_VERSION"))));
    let flux = objects("flux/pillion.yaml");
    let repository = flux.iter().find(|object| object["kind"] == "OCIRepository").unwrap();
    let url = format!("oci://{}/{}", argo_cd["repoURL"].as_str().unwrap(), argo_cd["chart"].as_str().unwrap());
    assert_eq!(repository["spec"]["url"], url);
    let release = flux.iter().find(|object| object["kind"] == "HelmRelease").unwrap();
    assert_eq!(release["spec"]["chartRef"]["name"], repository["metadata"]["name"]);
    let folder: PathBuf = workspace().join("charts/pillion");
    assert!(folder.join("Chart.yaml").exists());
}
