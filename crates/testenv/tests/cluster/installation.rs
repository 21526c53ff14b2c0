//! Commands find the installation in a cluster, whatever its name and its namespaces are.

use std::fs;
use std::process::Command;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use pillion_install::rendering::crd;
use pillion_testenv::{Cluster, Options, apply, until};
use serde_json::{Value, json};

use crate::support::{SOON, create, dynamic, program};

/// What `pillion manifest controller` renders, as it is, says where the revisions of a SidecarSet are.
#[tokio::test(flavor = "multi_thread")]
async fn revisions_are_found_in_the_system_namespace_of_the_installation() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let pillion = |args: &[&str]| {
        let mut command = Command::new(program());
        command.args(args).current_dir(cluster.folder()).env("KUBECONFIG", cluster.admin_kubeconfig_file());
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    let (code, _, err) = pillion(&["rollout", "history", "agent"]);
    assert_eq!((code, err.starts_with("error: the cluster does not serve SidecarSets")), (2, true), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");

    let definition = crd::document("pillion", &crd::Conversion::None, &Value::Null);
    apply(&client, &definition.to_yaml().unwrap(), "test").await.unwrap();
    let sets = dynamic(&client, "apps.kruise.io/v1beta1", "SidecarSet", "sidecarsets");
    let set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "agent", "image": "agent:1"}]},
    });
    let made = until("SidecarSets being served", SOON, async || create(&sets, &set).await.ok()).await.unwrap();

    let namespaces = Api::<Namespace>::all(client.clone());
    for name in ["ops", "kruise-system"] {
        create(&namespaces, &json!({"metadata": {"name": name}})).await.unwrap();
    }
    fs::write(cluster.folder().join("settings.yaml"), "systemNamespace: ops\n").unwrap();
    let flags = ["--settings", "settings.yaml", "--name", "sidecars", "--namespace", "sidecars-system"];
    let manifest = [&["manifest", "controller", "--controllers", "sidecarset-rollout"][..], &flags].concat();
    let (code, manifest, err) = pillion(&manifest);
    assert_eq!(code, 0, "{err}");
    apply(&client, &manifest, "kubectl").await.unwrap();
    let revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
        "metadata": {
            "name": "agent-1", "namespace": "ops", "labels": {"kruise.io/sidecarset-name": "agent"},
            "ownerReferences": [{
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "name": "agent", "controller": true,
                "uid": made["metadata"]["uid"],
            }],
        },
        "data": {"spec": {"$patch": "replace", "containers": [{"name": "agent", "image": "agent:0"}]}},
    });
    apply(&client, &revision.to_string(), "test").await.unwrap();

    let (code, out, err) = pillion(&["rollout", "history", "agent"]);
    assert_eq!((code, err.as_str(), out.contains("agent-1")), (0, "", true), "{out}");
    let (code, _, err) = pillion(&["rollout", "undo", "agent"]);
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = pillion(&["rollout", "history", "agent", "--system-namespace", "kruise-system"]);
    assert_eq!((code, err.contains("no revisions in namespace \"kruise-system\"")), (0, true), "{err}");
}
