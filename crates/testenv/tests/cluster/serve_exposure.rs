//! `serviceAccounts.exposure: Deny` and volumes under Pillion's names, through `pillion serve` (TOK-16, TOK-17).

use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use pillion_identity::names::token_secret;
use pillion_testenv::{Cluster, Options};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::support::{Installation, create, dry_run, names, pod};

/// SidecarSets for Pods with `app: web`: `logs` with an identity and volumes that the API server completes, and `eye`, for
/// Pods with `spied: yes`, whose container is privileged.
fn settings() -> Value {
    let logs = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "logs"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}}, "serviceAccountName": "logs",
            "containers": [{"name": "logs", "image": "logs:1", "volumeMounts": [
                {"name": "config", "mountPath": "/etc/logs"}, {"name": "spool", "mountPath": "/spool"},
                {"name": "node", "mountPath": "/node"}, {"name": "info", "mountPath": "/info"},
            ]}],
            "volumes": [
                {"name": "config", "configMap": {"name": "logs"}},
                {"name": "spool", "emptyDir": {"sizeLimit": "1024Mi"}},
                {"name": "node", "hostPath": {"path": "/var/log"}},
                {"name": "info", "projected": {"sources": [{"downwardAPI": {"items": [
                    {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}
                ]}}]}},
            ],
        }
    });
    json!({
        "sidecarSets": [logs],
        "featureGates": {"SidecarSetServiceAccountInjection": true},
        "serviceAccounts": {"exposure": "Deny"},
    })
}

async fn installation() -> &'static Installation<'static> {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static INSTALLATION: OnceCell<Installation<'_>> = OnceCell::const_new();
    let cluster = CLUSTER.get_or_init(async || Cluster::start(Options::new()).await.unwrap()).await;
    let live = ["--cache-max-staleness=0s"];
    INSTALLATION.get_or_init(async || Installation::start(cluster, &settings(), &[], &live).await).await
}

/// Returns the Pods of a new namespace that has the account.
async fn pods() -> Api<Pod> {
    let cluster = installation().await.cluster;
    let client = cluster.admin().await.unwrap();
    let namespace = cluster.namespace("exposure").await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
    create(&accounts, &json!({"metadata": {"name": "logs"}})).await.unwrap();
    Api::namespaced(client, &namespace)
}

fn web(spec: &Value) -> Value {
    let mut pod = pod(&json!({"metadata": {"name": "web", "labels": {"app": "web"}}}));
    json_patch::merge(&mut pod["spec"], spec);
    pod
}

async fn refused(pods: &Api<Pod>, pod: &Value) -> String {
    let object: Pod = serde_json::from_value(pod.clone()).unwrap();
    match pods.create(&dry_run(), &object).await {
        Err(kube::Error::Api(status)) => status.message.clone(),
        other => panic!("{other:?}"),
    }
}

/// The volumes of the SidecarSet are its own also after the API server completed them: the twin accepts the Pod.
#[tokio::test]
async fn tok16_a_pod_that_exposes_nothing_is_created() {
    let pods = pods().await;
    let stored = create(&pods, &web(&json!({}))).await.unwrap();
    assert_eq!(names(&stored, "/spec/containers"), ["logs", "app"]);
    assert_eq!(stored["spec"]["serviceAccountName"], "logs");

    // An ephemeral container of the running Pod.
    let debug = |context: &Value| json!({"spec": {"ephemeralContainers": [{"name": "debug", "image": "debug:1", "securityContext": context}]}});
    let added = async |context: &Value| {
        let params = PatchParams { dry_run: true, ..PatchParams::default() };
        pods.patch_subresource("ephemeralcontainers", "web", &params, &Patch::Strategic(debug(context))).await
    };
    added(&json!({"runAsUser": 1000})).await.unwrap();
    match added(&json!({"privileged": true})).await {
        Err(kube::Error::Api(status)) => assert!(
            status.message.contains(
                "spec.ephemeralContainers[0]: ephemeral container \"debug\" is privileged and can read the tokens of the sidecar \
                 \"logs\"; debug without it, or set serviceAccounts.exposure to Warn"
            ),
            "{status:?}"
        ),
        other => panic!("{other:?}"),
    }
    pods.delete("web", &DeleteParams::default().grace_period(0)).await.unwrap();
}

#[rstest]
#[case::shared_processes(json!({"shareProcessNamespace": true}), "spec.shareProcessNamespace: lets every container")]
#[case::the_nodes_processes(json!({"hostPID": true}), "spec.hostPID: lets every container")]
#[case::privileged(
    json!({"containers": [{"name": "app", "image": "app:1", "securityContext": {"privileged": true}}]}),
    "].securityContext: container \"app\" is privileged and can read the token"
)]
#[case::a_capability_of_an_init_container(
    json!({"initContainers": [{"name": "setup", "image": "s:1", "securityContext": {"capabilities": {"add": ["SYS_PTRACE"]}}}]}),
    "].securityContext: container \"setup\" has the capability SYS_PTRACE and can read the token"
)]
#[case::another_config(
    json!({"volumes": [{"name": "config", "configMap": {"name": "mine"}}]}),
    "volume \"config\" of the Pod replaces the one that this SidecarSet uses"
)]
#[case::another_folder(
    json!({"volumes": [{"name": "spool", "hostPath": {"path": "/tmp"}}]}),
    "volume \"spool\" of the Pod replaces the one that this SidecarSet uses"
)]
#[tokio::test]
async fn tok16_a_pod_that_exposes_the_token_is_refused(#[case] spec: Value, #[case] says: &str) {
    let message = refused(&pods().await, &web(&spec)).await;
    assert!(message.contains("SidecarSet \"logs\": spec.") && message.contains(says), "{message}");
}

/// In namespaces and for Pods that no SidecarSet matches.
#[rstest]
#[case::a_secret_to_come(json!({"volumes": [{"name": "v", "secret": {"secretName": token_secret("logs"), "optional": true}}]}))]
#[case::a_name(json!({"volumes": [{"name": "sidecarset-sa-0123456789abcdef", "emptyDir": {}}]}))]
#[case::a_variable(json!({"containers": [{"name": "app", "image": "app:1", "envFrom": [
    {"secretRef": {"name": token_secret("logs"), "optional": true}}
]}]}))]
#[tokio::test]
async fn tok17_a_pod_does_not_wait_for_a_token(#[case] spec: Value) {
    let mut pod = web(&spec);
    pod["metadata"]["labels"] = json!({"app": "other"});
    let message = refused(&pods().await, &pod).await;
    assert!(message.contains("sidecarset-"), "{message}");
}
