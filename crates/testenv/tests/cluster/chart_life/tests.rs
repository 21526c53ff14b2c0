//! The life of the chart with real Helm on a real API server: install, upgrade, rollback, test, uninstall, and again.

use std::collections::BTreeSet;
use std::path::Path;

use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use pillion_install::rendering::crd;
use pillion_testenv::{Cluster, Options, apply, point_at, stand_in, until};
use pillion_testkit::module::workspace;
use serde_json::{Value, json};

use super::{NAMESPACE, Release, create_merged, everything, of_release, older_chart};
use crate::support::{SOON, create, dynamic};

const NEW: &str = "apps.kruise.io/v1beta1";
const OLD: &str = "apps.kruise.io/v1alpha1";
const ADMISSION: &str = "admissionregistration.k8s.io/v1";

fn chart() -> std::path::PathBuf {
    workspace().join("charts/pillion")
}

fn definitions(client: &Client) -> Api<DynamicObject> {
    dynamic(client, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions")
}

fn mutating(client: &Client) -> Api<DynamicObject> {
    dynamic(client, ADMISSION, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations")
}

async fn value(api: &Api<DynamicObject>, name: &str) -> Value {
    serde_json::to_value(api.get(name).await.unwrap()).unwrap()
}

/// Returns the CAs that the API server trusts for the release's server.
async fn authorities(client: &Client) -> BTreeSet<String> {
    let webhooks = value(&mutating(client), "pillion").await;
    let of_webhooks = webhooks["webhooks"].as_array().unwrap().iter().map(|webhook| &webhook["clientConfig"]);
    let definition = value(&definitions(client), crd::NAME).await;
    let conversion = &definition["spec"]["conversion"]["webhook"]["clientConfig"];
    of_webhooks.chain([conversion]).map(|config| config["caBundle"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Points the webhooks and the conversion of a release at a local server. Without a URL, the conversion goes back to the
/// Service.
async fn point(client: &Client, url: &str, authority: &str) {
    let mut definition = value(&definitions(client), crd::NAME).await;
    let mut webhooks = value(&mutating(client), "pillion").await;
    for object in [&mut definition, &mut webhooks] {
        point_at(object, url, authority);
        object["metadata"].as_object_mut().unwrap().remove("managedFields");
    }
    let params = kube::api::PostParams::default();
    definitions(client).replace(crd::NAME, &params, &serde_json::from_value(definition).unwrap()).await.unwrap();
    mutating(client).replace("pillion", &params, &serde_json::from_value(webhooks).unwrap()).await.unwrap();
}

fn set(name: &str) -> Value {
    json!({
        "apiVersion": NEW, "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}}, "containers": [{"name": name, "image": "agent:1"}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}},
        },
    })
}

/// Each step of the life of a release, one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_from_the_first_install_to_the_last_uninstall() {
    let cluster = Cluster::start(Options::new().nodes(1)).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let before = everything(&client).await;
    let release = Release::new(&cluster);

    // The version before, with fewer objects.
    let older = older_chart(&chart());
    let said = release.helm(&[
        "install",
        "pillion",
        path(older.path()),
        "--create-namespace",
        "--set",
        "networkPolicy.enabled=false",
    ]);
    assert!(said.contains("Pillion 0.0.9 is installed as release pillion"), "{said}");
    let server = release.start_server("https").await;
    let trusted =
        async || authorities(&client).await.into_iter().all(|bundle| bundle.starts_with("LS0t")).then_some(());
    until("the CA being written", SOON, trusted).await.unwrap();
    let authority = authorities(&client).await;
    assert_eq!(authority.len(), 1);

    // This version, without a value.
    let said = release.helm(&["upgrade", "pillion", path(&chart()), "--reset-values"]);
    assert!(said.contains("Pillion 0.1.0 is installed as release pillion"), "{said}");
    assert_eq!(authorities(&client).await, authority, "caBundle survives an upgrade");
    let first = of_release(&client).await;
    assert!(first.keys().any(|title| title.starts_with("NetworkPolicy ")), "{:?}", first.keys());
    let deployment = &first["Deployment pillion-system/pillion"];
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["image"], "ghcr.io/pillion/pillion:v0.1.0");
    assert_eq!(first.keys().collect::<Vec<_>>(), release.rendered(&[]).iter().collect::<Vec<_>>());

    // The same again changes nothing.
    release.helm(&["upgrade", "pillion", path(&chart())]);
    let again = of_release(&client).await;
    for (title, object) in &first {
        assert_eq!(again[title], *object, "{title}");
    }

    // Other values, and back.
    let values =
        ["--set", "settings.featureGates.SidecarSetServiceAccountInjection=true,controller.rollouts.enabled=true"];
    release.helm(&[&["upgrade", "pillion", path(&chart())][..], &values].concat());
    let changed = of_release(&client).await;
    for more in ["ValidatingWebhookConfiguration /pillion", "Deployment pillion-system/pillion-controller-rollout"] {
        assert!(changed.contains_key(more) && !first.contains_key(more), "{more}: {:?}", changed.keys());
    }
    // The new webhooks get it a moment later.
    assert!(authorities(&client).await.is_superset(&authority), "caBundle survives other values");
    let trusted = async || (authorities(&client).await == authority).then_some(());
    until("the CA of the new webhooks", SOON, trusted).await.unwrap();
    release.helm(&["rollback", "pillion", "3"]);
    let back = of_release(&client).await;
    assert_eq!(back.keys().collect::<Vec<_>>(), first.keys().collect::<Vec<_>>());
    for (title, object) in &first {
        assert_eq!(back[title]["spec"], object["spec"], "{title}");
        for part in ["rules", "webhooks", "data"] {
            assert_eq!(back[title][part], object[part], "{title}");
        }
    }
    assert_eq!(authorities(&client).await, authority, "caBundle survives a rollback");

    // From here on, the API server calls the local server, since no Service leads to it.
    release.start_controller().await;
    point(&client, &server.url, &server.authority(&client).await).await;
    let is_created = async || create(&dynamic(&client, NEW, "SidecarSet", "sidecarsets"), &set("agent")).await.ok();
    until("a SidecarSet being admitted", SOON, is_created).await.unwrap();
    let probe = release.run_hook_beside("templates/tests/probe.yaml", "pillion-test").await;
    assert!(probe.contains("gets the container pillion-test"), "{probe}");
    let said = release.helm(&["test", "pillion"]);
    assert!(said.contains("Succeeded"), "{said}");

    // Removed, with a SidecarSet that stays, and with merged objects whose finalizers no controller would remove.
    create_merged(&client, "default").await;
    release.stop().await;
    release.restore_conversion(&client).await;
    let said = release.helm(&["uninstall", "pillion"]);
    assert!(said.contains("CustomResourceDefinition") && said.contains("kept due to the resource policy"), "{said}");
    let said = release.run_hook_beside("templates/hooks/uninstall.yaml", "pillion-uninstall").await;
    for wanted in [
        "no longer calls the Service pillion-system/pillion",
        "3 objects released, 3 deleted",
        "Secret pillion-system/pillion-serve-tls: deleted",
        "ConfigMap pillion-system/pillion-bundle: deleted",
        "Lease pillion-system/pillion-controller: deleted",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    for version in [NEW, OLD] {
        let read = async || dynamic(&client, version, "SidecarSet", "sidecarsets").get("agent").await.ok();
        let found = until("the SidecarSet being readable", SOON, read).await.unwrap();
        assert_eq!(found.data["spec"]["containers"][0]["image"], "agent:1");
    }
    let nothing_left = async || {
        let now = everything(&client).await;
        let left: Vec<_> = now.difference(&before).cloned().collect();
        let expected = [
            "APIService /v1alpha1.apps.kruise.io",
            "APIService /v1beta1.apps.kruise.io",
            "CustomResourceDefinition /sidecarsets.apps.kruise.io",
            "Namespace /pillion-system",
            "SidecarSet /agent",
        ];
        if left == expected { Ok(()) } else { Err(left) }
    };
    let done = until("everything being gone", SOON, async || nothing_left().await.ok()).await;
    assert!(done.is_ok(), "left: {:?}", nothing_left().await);

    // And again, over the definition that stayed.
    release.helm(&["install", "pillion", path(&chart())]);
    let definition = value(&definitions(&client), crd::NAME).await;
    assert_eq!(definition["spec"]["conversion"]["strategy"], "Webhook");
    assert_eq!(definition["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["name"], "pillion");
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// OpenKruise's definition is neither adopted nor changed, whatever happens to the release.
#[tokio::test(flavor = "multi_thread")]
async fn the_definition_of_openkruise_is_left_alone() {
    let cluster = Cluster::start(Options::new().nodes(1)).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let converted =
        json!({"service": {"name": "kruise-webhook-service", "namespace": "kruise-system", "path": "/convert"}});
    let mut theirs = crd::document("x", &crd::Conversion::Webhook(converted), &Value::Null).object;
    theirs["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
    theirs["metadata"]["annotations"] = json!({
        "controller-gen.kubebuilder.io/version": "v0.16.5",
        "meta.helm.sh/release-name": "kruise", "meta.helm.sh/release-namespace": "default",
    });
    apply(&client, &theirs.to_string(), "helm").await.unwrap();
    let content = async || {
        let mut definition = value(&definitions(&client), crd::NAME).await;
        definition.as_object_mut().unwrap().remove("status");
        definition["metadata"].as_object_mut().unwrap().remove("managedFields");
        definition["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        definition
    };
    let before = content().await;

    let release = Release::new(&cluster);
    let said = release.helm(&["install", "pillion", path(&chart()), "--create-namespace"]);
    assert!(said.contains("The cluster has a SidecarSet definition that this release did not make"), "{said}");
    assert!(!of_release(&client).await.keys().any(|title| title.starts_with("CustomResourceDefinition")));
    assert_eq!(content().await, before);
    release.helm(&["upgrade", "pillion", path(&chart()), "--set", "controller.replicas=1"]);
    assert_eq!(content().await, before);
    release.helm(&["uninstall", "pillion"]);
    let said = release.run_hook_beside("templates/hooks/uninstall.yaml", "pillion-uninstall").await;
    assert!(
        said.contains("left as it is: its conversion webhook calls the Service kruise-system/kruise-webhook-service"),
        "{said}"
    );
    assert_eq!(content().await, before);
}

/// With Kubewarden, there are policies instead of a server, and a change of the way removes the other one.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_changes_between_kubewarden_and_a_server() {
    let cluster = Cluster::start(Options::new().nodes(1)).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let (api_version, kind) = ("policies.kubewarden.io/v1", "ClusterAdmissionPolicy");
    apply(&client, &stand_in(api_version, kind, "Cluster").to_string(), "test").await.unwrap();
    let served = dynamic(&client, api_version, kind, "clusteradmissionpolicies");
    let is_served = async || served.list(&kube::api::ListParams::default()).await.ok();
    until("policies being served", SOON, is_served).await.unwrap();
    let release = Release::new(&cluster);
    let said =
        release.helm(&["install", "pillion", path(&chart()), "--create-namespace", "--set", "kubewarden.enabled=true"]);
    assert!(said.contains("Kubewarden loads the policies"), "{said}");
    let with_policies = of_release(&client).await;
    assert!(with_policies.contains_key("ClusterAdmissionPolicy /pillion-pods"), "{:?}", with_policies.keys());
    assert!(!with_policies.contains_key("Deployment pillion-system/pillion"));

    release.helm(&["upgrade", "pillion", path(&chart()), "--set", "kubewarden.enabled=false"]);
    let with_server = of_release(&client).await;
    assert!(with_server.contains_key("Deployment pillion-system/pillion"));
    assert!(!with_server.keys().any(|title| title.starts_with("ClusterAdmissionPolicy ")), "{:?}", with_server.keys());
    assert_eq!(value(&definitions(&client), crd::NAME).await["spec"]["conversion"]["strategy"], "Webhook");

    // The server that converted is gone, so the API server converts alone.
    release.helm(&["upgrade", "pillion", path(&chart()), "--set", "kubewarden.enabled=true"]);
    assert_eq!(value(&definitions(&client), crd::NAME).await["spec"]["conversion"]["strategy"], "None");
    let policy = Patch::Merge(json!({"metadata": {"labels": {"seen": "true"}}}));
    served.patch("pillion-pods", &PatchParams::default(), &policy).await.unwrap();
    release.helm(&["uninstall", "pillion"]);
    assert!(served.list(&kube::api::ListParams::default()).await.unwrap().items.is_empty());
    assert!(
        of_release(&client).await.keys().all(|title| title.starts_with("CustomResourceDefinition ")),
        "{NAMESPACE}"
    );
}
