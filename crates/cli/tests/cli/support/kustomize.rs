//! The content of deploy/kustomize: bases are renderings of `pillion manifest`, and an overlay is the difference between
//! its bases and another rendering.
#![allow(dead_code, clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // `cluster_kustomize` of testenv has this file, too, and uses its part; a panic is how a test fails.

use std::collections::BTreeMap;

use pillion::rendering::document::{Document, to_yaml};
use pillion::rendering::{controller, kubewarden, options, standalone};
use pillion_yaml::{self as yaml, Tree};
use serde_json::{Value, json};

/// The folder in the repository.
pub const FOLDER: &str = "deploy/kustomize";

const BASES: [&str; 3] = ["base/controller", "base/kubewarden", "base/standalone"];

/// A folder with a kustomization.
pub struct Kustomization {
    /// The folder, below [`FOLDER`].
    pub folder: String,
    /// The objects that `kustomize build` prints for it, in any order.
    pub objects: Vec<Value>,
    /// The texts of its files, by name.
    pub files: BTreeMap<String, String>,
}

/// Returns the settings of all kustomizations: those that the chart has by default.
pub fn settings() -> Value {
    json!({
        "bundleRef": {"namespace": "pillion-system", "name": "pillion-bundle"},
        "systemNamespace": "pillion-system",
        "serviceAccounts": {"controllerUser": "system:serviceaccount:pillion-system:pillion-controller"},
    })
}

fn with_identities() -> Value {
    let mut settings = settings();
    settings["featureGates"] = json!({"SidecarSetServiceAccountInjection": true});
    settings
}

fn options<T: clap::Args>(flags: &[&str]) -> T {
    let flags = std::iter::once("pillion").chain(flags.iter().copied());
    let command = T::augment_args(clap::Command::new("pillion"));
    T::from_arg_matches(&command.try_get_matches_from(flags).unwrap()).unwrap()
}

fn standalone(settings: &Value, flags: &[&str]) -> Vec<Document> {
    let flags = [&["--any-sidecar-sets"], flags].concat();
    standalone::render(settings, &options::<options::Standalone>(&flags)).unwrap().documents
}

fn kubewarden(settings: &Value, flags: &[&str]) -> Vec<Document> {
    let flags = [&["--any-sidecar-sets", "--crd"], flags].concat();
    kubewarden::render(settings, &options::<options::Kubewarden>(&flags)).unwrap().documents
}

fn controller(settings: &Value, flags: &[&str]) -> Vec<Document> {
    controller::render(settings, &options::<options::Controller>(flags)).unwrap().documents
}

/// The controllers beside the server, which brings the namespace.
fn beside(settings: &Value, flags: &[&str]) -> Vec<Document> {
    controller(settings, &[&["--no-namespace"], flags].concat())
}

/// Returns all kustomizations.
pub fn all() -> Vec<Kustomization> {
    let (plain, identities) = (&settings(), &with_identities());
    let base = |folder: &str| match folder {
        "base/standalone" => standalone(plain, &[]),
        "base/kubewarden" => kubewarden(plain, &[]),
        "base/controller" => beside(plain, &[]),
        _ => panic!("{folder}"),
    };
    let mut all: Vec<Kustomization> = BASES.into_iter().map(|folder| of(folder, &[], &base(folder))).collect();
    let mut overlay = |folder: &str, bases: [&str; 2], parts: [Vec<Document>; 2]| {
        let bases = bases.map(|folder| (folder.to_owned(), base(folder)));
        all.push(of(&format!("overlays/{folder}"), &bases, &parts.concat()));
    };
    let server = ["base/standalone", "base/controller"];
    overlay("standalone", server, [standalone(plain, &[]), beside(plain, &[])]);
    let cert_manager = ["--certificates", "cert-manager", "--exclude-namespaces", "cert-manager"];
    overlay("standalone-cert-manager", server, [standalone(plain, &cert_manager), beside(plain, &[])]);
    overlay("standalone-identities", server, [standalone(identities, &[]), beside(identities, &[])]);
    let rollouts = ["--controllers", "*,sidecarset-rollout"];
    overlay("standalone-rollouts", server, [standalone(plain, &[]), beside(plain, &rollouts)]);
    let policies = ["base/kubewarden", "base/controller"];
    overlay("kubewarden", policies, [kubewarden(plain, &[]), controller(plain, &[])]);
    overlay("kubewarden-identities", policies, [kubewarden(identities, &[]), controller(identities, &[])]);
    overlay("kubewarden-rollouts", policies, [kubewarden(plain, &[]), controller(plain, &rollouts)]);
    for (name, namespace) in [("rancher", "cattle-kubewarden-system"), ("suse", "suse-sec-adm-controller")] {
        let of_namespace = kubewarden(plain, &["--namespace", namespace]);
        overlay(&format!("kubewarden-{name}"), policies, [of_namespace, controller(plain, &[])]);
    }
    all
}

/// Kind, namespace and name of an object.
pub fn identity(object: &Value) -> [String; 3] {
    ["/kind", "/metadata/namespace", "/metadata/name"]
        .map(|pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned())
}

/// Returns a kustomization that makes these objects from those of its bases.
fn of(folder: &str, bases: &[(String, Vec<Document>)], documents: &[Document]) -> Kustomization {
    let before: BTreeMap<[String; 3], &Value> = bases
        .iter()
        .flat_map(|(_, documents)| documents)
        .map(|document| (identity(&document.object), &document.object))
        .collect();
    let mut resources: Vec<String> = bases.iter().map(|(folder, _)| format!("../../{folder}")).collect();
    let (mut files, mut patches, mut new) = (BTreeMap::new(), Vec::new(), Vec::new());
    for document in documents {
        match before.get(&identity(&document.object)) {
            None => new.push(document.clone()),
            Some(object) if **object != document.object => {
                let operations = json_patch::diff(object, &document.object);
                let file = patch_file(&document.object);
                files.insert(file.clone(), written(&serde_json::to_value(operations).unwrap()));
                patches.push(json!({"path": file, "target": target(&document.object)}));
            }
            Some(_) => {}
        }
    }
    for group in new.chunk_by(|one, other| one.file == other.file) {
        let file = format!("{}.yaml", group[0].file);
        resources.push(file.clone());
        let earlier: Option<String> = files.remove(&file);
        assert!(earlier.is_none(), "{folder}: {file} is written twice");
        files.insert(file, to_yaml(group).unwrap());
    }
    for (removed, object) in before {
        if documents.iter().all(|document| identity(&document.object) != removed) {
            let file = patch_file(object);
            let metadata = json!({"name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"]});
            let mut deleted = json!({
                "$patch": "delete", "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": metadata,
            });
            deleted["metadata"].as_object_mut().unwrap().retain(|_, value| !value.is_null());
            files.insert(file.clone(), written(&deleted));
            patches.push(json!({"path": file}));
        }
    }
    let mut kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources,
    });
    if !patches.is_empty() {
        kustomization["patches"] = patches.into();
    }
    files.insert("kustomization.yaml".to_owned(), written(&kustomization));
    let objects = documents.iter().map(|document| document.object.clone()).collect();
    Kustomization { folder: folder.to_owned(), objects, files }
}

fn patch_file(object: &Value) -> String {
    let [kind, namespace, name] = identity(object);
    let place =
        if namespace.is_empty() || namespace == "pillion-system" { String::new() } else { format!("{namespace}-") };
    format!("patch-{}-{place}{name}.yaml", kind.to_lowercase())
}

/// Returns the selector of a JSON patch.
fn target(object: &Value) -> Value {
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let [kind, namespace, name] = identity(object);
    let mut target = json!({"version": version, "kind": kind, "name": name});
    for (key, value) in [("group", group), ("namespace", namespace.as_str())] {
        if !value.is_empty() {
            target[key] = value.into();
        }
    }
    target
}

fn written(value: &Value) -> String {
    yaml::print(&Tree::conventional(value))
}
