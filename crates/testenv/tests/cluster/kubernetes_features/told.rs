//! What people are told about a cluster that is too old for a SidecarSet.

use std::fs;
use std::process::Command;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use pillion_install::rendering::crd;
use pillion_testenv::{Cluster, Options, apply, free_port, until};
use serde_json::{Value, json};

use crate::support::controllers::{Controllers, NAMESPACE};
use crate::support::{SOON, create, dynamic, minor, program};

/// A SidecarSet with a field that came with Kubernetes 1.35, or 1.34 with a feature gate, and one that came with 1.37.
fn set() -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "newer"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [{"name": "agent", "image": "agent:1", "env": [
                {"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "files", "path": "p", "key": "k"}}},
            ], "volumeMounts": [{"name": "files", "mountPath": "/files"}]}],
            "volumes": [{"name": "files", "emptyDir": {"mode": 511}}],
        },
    })
}

/// Returns a client of a cluster with the SidecarSet.
async fn scene(cluster: &Cluster) -> Client {
    let client = cluster.admin().await.unwrap();
    let definition = crd::document("pillion", &crd::Conversion::None, &Value::Null);
    apply(&client, &definition.to_yaml().unwrap(), "manifests").await.unwrap();
    let set = set().to_string();
    until("the definition being served", SOON, async || apply(&client, &set, "manifests").await.ok()).await.unwrap();
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn field4_check_tells_what_the_cluster_lacks() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    scene(&cluster).await;
    let settings = cluster.folder().join("check.settings.yaml");
    fs::write(&settings, "bundleRef: {namespace: pillion-system, name: sets}\n").unwrap();
    let mut command = Command::new(program());
    command.args(["check", "--cluster", "-o", "json", "--settings"]).arg(&settings);
    command.env("KUBECONFIG", cluster.admin_kubeconfig_file());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();

    let version = format!("1.{}", minor());
    let is_told = |path: &str, words: &str| {
        findings.iter().any(|finding| {
            finding["rule"] == "kubernetes-version"
                && finding["path"] == path
                && finding["message"].as_str().unwrap().contains(words)
        })
    };
    let env = "spec.containers[0].env[0].valueFrom.fileKeyRef";
    let absent = format!("this cluster has {version}");
    let gated = format!("in Kubernetes {version}");
    assert_eq!(is_told(env, &absent), minor() < 34, "{findings:#?}");
    assert_eq!(is_told(env, &gated), minor() == 34, "{findings:#?}");
    let mode = "spec.volumes[0].emptyDir.mode";
    assert_eq!(is_told(mode, &absent), minor() < 37, "{findings:#?}");
    assert_eq!(is_told(mode, &gated), minor() >= 37, "{findings:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn field5_a_sidecar_set_gets_a_condition_and_an_event() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let client = scene(&cluster).await;
    for name in [NAMESPACE, "kruise-system"] {
        create(&Api::<Namespace>::all(client.clone()), &json!({"metadata": {"name": name}})).await.unwrap();
    }
    let settings = json!({"bundleRef": {"namespace": NAMESPACE, "name": "sets"}});
    let controllers = Controllers::install(&cluster, &program(), &settings, &["--controllers", "bundle"]).await;
    controllers.start("one", free_port().unwrap()).await;
    let sets = dynamic(&client, "apps.kruise.io/v1beta1", "SidecarSet", "sidecarsets");
    let condition = async |type_: &str, status: &str| {
        let set = sets.get("newer").await.unwrap();
        let conditions = set.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|it| it["type"] == type_ && it["status"] == status)
    };
    let wait = async |type_: &str, status: &str| match until(type_, SOON, async || condition(type_, status).await).await
    {
        Ok(condition) => condition["message"].as_str().unwrap().to_owned(),
        Err(error) => panic!("{error}\n{}", cluster.log("one")),
    };

    wait("InBundle", "True").await;
    if minor() >= 37 {
        assert!(condition("KubernetesTooOld", "True").await.is_none(), "its gate may be on");
        return;
    }
    let message = wait("KubernetesTooOld", "True").await;
    let mode = "spec.volumes[0].emptyDir.mode: modes of emptyDir volumes need Kubernetes 1.37 with the feature gate \
                EmptyDirVolumeMode";
    assert!(message.contains(mode), "{message}");
    assert_eq!(message.contains("fileKeyRef"), minor() < 34, "{message}");
    let events: Api<Event> = Api::all(client.clone());
    let told = async || {
        let all = events.list(&ListParams::default()).await.unwrap();
        all.into_iter().find(|event| event.reason.as_deref() == Some("KubernetesTooOld"))
    };
    until("the Event", SOON, told).await.unwrap();

    let without = json!({"spec": {"containers": [{"name": "agent", "image": "agent:1"}], "volumes": []}});
    sets.patch("newer", &PatchParams::default(), &Patch::Merge(without)).await.unwrap();
    wait("KubernetesTooOld", "False").await;
}
