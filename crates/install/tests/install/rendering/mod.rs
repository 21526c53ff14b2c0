//! Renderings: they are what the module needs, and can be applied repeatedly.

mod controller;
mod crd;
mod kubewarden;
mod properties;
mod standalone;

use std::collections::BTreeSet;

use pillion_identity::rules::SYSTEM_NAMESPACES;
use pillion_install::rendering::document::Document;
use pillion_install::rendering::options::{self, Kubewarden, Standalone};
use pillion_install::rendering::{self, Rendered};
use pillion_samples::repository::{RULE, combinations, text};
use serde_json::{Value, json};

use crate::support::{objects, options};

fn for_kubewarden(settings: &Value, flags: &[&str]) -> Rendered {
    rendering::kubewarden::render(settings, &options::<Kubewarden>(flags)).unwrap()
}

fn standalone(settings: &Value, flags: &[&str]) -> Rendered {
    rendering::standalone::render(settings, &options::<Standalone>(flags)).unwrap()
}

/// The settings of a rendering name the ConfigMap of the cluster's SidecarSets, unless they have SidecarSets or say no.
#[rstest::rstest]
#[case::the_gate_alone(json!({"featureGates": {"SidecarSetServiceAccountInjection": true}}), Some("pillion-system/pillion-bundle"))]
#[case::nothing(json!({}), Some("pillion-system/pillion-bundle"))]
#[case::another_one(json!({"bundleRef": {"namespace": "bundles", "name": "sets"}}), Some("bundles/sets"))]
#[case::turned_off(json!({"bundleRef": null}), None)]
#[case::sidecar_sets_of_the_settings(plain(), None)]
fn the_cluster_s_sidecar_sets_are_injected_by_default(#[case] settings: Value, #[case] bundle: Option<&str>) {
    let of_processes = |rendered: &Rendered| {
        let mut maps = rendered.documents.iter().filter(|document| document.object["kind"] == "ConfigMap");
        let text = maps.find_map(|map| map.object["data"]["settings.yaml"].as_str()).unwrap();
        serde_saphyr::from_str::<Value>(text).unwrap()
    };
    let controllers = rendering::controller::render(&settings, &options::<options::Controller>(&[])).unwrap();
    let policies = for_kubewarden(&settings, &[]);
    let server = standalone(&settings, &[]);
    let pods = object(&policies, "ClusterAdmissionPolicy pillion-pods")["spec"]["settings"].clone();
    for settings in [pods, of_processes(&server), of_processes(&controllers)] {
        let found = settings
            .get("bundleRef")
            .filter(|it| !it.is_null())
            .map(|it| format!("{}/{}", it["namespace"].as_str().unwrap(), it["name"].as_str().unwrap()));
        assert_eq!(found.as_deref(), bundle, "{settings}");
    }
    for rendered in [&controllers, &policies, &server] {
        let says =
            rendered.notes.iter().any(|note| note.starts_with("SidecarSets that are applied to the cluster are not"));
        assert_eq!(says, bundle.is_none(), "{:?}", rendered.notes);
    }
}

/// The bundle is in the namespace of the controllers: the one that the settings name, else that of the process.
#[rstest::rstest]
#[case::of_the_process(json!({}), "infra")]
#[case::of_the_settings(json!({"serviceAccounts": {"controllerUser": "system:serviceaccount:ops:c"}}), "ops")]
fn the_bundle_is_where_the_controllers_are(#[case] settings: Value, #[case] namespace: &str) {
    let flags = ["--namespace", "infra"];
    let controllers = rendering::controller::render(&settings, &options::<options::Controller>(&flags)).unwrap();
    for rendered in [controllers, standalone(&settings, &flags)] {
        let names = |document: &Document| document.object["data"]["settings.yaml"].as_str().map(str::to_owned);
        let text = rendered.documents.iter().find_map(names).unwrap();
        let settings: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(settings["bundleRef"], json!({"namespace": namespace, "name": "pillion-bundle"}));
    }
}

/// Returns the resource of a kind, as kubectl names it.
fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    match lower.strip_suffix('y') {
        Some(start) => format!("{start}ies"),
        None => format!("{lower}s"),
    }
}

/// The guide deletes by labels, so each object has one of them. The namespace and the definition stay on purpose.
#[test]
fn the_guide_for_the_removal_deletes_every_rendered_object() {
    let guide = text("docs/guides/uninstall.md");
    let (_, section) = guide.split_once("## With manifests or Kustomize").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let deletions: Vec<(&str, Vec<&str>)> = section
        .lines()
        .filter_map(|line| {
            let (kinds, rest) = line.strip_prefix("kubectl delete ")?.split_once(' ')?;
            let (_, instances) = rest.split_once("'app.kubernetes.io/instance in (")?;
            Some((kinds, instances.trim_end_matches(")'").split(',').collect()))
        })
        .collect();
    let settings = json!({"featureGates": {"SidecarSetServiceAccountInjection": true}, "shoots": {"enabled": true}});
    let every = "*,sidecarset-rollout,serviceaccount,serviceaccount-token,root-ca-publisher,legacy-token-cleaner,account-permissions";
    let flags = ["--controllers", every, "--token-namespaces", "shop"];
    let controllers = rendering::controller::render(&settings, &options::<options::Controller>(&flags)).unwrap();
    for rendered in [controllers, for_kubewarden(&settings, &["--crd"]), standalone(&settings, &[])] {
        for document in &rendered.documents {
            let (kind, instance) = (
                document.object["kind"].as_str().unwrap(),
                document.object["metadata"]["labels"]["app.kubernetes.io/instance"].as_str().unwrap(),
            );
            let is_deleted = deletions.iter().any(|(kinds, instances)| {
                kinds.split(',').any(|it| it == plural(kind)) && instances.contains(&instance)
            });
            let stays = ["Namespace", "CustomResourceDefinition"].contains(&kind);
            assert_eq!(is_deleted, !stays, "{}", document.title());
        }
    }
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

/// Returns settings that turn on every part.
fn everything() -> Value {
    let mut settings = identities();
    settings["shoots"] = json!({"enabled": true});
    settings["serviceAccounts"] = json!({"guards": {"exec": true, "images": true, "tokenRequests": true}});
    settings
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
    let folders = ["assert", "exec", "guards", "images", "shoots", "token-requests", "token-secrets"];
    let artifacts = folders.map(|folder| format!("artifacts/{folder}/")).into_iter().chain([String::new()]);
    let artifacts: Vec<Value> =
        artifacts.map(|folder| objects("metadata.yml", &text(&format!("{folder}metadata.yml"))).remove(0)).collect();
    let all =
        |key: &str| -> Value { artifacts.iter().filter_map(|of| of[key].as_array()).flatten().cloned().collect() };
    json!({"rules": all("rules"), "contextAwareResources": all("contextAwareResources")})
}

/// Returns the permissions that the roles of a rendering grant to Pillion. One role is for people.
fn granted(rendered: &Rendered) -> BTreeSet<Vec<String>> {
    let roles = rendered.documents.iter().filter(|document| document.object["rules"].is_array());
    let roles = roles.filter(|role| role.object["metadata"]["name"] != "pillion-sidecarsets-view");
    roles.flat_map(|role| combinations(&role.object["rules"], &GRANT)).collect()
}
