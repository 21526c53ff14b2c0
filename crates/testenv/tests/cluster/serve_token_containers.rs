//! Pods that give their token to some of their containers, through `pillion serve`, its twin and its watch of Namespaces, and
//! the API server's own admission of ServiceAccounts (TCN-1 to TCN-7, SAP-8).

use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use pillion_testenv::{Cluster, Options, until};
use serde_json::{Value, json};

use crate::support::{Installation, SOON, create, dry_run, pod};

const TOKEN_CONTAINERS: &str = "pillion.dev/token-containers";
const PLACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Returns a Pod of two containers, with these annotations and fields of its spec.
fn web(annotations: &Value, spec: &Value) -> Pod {
    let metadata = json!({"name": "web", "labels": {"app": "web"}, "annotations": annotations});
    let mut pod = pod(&json!({"metadata": metadata}));
    let container = pod["spec"]["containers"][0].clone();
    let mut proxy = container.clone();
    proxy["name"] = "proxy".into();
    pod["spec"]["containers"] = json!([container, proxy]);
    pod["spec"]["serviceAccountName"] = "web".into();
    json_patch::merge(&mut pod["spec"], spec);
    serde_json::from_value(pod).unwrap()
}

/// Returns the containers with a mount in the place of the token.
fn holders(pod: &Pod) -> Vec<&str> {
    let containers = pod.spec.as_ref().unwrap().containers.iter();
    let holds = containers.filter(|container| {
        container.volume_mounts.as_ref().is_some_and(|mounts| mounts.iter().any(|mount| mount.mount_path == PLACE))
    });
    holds.map(|container| container.name.as_str()).collect()
}

#[tokio::test]
async fn tcn4_the_api_server_gives_the_token_to_the_named_container_alone() {
    let cluster = Cluster::start(Options::new().audit_log()).await.unwrap();
    let settings = json!({
        "serviceAccounts": {"tokenContainers": {"namespaces": true}},
        "featureGates": {"SidecarSetServiceAccountInjection": true},
    });
    Installation::start(&cluster, &settings, &[], &[]).await;
    let client = cluster.admin().await.unwrap();
    let name = cluster.namespace("token-containers").await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &name);
    create(&accounts, &json!({"metadata": {"name": "web"}})).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &name);
    let made = async |pod: &Pod| pods.create(&dry_run(), pod).await;

    assert_eq!(holders(&made(&web(&json!({}), &json!({}))).await.unwrap()), ["app", "proxy"]);
    let app = json!({TOKEN_CONTAINERS: "app"});
    assert_eq!(holders(&made(&web(&app, &json!({}))).await.unwrap()), ["app"]);
    // The annotation gives the token where automounting is off, too.
    let off = json!({"automountServiceAccountToken": false});
    assert_eq!(holders(&made(&web(&app, &off)).await.unwrap()), ["app"]);
    assert_eq!(holders(&made(&web(&json!({TOKEN_CONTAINERS: ""}), &json!({}))).await.unwrap()), [""; 0]);

    let mut stored = web(&app, &json!({}));
    stored.metadata.name = Some("stored".to_owned());
    let stored = pods.create(&PostParams::default(), &stored).await.unwrap();
    assert_eq!(holders(&stored), ["app"]);
    let told = |event: &Value| {
        let annotations = event["annotations"].as_object();
        annotations
            .is_some_and(|all| all.iter().any(|(key, value)| key.ends_with("/token-containers") && value == "app"))
    };
    until("the audit event", SOON, async || cluster.audit_log().iter().any(told).then_some(())).await.unwrap();

    // Through a volume of its own, another container does not get it.
    let further = json!({
        "containers": [{"name": "app", "image": "i:1"}, {"name": "proxy", "image": "i:1", "volumeMounts": [
            {"name": "mine", "mountPath": "/mine"}
        ]}],
        "volumes": [{"name": "mine", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
    });
    let refused = made(&web(&app, &further)).await.unwrap_err().to_string();
    assert!(refused.contains("container \"proxy\" mounts a token of \"web\""), "{refused}");

    // The server follows the annotation of the Namespace.
    let namespaces: Api<Namespace> = Api::all(client);
    let annotate = async |value: Value| {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {TOKEN_CONTAINERS: value}}}));
        namespaces.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    };
    annotate("proxy".into()).await;
    // The twin refuses a Pod if the server saw the change between the two webhooks.
    let of_namespace = async || {
        let made = made(&web(&json!({}), &json!({}))).await.ok()?;
        (holders(&made) == ["proxy"]).then_some(())
    };
    until("the annotation of the Namespace counting", SOON, of_namespace).await.unwrap();
    assert_eq!(holders(&made(&web(&app, &json!({}))).await.unwrap()), ["app"]);
    annotate(Value::Null).await;
    let as_before = async || {
        let made = made(&web(&json!({}), &json!({}))).await.ok()?;
        (holders(&made) == ["app", "proxy"]).then_some(())
    };
    until("the token being everywhere again", SOON, as_before).await.unwrap();
}
