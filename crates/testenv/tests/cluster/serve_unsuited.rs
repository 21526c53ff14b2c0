//! Pods of a real API server that a sidecar does not suit: what the API server makes of it, and what users are told
//! (INJ-30, INJ-31).

use http::Request;
use kube::Client;
use kube::client::Body;
use pillion_testenv::{Cluster, Options};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::support::{Installation, names, pod};

/// The answer to the creation of a Pod.
struct Answer {
    code: u16,
    /// The Pod, or the status that says why there is none.
    object: Value,
    warnings: Vec<String>,
}

/// Returns SidecarSets that each are for the Pods of one mode.
fn settings() -> Value {
    let set = |mode: &str, container: Value| {
        let mut sidecar = json!({"name": "agent", "image": "agent:1", "podInjectPolicy": "AfterAppContainer"});
        json_patch::merge(&mut sidecar, &container);
        json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": mode},
            "spec": {"selector": {"matchLabels": {"mode": mode}}, "containers": [sidecar]},
        })
    };
    let policy = json!({
        "targetContainersMode": "sum", "targetContainersNameRegex": ".*",
        "resourcesExpr": {"requests": {"cpu": "cpu*50%"}, "limits": {"cpu": "cpu*50%"}},
    });
    json!({"sidecarSets": [
        set("plain", json!({})),
        set("ports", json!({"ports": [{"containerPort": 8080}]})),
        set("linux", json!({"securityContext": {"capabilities": {"drop": ["ALL"]}}})),
        set("large", json!({"resources": {"limits": {"cpu": "2"}}})),
        set("computed", json!({ "resourcesPolicy": policy })),
    ]})
}

/// Creates a Pod of a mode with a dry run. `fields` are those of its spec.
async fn created(mode: &str, fields: &Value) -> Answer {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static INSTALLATION: OnceCell<Installation<'_>> = OnceCell::const_new();
    let cluster = CLUSTER.get_or_init(async || Cluster::start(Options::new()).await.unwrap()).await;
    INSTALLATION.get_or_init(async || Installation::start(cluster, &settings(), &[], &[]).await).await;
    let client: Client = cluster.admin().await.unwrap();
    let namespace = cluster.namespace("unsuited").await.unwrap();
    let pod = pod(&json!({"metadata": {"name": "p", "labels": {"mode": mode}}, "spec": fields}));
    let request = Request::post(format!("/api/v1/namespaces/{namespace}/pods?dryRun=All"));
    let request = request.header("content-type", "application/json").body(Body::from(pod.to_string().into_bytes()));
    let response = client.send(request.unwrap()).await.unwrap();
    let warnings = response.headers().get_all("warning").iter().map(|warning| warning.to_str().unwrap().to_owned());
    let (code, warnings) = (response.status().as_u16(), warnings.collect());
    let body = response.into_body().collect_bytes().await.unwrap();
    Answer { code, object: serde_json::from_slice(&body).unwrap(), warnings }
}

/// The API server makes the sidecar's port one of the node, as `shared/cases/host-network` says.
#[tokio::test]
async fn inj31_ports_of_a_sidecar_become_ports_of_the_node() {
    let Answer { code, object, warnings } = created("ports", &json!({"hostNetwork": true})).await;
    assert_eq!(code, 201, "{object:#}");
    assert_eq!(names(&object, "/spec/containers"), ["app", "agent"]);
    assert_eq!(object["spec"]["containers"][1]["ports"][0]["hostPort"], 8080);
    assert!(warnings.iter().any(|warning| warning.contains("become ports of the node")), "{warnings:?}");

    let Answer { object, warnings, .. } = created("ports", &json!({})).await;
    assert_eq!(object["spec"]["containers"][1]["ports"][0].get("hostPort"), None);
    assert_eq!(warnings, [""; 0]);
}

#[rstest]
#[case::that_ends(json!({"restartPolicy": "Never"}), "plain", "may keep the Pod (restartPolicy Never) from completing")]
#[case::for_windows(json!({"os": {"name": "windows"}}), "plain", "the Pod is for Windows")]
#[case::with_resources_of_its_own(
    json!({"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}), "computed",
    "resourcesPolicy does not count limits.cpu, requests.cpu of the Pod"
)]
#[tokio::test]
async fn inj31_a_pod_is_created_with_a_warning(#[case] spec: Value, #[case] mode: &str, #[case] expected: &str) {
    let Answer { code, object, warnings } = created(mode, &spec).await;
    assert_eq!(code, 201, "{object:#}");
    assert_eq!(names(&object, "/spec/containers"), ["app", "agent"]);
    assert!(warnings.iter().any(|warning| warning.contains(expected)), "{warnings:?}");
}

/// What `resourcesPolicy` computes where only the Pod has resources: requests from 0, and no limits.
#[tokio::test]
async fn inj31_expr2_resources_of_the_pod_are_not_counted() {
    let resources = json!({"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}});
    let Answer { object, .. } = created("computed", &resources).await;
    assert_eq!(object["spec"]["containers"][1]["resources"], json!({"requests": {"cpu": "0"}}), "{object:#}");
}

/// The message is the policy's, with the SidecarSet and the field, and not that of the API server's validation.
#[rstest]
#[case::windows(
    "linux", json!({"os": {"name": "windows"}}), "SidecarSet \"linux\": spec.containers[0].securityContext: container"
)]
#[case::a_port_of_the_node(
    "ports",
    json!({"hostNetwork": true, "containers": [{"name": "app", "image": "app:1", "ports": [{"containerPort": 8080}]}]}),
    "SidecarSet \"ports\": spec.containers[0].ports"
)]
#[case::more_than_the_pod(
    "large", json!({"resources": {"limits": {"cpu": "1"}}}), "SidecarSet \"large\": spec.containers[0].resources"
)]
#[tokio::test]
async fn inj30_a_pod_that_the_api_server_would_refuse_has_our_message(
    #[case] mode: &str,
    #[case] spec: Value,
    #[case] expected: &str,
) {
    let Answer { code, object, .. } = created(mode, &spec).await;
    let message = object["message"].as_str().unwrap_or_default();
    assert_eq!(code, 403, "{object:#}");
    assert!(message.contains("denied the request") && message.contains(expected), "{message}");
}
