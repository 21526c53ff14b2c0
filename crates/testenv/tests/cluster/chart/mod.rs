//! Renders the chart with Helm, and normalises objects for comparison.

mod extras;
pub mod matrix;
mod tests;
pub mod values;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use pillion_kubernetes::rbac::{self, PolicyRule};
use serde_json::{Value, json};

use matrix::Case;

/// Labels and annotations that the chart's objects have and those of `pillion manifest` do not, or not with the same
/// value.
const OF_HELM: [&str; 3] = ["app.kubernetes.io/managed-by", "helm.sh/chart", "helm.sh/resource-policy"];
/// The permissions that SidecarSets of the settings give to merged accounts are in a role with this label.
const CEILING: &str = "pillion.dev/merged-ceiling";

/// Returns the folder of the chart.
pub fn folder() -> PathBuf {
    pillion_testkit::module::workspace().join("charts/pillion")
}

/// Runs Helm with these arguments and values.
pub fn helm(arguments: &[&str], values: &Value) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("values.yaml");
    fs::write(&file, values.to_string()).unwrap();
    // Neither repositories nor plugins nor a kubeconfig of the user.
    let home = folder.path().join("home");
    Command::new(pillion_testenv::tool("helm").unwrap())
        .args(arguments)
        .arg("--values")
        .arg(&file)
        .envs(["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"].map(|name| (name, &home)))
        .env("KUBECONFIG", folder.path().join("none"))
        .output()
        .unwrap()
}

/// Returns the output of `helm template`.
///
/// # Errors
/// What Helm says if it refuses the values.
pub fn template(case: &Case, more: &[&str]) -> Result<String, String> {
    let chart = folder();
    let mut arguments = vec!["template", case.release, chart.to_str().unwrap(), "--namespace", case.namespace];
    arguments.extend(more);
    let output = helm(&arguments, &case.values);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// Returns the objects of `helm template`, without those that Helm creates only for hooks and tests.
pub fn objects(case: &Case) -> Vec<Value> {
    let text = template(case, &[]).unwrap_or_else(|error| panic!("{}: {error}", case.name));
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    objects.retain(|object| !object.is_null() && object.pointer("/metadata/annotations/helm.sh~1hook").is_none());
    objects
}

/// Returns objects by kind, namespace and name, without differences that have no effect.
pub fn normalised(objects: impl IntoIterator<Item = Value>) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for mut object in objects {
        if object["kind"] == "Namespace" {
            continue; // Helm creates it.
        }
        let title = format!(
            "{} {}/{}",
            object["kind"].as_str().unwrap(),
            object["metadata"]["namespace"].as_str().unwrap_or_default(),
            object["metadata"]["name"].as_str().unwrap()
        );
        normalise(&mut object);
        assert!(all.insert(title.clone(), object).is_none(), "twice: {title}");
    }
    all
}

fn normalise(object: &mut Value) {
    forget_helm(object);
    // The text of the settings is not the same, the settings are.
    if let Some(text) = object.pointer_mut("/data/settings.yaml") {
        *text = serde_saphyr::from_str(text.as_str().unwrap()).unwrap();
    }
    // Helm removes values that are null; `pillion manifest` keeps this one for the next rendering.
    for pointer in ["/data/settings.yaml", "/spec/settings"] {
        if let Some(settings) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
            settings.retain(|key, value| key != "bundleRef" || !value.is_null());
        }
    }
    if object.pointer("/metadata/labels").is_some_and(|labels| labels[CEILING] == "true") {
        let rules: Vec<PolicyRule> = serde_json::from_value(object["rules"].clone()).unwrap();
        object["rules"] = json!(rbac::normalised(&rules));
    }
    if let Some(rules) = object.get_mut("rules").and_then(Value::as_array_mut) {
        rules.sort_by_key(Value::to_string);
    }
    // The default of the API server.
    if let Some(Value::Object(container)) = object.pointer_mut("/spec/template/spec/containers/0") {
        assert_eq!(container.remove("imagePullPolicy").unwrap_or(json!("IfNotPresent")), "IfNotPresent");
    }
}

/// Removes what only Helm's objects have, also from the metadata of Pod templates.
fn forget_helm(object: &mut Value) {
    for metadata in ["/metadata", "/spec/template/metadata"] {
        let Some(Value::Object(metadata)) = object.pointer_mut(metadata) else { continue };
        for field in ["labels", "annotations"] {
            let Some(Value::Object(entries)) = metadata.get_mut(field) else { continue };
            entries.retain(|key, _| !OF_HELM.contains(&key.as_str()));
            if entries.is_empty() {
                metadata.remove(field);
            }
        }
    }
}
