//! The content of deploy/kustomize: bases are renderings of `pillion manifest`, and a component is the difference between
//! two renderings.
#![allow(dead_code, clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // The module `kustomize` of testenv has this file, too, and uses its part; a panic is how a test fails.

use std::collections::BTreeMap;

use pillion_install::rendering::document::{Document, to_yaml};
use pillion_install::rendering::{controller, kubewarden, options, standalone};
use pillion_yaml::{self as yaml, Tree};
use serde_json::{Value, json};

/// The folder in the repository.
pub const FOLDER: &str = "deploy/kustomize";

/// The file with the objects of a folder.
const OBJECTS: &str = "manifests.yaml";

/// A folder with a kustomization or a component.
pub struct Folder {
    /// The folder, below [`FOLDER`].
    pub path: String,
    /// The texts of its files, by name.
    pub files: BTreeMap<String, String>,
}

/// A base with components, as a kustomization of a user combines them.
pub struct Build {
    /// The folder of the base, below [`FOLDER`].
    pub base: &'static str,
    /// The components, below `components`.
    pub components: &'static [&'static str],
    /// The objects that `kustomize build` prints for it, in any order.
    pub objects: Vec<Value>,
}

impl Build {
    /// Returns the base and the components, for messages.
    pub fn name(&self) -> String {
        [&[self.base], self.components].concat().join(" with ")
    }

    /// Returns a kustomization in a folder beside the base.
    pub fn kustomization(&self) -> String {
        let components: Vec<String> = self.components.iter().map(|name| format!("../components/{name}")).collect();
        written(&json!({
            "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
            "resources": [format!("../{}", self.base)], "components": components,
        }))
    }
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

/// Identities, and all guards of running Pods.
fn with_guards() -> Value {
    let mut settings = with_identities();
    settings["serviceAccounts"]["guards"] = json!({"exec": true, "images": true, "tokenRequests": true});
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

const CERT_MANAGER: [&str; 4] = ["--certificates", "cert-manager", "--exclude-namespaces", "cert-manager"];
const ROLLOUTS: [&str; 2] = ["--controllers", "*,sidecarset-rollout"];
/// The namespaces of Kubewarden's distributions, each with its component.
const NAMESPACES: [(&str, &str); 2] =
    [("kubewarden-rancher", "cattle-kubewarden-system"), ("kubewarden-suse", "suse-sec-adm-controller")];

/// The server and the controllers.
fn server(settings: &Value, server: &[&str], controllers: &[&str]) -> Vec<Document> {
    [standalone(settings, server), beside(settings, controllers)].concat()
}

/// The policies and the controllers.
fn policies(settings: &Value, policies: &[&str], controllers: &[&str]) -> Vec<Document> {
    [kubewarden(settings, policies), controller(settings, controllers)].concat()
}

/// Returns all folders.
pub fn folders() -> Vec<Folder> {
    let (plain, identities, guarded) = (&settings(), &with_identities(), &with_guards());
    let controllers = beside(plain, &[]);
    let with_controllers = |path: &str, all: Vec<Document>| {
        let own: Vec<Document> = all.into_iter().filter(|it| !contains(&controllers, &it.object)).collect();
        base(path, &["../controller"], &own)
    };
    let (server_alone, policies_alone) = (server(plain, &[], &[]), policies(plain, &[], &[]));
    let mut folders = vec![
        base("controller", &[], &controllers),
        with_controllers("standalone", server_alone.clone()),
        with_controllers("kubewarden", policies_alone.clone()),
        component("rollouts", &server_alone, &server(plain, &[], &ROLLOUTS)),
        component("cert-manager", &server_alone, &server(plain, &CERT_MANAGER, &[])),
        component("standalone-identities", &server_alone, &server(identities, &[], &[])),
        component("kubewarden-identities", &policies_alone, &policies(identities, &[], &[])),
        component("standalone-identities-guarded", &server_alone, &server(guarded, &[], &[])),
        component("kubewarden-identities-guarded", &policies_alone, &policies(guarded, &[], &[])),
    ];
    folders.extend(
        NAMESPACES.map(|(name, namespace)| {
            component(name, &policies_alone, &policies(plain, &["--namespace", namespace], &[]))
        }),
    );
    folders
}

/// Returns the bases with each component, and with those that can be combined.
pub fn builds() -> Vec<Build> {
    let (plain, identities, guarded) = (&settings(), &with_identities(), &with_guards());
    let build = |base, components, documents: Vec<Document>| Build {
        base,
        components,
        objects: documents.into_iter().map(|document| document.object).collect(),
    };
    let [rancher, suse] = NAMESPACES.map(|(_, namespace)| ["--namespace", namespace]);
    vec![
        build("standalone", &[], server(plain, &[], &[])),
        build("standalone", &["rollouts"], server(plain, &[], &ROLLOUTS)),
        build("standalone", &["cert-manager"], server(plain, &CERT_MANAGER, &[])),
        build("standalone", &["cert-manager", "rollouts"], server(plain, &CERT_MANAGER, &ROLLOUTS)),
        build("standalone", &["standalone-identities"], server(identities, &[], &[])),
        build("standalone", &["standalone-identities-guarded"], server(guarded, &[], &[])),
        build("kubewarden", &["kubewarden-identities-guarded"], policies(guarded, &[], &[])),
        build("kubewarden", &[], policies(plain, &[], &[])),
        build("kubewarden", &["rollouts"], policies(plain, &[], &ROLLOUTS)),
        build("kubewarden", &["kubewarden-identities"], policies(identities, &[], &[])),
        build("kubewarden", &["kubewarden-rancher"], policies(plain, &rancher, &[])),
        build("kubewarden", &["kubewarden-rancher", "rollouts"], policies(plain, &rancher, &ROLLOUTS)),
        build("kubewarden", &["kubewarden-rancher", "kubewarden-identities"], policies(identities, &rancher, &[])),
        build("kubewarden", &["kubewarden-suse"], policies(plain, &suse, &[])),
        build("kubewarden", &["kubewarden-suse", "rollouts"], policies(plain, &suse, &ROLLOUTS)),
        build("kubewarden", &["kubewarden-suse", "kubewarden-identities"], policies(identities, &suse, &[])),
    ]
}

/// Kind, namespace and name of an object.
pub fn identity(object: &Value) -> [String; 3] {
    ["/kind", "/metadata/namespace", "/metadata/name"]
        .map(|pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned())
}

fn contains(documents: &[Document], object: &Value) -> bool {
    documents.iter().any(|document| identity(&document.object) == identity(object))
}

/// Returns a base with these objects, and with other bases.
fn base(path: &str, bases: &[&str], documents: &[Document]) -> Folder {
    let resources = [&[OBJECTS], bases].concat();
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources,
    });
    folder(path.to_owned(), &kustomization, documents)
}

/// Returns a component that makes the objects `after` from those `before`.
fn component(name: &str, before: &[Document], after: &[Document]) -> Folder {
    let known: BTreeMap<[String; 3], &Value> =
        before.iter().map(|document| (identity(&document.object), &document.object)).collect();
    let (mut patches, mut new) = (Vec::new(), Vec::new());
    for document in after {
        match known.get(&identity(&document.object)) {
            None => new.push(document.clone()),
            Some(object) if **object != document.object => {
                let operations = serde_json::to_value(json_patch::diff(object, &document.object)).unwrap();
                let last = operations.as_array().and_then(|all| all.last()).and_then(|last| last["value"].as_str());
                let ends_in_text = last.is_some_and(|text| text.ends_with('\n'));
                // Kustomize trims a patch. The comment keeps the line feed at the end of a text.
                let patch = written(&operations) + if ends_in_text { "# the end of the text\n" } else { "" };
                patches.push(json!({"patch": patch, "target": target(&document.object)}));
            }
            Some(_) => {}
        }
    }
    for object in before.iter().map(|document| &document.object).filter(|object| !contains(after, object)) {
        let mut deleted = json!({
            "$patch": "delete", "apiVersion": object["apiVersion"], "kind": object["kind"],
            "metadata": {"name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"]},
        });
        deleted["metadata"].as_object_mut().unwrap().retain(|_, value| !value.is_null());
        patches.push(json!({"patch": written(&deleted)}));
    }
    let mut kustomization = json!({"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"});
    if !patches.is_empty() {
        kustomization["patches"] = patches.into();
    }
    if !new.is_empty() {
        kustomization["resources"] = json!([OBJECTS]);
    }
    folder(format!("components/{name}"), &kustomization, &new)
}

fn folder(path: String, kustomization: &Value, documents: &[Document]) -> Folder {
    let mut files = BTreeMap::from([("kustomization.yaml".to_owned(), written(kustomization))]);
    if !documents.is_empty() {
        files.insert(OBJECTS.to_owned(), to_yaml(documents).unwrap());
    }
    Folder { path, files }
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
