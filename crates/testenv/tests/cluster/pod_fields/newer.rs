//! Pods and SidecarSets with the fields that Kubernetes got since 1.33.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::{Api, Client};
use pillion_testkit::identity::Accounts;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::cluster;
use crate::support::accounts::set_up;
use crate::support::{Installation, as_new, names};

/// The volume that a container uses without a mount.
const FILES: &str = "files";

/// Fields that came with one version of Kubernetes: of a container, of its volumes and of the Pod.
struct Newer {
    since: u32,
    last: u32,
    container: Value,
    volumes: Value,
    pod: Value,
}

/// Returns the fields, each with the versions that have it.
fn all() -> Vec<Newer> {
    let nothing = || Newer { since: 0, last: u32::MAX, container: json!({}), volumes: json!([]), pod: json!({}) };
    let certificate =
        json!({"signerName": "example.com/sidecars", "keyType": "ED25519", "credentialBundlePath": "bundle.pem"});
    vec![
        Newer {
            since: 34,
            container: json!({
                "restartPolicy": "Never",
                "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}],
                "env": [{"name": "MODE", "valueFrom": {"fileKeyRef": {
                    "volumeName": FILES, "path": "app.env", "key": "MODE", "optional": true,
                }}}],
            }),
            volumes: json!([
                {"name": FILES, "emptyDir": {}},
                {"name": "certificate", "projected": {"sources": [{"podCertificate": certificate}]}},
            ]),
            pod: json!({"hostnameOverride": "app.example.com"}),
            ..nothing()
        },
        Newer {
            since: 35,
            volumes: json!([{"name": "annotated", "projected": {"sources": [{"podCertificate": {
                "signerName": "example.com/sidecars", "keyType": "ED25519", "credentialBundlePath": "bundle.pem",
                "userAnnotations": {"example.com/zone": "a"},
            }}]}}]),
            ..nothing()
        },
        Newer {
            since: 35,
            last: 35,
            pod: json!({"workloadRef": {"name": "training", "podGroup": "workers"}}),
            ..nothing()
        },
        Newer { since: 36, pod: json!({"schedulingGroup": {"podGroupName": "workers"}}), ..nothing() },
        Newer {
            since: 37,
            container: json!({
                "livenessProbe": {"httpGet": {"port": 80, "protocol": "HTTP2"}},
                "readinessProbe": {"grpc": {"port": 81, "mode": "TLS"}},
            }),
            volumes: json!([
                {"name": "owned", "projected": {"defaultUser": 1000, "sources": [
                    {"configMap": {"name": "settings", "items": [{"key": "a", "path": "a", "user": 1001}]}},
                    {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}, "user": 1001}]}},
                ]}},
                {"name": "secret", "secret": {"secretName": "settings", "defaultUser": 1000}},
                {"name": "map", "configMap": {"name": "settings", "defaultUser": 1000}},
                {"name": "labels", "downwardAPI": {"defaultUser": 1000}},
                {"name": "cache", "emptyDir": {"mode": 0o1777}},
            ]),
            ..nothing()
        },
    ]
}

/// Returns what this version has of all fields: of a container, of its volumes and of the Pod.
pub(super) fn fields_of(minor: u32) -> (Value, Vec<Value>, Value) {
    let (mut container, mut volumes, mut pod) = (json!({}), Vec::new(), json!({}));
    for newer in all().into_iter().filter(|newer| (newer.since..=newer.last).contains(&minor)) {
        json_patch::merge(&mut container, &newer.container);
        volumes.extend(newer.volumes.as_array().unwrap().iter().cloned());
        json_patch::merge(&mut pod, &newer.pod);
    }
    // A SidecarSet brings the volumes that its sidecars use.
    let mount = |volume: &Value| {
        let name = volume["name"].as_str().unwrap();
        let mut mount = json!({"name": name, "mountPath": format!("/volumes/{name}")});
        if minor >= 37 {
            mount["bindMountOptions"] = json!(["noexec", "nosuid"]);
        }
        mount
    };
    let mounts: Vec<Value> = volumes.iter().filter(|volume| volume["name"] != FILES).map(mount).collect();
    if !volumes.is_empty() {
        container["volumeMounts"] = json!(mounts);
    }
    (container, volumes, pod)
}

/// Returns a container with all fields, and a name and an image.
pub(super) fn container(minor: u32, name: &str) -> Value {
    let (mut container, ..) = fields_of(minor);
    json_patch::merge(&mut container, &json!({"name": name, "image": "app:1"}));
    container
}

/// Asserts that a stored object has everything that was written: lists have the same items, named ones in any order.
pub(super) fn assert_kept(written: &Value, stored: &Value, path: &str) {
    match (written, stored) {
        (Value::Object(written), Value::Object(stored)) => {
            for (key, value) in written {
                let there = stored.get(key).unwrap_or_else(|| panic!("{path}.{key} is lost"));
                assert_kept(value, there, &format!("{path}.{key}"));
            }
        }
        (Value::Array(written), Value::Array(stored)) if written.iter().all(|item| item["name"].is_string()) => {
            for item in written {
                let there = stored.iter().find(|there| there["name"] == item["name"]);
                let there = there.unwrap_or_else(|| panic!("{path}[{}] is lost", item["name"]));
                assert_kept(item, there, &format!("{path}[{}]", item["name"]));
            }
        }
        (Value::Array(written), Value::Array(stored)) => {
            assert_eq!(written.len(), stored.len(), "{path}");
            for (index, (written, stored)) in written.iter().zip(stored).enumerate() {
                assert_kept(written, stored, &format!("{path}[{index}]"));
            }
        }
        _ => assert_eq!(written, stored, "{path}"),
    }
}

/// Whether a volume has a certificate of the Pod's account, which a SidecarSet with an identity may not bring (E19).
fn is_certificate(volume: &Value) -> bool {
    volume["projected"]["sources"]
        .as_array()
        .is_some_and(|sources| sources.iter().any(|source| source.get("podCertificate").is_some()))
}

/// Returns a container without the mounts of certificates.
fn with_identity(mut container: Value) -> Value {
    if let Some(mounts) = container.get_mut("volumeMounts").and_then(Value::as_array_mut) {
        mounts.retain(|mount| !["certificate", "annotated"].contains(&mount["name"].as_str().unwrap()));
    }
    container
}

fn settings(minor: u32) -> Value {
    let (_, volumes, _) = fields_of(minor);
    let set = |name: &str, more: Value| {
        let mut set = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": {"sidecar": name}},
                "containers": [container(minor, "agent")],
                "volumes": volumes,
            },
        });
        json_patch::merge(&mut set, &more);
        set
    };
    let isolated = json!({"spec": {
        "serviceAccountName": "agent", "serviceAccountMode": "Isolate",
        "containers": [with_identity(container(minor, "agent"))],
        "volumes": volumes.iter().filter(|volume| !is_certificate(volume)).collect::<Vec<_>>(),
    }});
    json!({
        "sidecarSets": [set("plain", json!({})), set("isolated", isolated)],
        "featureGates": {"SidecarSetServiceAccountInjection": true},
    })
}

/// Returns a client, a namespace and the minor version of the cluster, on which Pillion is installed.
async fn place() -> (Client, String, u32) {
    static INSTALLATION: OnceCell<Installation<'_>> = OnceCell::const_new();
    let (cluster, minor) = cluster().await;
    INSTALLATION.get_or_init(async || Installation::start(cluster, &settings(minor), &[], &[]).await).await;
    let client = cluster.admin().await.unwrap();
    let namespace = cluster.namespace("fields").await.unwrap();
    set_up(&client, &namespace, &Accounts::named(&["agent", "app"])).await;
    (client, namespace, minor)
}

/// Creates a Pod. The types of the client library lack the newest fields.
pub(super) async fn create(client: &Client, namespace: &str, pod: &Value) -> Value {
    let pods: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<Pod>(&()));
    let object = serde_json::from_value(pod.clone()).unwrap();
    let stored = pods.create(&PostParams::default(), &object).await.unwrap_or_else(|error| panic!("{error}"));
    serde_json::to_value(stored).unwrap()
}

fn pod(minor: u32, sidecar: &str, container: &Value) -> Value {
    let (_, volumes, spec) = fields_of(minor);
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "app", "labels": {"sidecar": sidecar}},
        "spec": {"serviceAccountName": "app", "containers": [container]},
    });
    if container.get("volumeMounts").is_some() {
        pod["spec"]["volumes"] = json!(volumes);
    }
    json_patch::merge(&mut pod["spec"], &spec);
    pod
}

#[rstest]
#[case::without_a_sidecar("none")]
#[case::with_a_sidecar("plain")]
#[case::with_an_identity("isolated")]
#[tokio::test]
async fn field2_the_app_keeps_every_field(#[case] sidecar: &str) {
    let (client, namespace, minor) = place().await;
    let written = pod(minor, sidecar, &container(minor, "app"));
    let stored = create(&client, &namespace, &written).await;
    assert_kept(&written["spec"], &stored["spec"], "spec");
}

#[rstest]
#[case::plain("plain")]
#[case::with_an_identity("isolated")]
#[tokio::test]
async fn field2_field3_a_sidecar_gets_every_field_and_is_known_again(#[case] sidecar: &str) {
    let (client, namespace, minor) = place().await;
    let app = json!({"name": "app", "image": "app:1"});
    let stored = create(&client, &namespace, &pod(minor, sidecar, &app)).await;
    let (_, mut volumes, _) = fields_of(minor);
    let mut agent = container(minor, "agent");
    if sidecar == "isolated" {
        volumes.retain(|volume| !is_certificate(volume));
        agent = with_identity(agent);
    }
    assert_kept(&json!([agent]), &stored["spec"]["containers"], "spec.containers");
    assert_kept(&json!(volumes), &stored["spec"]["volumes"], "spec.volumes");

    let mut again = as_new(&stored);
    again["metadata"]["name"] = "again".into();
    let twice = create(&client, &namespace, &again).await;
    assert_eq!(names(&twice, "/spec/containers"), names(&stored, "/spec/containers"));
    assert_eq!(twice["spec"], stored["spec"]);
}
