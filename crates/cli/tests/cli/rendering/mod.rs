//! `pillion manifest`: the output is what the module needs, and can be applied repeatedly.

mod command;
mod controller;
mod crd;
mod kubewarden;
mod properties;
mod standalone;

use std::collections::BTreeSet;

use clap::FromArgMatches;
use pillion::rendering::document::Document;
use pillion::rendering::options::{Kubewarden, Standalone};
use pillion::rendering::{self, Rendered};
use pillion_identity::rules::SYSTEM_NAMESPACES;
use serde_json::{Value, json};

use crate::support::files::{RULE, combinations, objects, root, text};

/// Parses options as on a command line.
fn options<T: clap::Args + FromArgMatches>(flags: &[&str]) -> T {
    let flags = std::iter::once("pillion").chain(flags.iter().copied());
    let matches = T::augment_args(clap::Command::new("pillion")).try_get_matches_from(flags).unwrap();
    T::from_arg_matches(&matches).unwrap()
}

fn for_kubewarden(settings: &Value, flags: &[&str]) -> Rendered {
    rendering::kubewarden::render(settings, &options::<Kubewarden>(flags)).unwrap()
}

fn standalone(settings: &Value, flags: &[&str]) -> Rendered {
    rendering::standalone::render(settings, &options::<Standalone>(flags)).unwrap()
}

fn titles(rendered: &Rendered) -> Vec<String> {
    rendered.documents.iter().map(Document::title).collect()
}

fn object<'a>(rendered: &'a Rendered, title: &str) -> &'a Value {
    let found = rendered.documents.iter().find(|document| document.title() == title);
    &found.unwrap_or_else(|| panic!("no {title} among {:?}", titles(rendered))).object
}

/// Returns a SidecarSet with the required fields and these.
fn set(name: &str, spec: &Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"logs": "collect"}}, "containers": [{"name": name, "image": "i:1"}]}
    });
    for (key, value) in spec.as_object().unwrap() {
        set["spec"][key] = value.clone();
    }
    set
}

fn plain() -> Value {
    json!({"sidecarSets": [set("a", &json!({}))]})
}

/// Returns settings as they are rendered: for new installations, authors of SidecarSets must be allowed to create Pods.
fn rendered_from(mut settings: Value) -> Value {
    settings["serviceAccounts"]["requireCreatePods"] = json!(true);
    settings
}

/// Returns the namespaces without injection: the system namespaces, and these.
fn excluded(more: &[&str]) -> Value {
    let all: BTreeSet<&str> = SYSTEM_NAMESPACES.into_iter().chain(more.iter().copied()).collect();
    json!(all)
}

/// Returns settings with an identity.
fn identities() -> Value {
    json!({
        "featureGates": {"SidecarSetServiceAccountInjection": true},
        "sidecarSets": [set("a", &json!({"serviceAccountName": "log-agent"}))],
    })
}

const GRANT: [&str; 3] = ["apiGroups", "resources", "verbs"];

/// Returns the rules and kinds of all artifacts together.
fn metadata() -> Value {
    let artifacts = ["", "artifacts/assert/", "artifacts/guards/", "artifacts/shoots/", "artifacts/token-secrets/"];
    let artifacts = artifacts.map(|folder| objects("metadata.yml", &text(&format!("{folder}metadata.yml"))).remove(0));
    let all =
        |key: &str| -> Value { artifacts.iter().filter_map(|of| of[key].as_array()).flatten().cloned().collect() };
    json!({"rules": all("rules"), "contextAwareResources": all("contextAwareResources")})
}

/// Returns the permissions that the roles of a rendering grant.
fn granted(rendered: &Rendered) -> BTreeSet<Vec<String>> {
    let roles = rendered.documents.iter().filter(|document| document.object["rules"].is_array());
    roles.flat_map(|role| combinations(&role.object["rules"], &GRANT)).collect()
}
