//! Containers of SidecarSets that become native sidecars, on a real API server (NAT-1 to NAT-4).

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;
use pillion_testenv::{Cluster, Options};
use pillion_testkit::identity::Accounts;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::support::accounts::set_up;
use crate::support::{Installation, as_new, create, names, pod};

/// Returns settings in which every SidecarSet is for the Pods of its own label.
fn settings() -> Value {
    let set = |name: &str, native: Option<&str>, more: Value| {
        let mut set = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": {"mode": name}},
                "containers": [{
                    "name": "agent", "image": "agent:1", "podInjectPolicy": "AfterAppContainer",
                    "ports": [{"containerPort": 8080}],
                    "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
                    "readinessProbe": {"tcpSocket": {"port": 8080}},
                    "lifecycle": {"preStop": {"exec": {"command": ["sync"]}}},
                    "volumeMounts": [{"name": "logs", "mountPath": "/logs"}],
                }],
                "volumes": [{"name": "logs", "emptyDir": {}}],
            },
        });
        if let Some(native) = native {
            set["metadata"]["annotations"] = json!({"pillion.dev/native": native});
        }
        json_patch::merge(&mut set, &more);
        set
    };
    let isolated = json!({"spec": {"serviceAccountName": "agent", "serviceAccountMode": "Isolate"}});
    json!({
        "sidecarSets": [
            set("setting", None, json!({})),
            set("off", Some("Off"), json!({})),
            set("always", Some("Always"), json!({})),
            set("isolated", None, isolated),
        ],
        "nativeSidecars": "EndingPods",
        "featureGates": {"SidecarSetServiceAccountInjection": true},
    })
}

async fn pods() -> Api<Pod> {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static INSTALLATION: OnceCell<Installation<'_>> = OnceCell::const_new();
    let cluster = CLUSTER.get_or_init(async || Cluster::start(Options::new()).await.unwrap()).await;
    INSTALLATION.get_or_init(async || Installation::start(cluster, &settings(), &[], &[]).await).await;
    let client = cluster.admin().await.unwrap();
    let namespace = cluster.namespace("native").await.unwrap();
    set_up(&client, &namespace, &Accounts::named(&["agent", "app"])).await;
    Api::namespaced(client, &namespace)
}

fn pod_of(mode: &str, restart_policy: &str) -> Value {
    pod(&json!({
        "metadata": {"name": "p", "labels": {"mode": mode}},
        "spec": {"restartPolicy": restart_policy, "serviceAccountName": "app"},
    }))
}

#[rstest]
#[case::that_ends("setting", "Never", true)]
#[case::that_is_tried_again("setting", "OnFailure", true)]
#[case::that_does_not_end("setting", "Always", false)]
#[case::that_ends_without_the_annotation("off", "Never", false)]
#[case::that_does_not_end_with_always("always", "Always", true)]
#[case::that_ends_with_an_identity("isolated", "Never", true)]
#[tokio::test]
async fn nat1_nat2_the_api_server_stores_the_form_of_the_pod(
    #[case] mode: &str,
    #[case] restart_policy: &str,
    #[case] native: bool,
) {
    let pods = pods().await;
    let stored = create(&pods, &pod_of(mode, restart_policy)).await.unwrap_or_else(|error| panic!("{error}"));
    let (list, other) = if native { ("initContainers", "containers") } else { ("containers", "initContainers") };
    assert!(names(&stored, &format!("/spec/{list}")).contains(&"agent".to_owned()), "{stored:#}");
    assert!(!names(&stored, &format!("/spec/{other}")).contains(&"agent".to_owned()), "{stored:#}");
    let agents = stored["spec"][list].as_array().unwrap();
    let agent = agents.iter().find(|container| container["name"] == "agent").unwrap();
    let restart = if native { json!("Always") } else { Value::Null };
    assert_eq!(agent["restartPolicy"], restart);
    for field in ["ports", "readinessProbe", "lifecycle", "resizePolicy"] {
        assert!(!agent[field].is_null(), "the API server dropped {field}: {agent:#}");
    }
    let token = names(agent, "/volumeMounts").iter().any(|mount| mount.starts_with("sidecarset-sa-"));
    assert_eq!(token, mode == "isolated", "{agent:#}");
}

/// NAT-4: a Pod that is made from a stored one has its sidecars already, whatever their form.
#[rstest]
#[case::in_the_same_form("Never", "Never", "initContainers")]
#[case::now_a_container("Never", "Always", "containers")]
#[case::now_a_native_sidecar("Always", "Never", "initContainers")]
#[tokio::test]
async fn nat4_a_pod_made_from_a_stored_one_has_each_sidecar_once(
    #[case] before: &str,
    #[case] after: &str,
    #[case] list: &str,
) {
    let pods = pods().await;
    for mode in ["setting", "isolated"] {
        let stored = create(&pods, &pod_of(mode, before)).await.unwrap();
        let mut again = as_new(&stored);
        again["metadata"]["name"] = format!("again-{mode}").into();
        again["spec"]["restartPolicy"] = after.into();
        let stored = create(&pods, &again).await.unwrap_or_else(|error| panic!("{mode}: {error}"));
        pods.delete("p", &DeleteParams::default()).await.unwrap();
        let all = [names(&stored, "/spec/initContainers"), names(&stored, "/spec/containers")].concat();
        assert_eq!(all.iter().filter(|name| *name == "agent").count(), 1, "{mode}: {stored:#}");
        assert!(names(&stored, &format!("/spec/{list}")).contains(&"agent".to_owned()), "{mode}: {stored:#}");
    }
}
