//! Pods of a real API server get their sidecars through `pillion serve`, and a second admission changes nothing.

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use pillion_testenv::{Cluster, Hook, Options, apply, until};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::support::{Installation, SOON, as_new, create, dry_run, log_agent, names, pod, webhook};

const HASH: &str = "kruise.io/sidecarset-hash";
const INJECTED: &str = "kruise.io/sidecarset-injected-list";

/// Returns the README's SidecarSet, and one for the namespaces of a team.
fn settings() -> Value {
    let mut settings = log_agent();
    settings["sidecarSets"].as_array_mut().unwrap().push(json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "team-agent"},
        "spec": {
            "selector": {"matchLabels": {"agent": "team"}},
            "namespaceSelector": {"matchLabels": {"team": "a"}},
            "containers": [{"name": "team-agent", "image": "team-agent:1"}],
        },
    }));
    settings
}

async fn installation() -> &'static Installation<'static> {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static INSTALLATION: OnceCell<Installation<'_>> = OnceCell::const_new();
    let cluster = CLUSTER.get_or_init(async || Cluster::start(Options::new().nodes(1)).await.unwrap()).await;
    INSTALLATION.get_or_init(async || Installation::start(cluster, &settings(), &[], &[]).await).await
}

fn labelled(name: &str, key: &str, value: &str) -> Value {
    pod(&json!({"metadata": {"name": name, "labels": {key: value}}}))
}

/// Checks that a Pod has the log agent.
fn assert_injected(stored: &Value) {
    assert_eq!(names(stored, "/spec/containers"), ["app", "log-agent"], "{stored:#}");
    assert!(names(stored, "/spec/volumes").contains(&"buffer".to_owned()), "{stored:#}");
    let sidecar = &stored["spec"]["containers"][1];
    assert_eq!(sidecar["image"], "fluent/fluent-bit:3.0");
    assert_eq!(sidecar["resources"]["limits"]["memory"], "128Mi");
    assert_eq!(names(sidecar, "/env"), ["NODE", "IS_INJECTED"]);
    let annotations = &stored["metadata"]["annotations"];
    assert_eq!(annotations[INJECTED], "log-agent");
    assert!(annotations[HASH].as_str().unwrap().contains("\"log-agent\""), "{annotations}");
}

/// Checks that creating the stored Pod again yields the same Pod.
async fn assert_stays(pods: &Api<Pod>, stored: &Value) {
    let wanted = as_new(stored);
    let mut again = wanted.clone();
    again["metadata"]["name"] = "again".into();
    again["metadata"].as_object_mut().unwrap().remove("generateName");
    let admitted = pods.create(&dry_run(), &serde_json::from_value(again).unwrap()).await.unwrap();
    let admitted = as_new(&serde_json::to_value(admitted).unwrap());
    assert_eq!(admitted["spec"], wanted["spec"]);
    assert_eq!(admitted["metadata"]["annotations"], wanted["metadata"]["annotations"]);
    assert_eq!(admitted["metadata"]["labels"], wanted["metadata"]["labels"]);
}

async fn running(pods: &Api<Pod>, name: &str) {
    let running = async || {
        let status = pods.get_status(name).await.ok()?.status?;
        let ready = status.container_statuses?.iter().all(|container| container.ready);
        (status.phase.as_deref() == Some("Running") && ready).then_some(())
    };
    until(&format!("Pod \"{name}\" running"), SOON, running).await.unwrap();
}

#[tokio::test]
async fn a_pod_runs_with_its_sidecar_and_others_without() {
    let cluster = installation().await.cluster;
    let namespace = cluster.namespace("pods").await.unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.admin().await.unwrap(), &namespace);

    let stored = create(&pods, &labelled("p-strip", "mode", "strip")).await.unwrap();
    assert_injected(&stored);
    running(&pods, "p-strip").await;
    assert_stays(&pods, &serde_json::to_value(pods.get("p-strip").await.unwrap()).unwrap()).await;

    let other = create(&pods, &labelled("other", "mode", "other")).await.unwrap();
    assert_eq!(names(&other, "/spec/containers"), ["app"]);
    assert_eq!(other["metadata"].get("annotations"), None);
}

/// SAP-6: neither the request nor the object has a name yet.
#[tokio::test]
async fn a_pod_without_a_name_yet_gets_its_sidecar() {
    let cluster = installation().await.cluster;
    let namespace = cluster.namespace("generated").await.unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.admin().await.unwrap(), &namespace);
    let unnamed = pod(&json!({"metadata": {"generateName": "job-", "labels": {"mode": "strip"}}}));

    let first = create(&pods, &unnamed).await.unwrap();
    let second = create(&pods, &unnamed).await.unwrap();

    assert_injected(&first);
    assert_injected(&second);
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
    assert_stays(&pods, &first).await;
}

/// kube-controller-manager creates the Pods of workloads; their templates stay unchanged.
#[tokio::test]
async fn pods_of_workloads_run_with_their_sidecars() {
    let cluster = installation().await.cluster;
    let namespace = cluster.namespace("workloads").await.unwrap();
    let client = cluster.admin().await.unwrap();
    let template = |app: &str, policy: &str| {
        json!({
            "metadata": {"labels": {"app": app, "mode": "strip"}},
            "spec": {"restartPolicy": policy, "containers": [{"name": "app", "image": "app:1"}]},
        })
    };
    let workload = |api_version: &str, kind: &str, spec: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "w", "namespace": namespace}, "spec": spec});
    let selector = |app: &str| json!({"matchLabels": {"app": app}});
    let workloads = [
        workload(
            "apps/v1",
            "Deployment",
            json!({
                "replicas": 2, "selector": selector("deployment"), "template": template("deployment", "Always"),
            }),
        ),
        workload(
            "apps/v1",
            "StatefulSet",
            json!({
                "replicas": 2, "serviceName": "w", "selector": selector("stateful"),
                "template": template("stateful", "Always"),
            }),
        ),
        workload("batch/v1", "Job", json!({"template": template("job", "Never")})),
    ];
    let manifest: Vec<String> = workloads.iter().map(Value::to_string).collect();
    let stored = apply(&client, &manifest.join("\n---\n"), "test").await.unwrap();
    for workload in &stored {
        let template = &workload.data["spec"]["template"];
        assert_eq!(names(template, "/spec/containers"), ["app"], "{:?}", workload.types);
    }

    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    for (app, count, phase) in [("deployment", 2, "Running"), ("stateful", 2, "Running"), ("job", 1, "Succeeded")] {
        let done = async || {
            let found = pods.list(&ListParams::default().labels(&format!("app={app}"))).await.ok()?.items;
            let is_done = |pod: &Pod| pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some(phase));
            (found.len() == count && found.iter().all(is_done)).then_some(found)
        };
        let found = until(&format!("{count} Pods of \"{app}\", {phase}"), 2 * SOON, done).await.unwrap();
        for pod in found {
            let pod = serde_json::to_value(pod).unwrap();
            assert_injected(&pod);
            assert_stays(&pods, &pod).await;
        }
    }
}

/// The labels of a namespace decide, and an added label affects the next Pod.
#[tokio::test]
async fn a_namespace_selector_goes_by_the_labels_of_the_namespace() {
    let cluster = installation().await.cluster;
    let client = cluster.admin().await.unwrap();
    let labelled_so = cluster.labelled_namespace("team-a", [("team", "a")]).await.unwrap();
    let otherwise = cluster.labelled_namespace("team-b", [("team", "b")]).await.unwrap();
    let unlabelled = cluster.namespace("teamless").await.unwrap();
    let created = async |namespace: &str| {
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let pod = serde_json::from_value(labelled("app", "agent", "team")).unwrap();
        let created = pods.create(&dry_run(), &pod).await;
        created.map(|created| names(&serde_json::to_value(created).unwrap(), "/spec/containers"))
    };
    let containers = async |namespace: &str| created(namespace).await.unwrap();

    assert_eq!(containers(&labelled_so).await, ["team-agent", "app"]);
    assert_eq!(containers(&otherwise).await, ["app"]);
    assert_eq!(containers(&unlabelled).await, ["app"]);

    let namespaces: Api<Namespace> = Api::all(client.clone());
    let label = Patch::Merge(json!({"metadata": {"labels": {"team": "a"}}}));
    namespaces.patch(&unlabelled, &PatchParams::default(), &label).await.unwrap();
    // The twin refuses a Pod if the server saw the change between the two webhooks.
    let seen = async || (created(&unlabelled).await.ok()?.len() == 2).then_some(());
    until("the label being seen", SOON, seen).await.unwrap();
}

/// The webhook's own selector: namespaces that a cluster needs to start do not depend on the server.
#[tokio::test]
async fn namespaces_of_the_system_are_left_alone() {
    let cluster = installation().await.cluster;
    let client = cluster.admin().await.unwrap();
    for namespace in ["kube-system", "pillion-system"] {
        // As restricted as the server's own Pods, because PodSecurity requires it in their namespace.
        let restricted = pod(&json!({
            "metadata": {"name": "app", "labels": {"mode": "strip"}},
            "spec": {
                "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{
                    "name": "app", "image": "app:1",
                    "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                }],
            },
        }));
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let stored = pods.create(&dry_run(), &serde_json::from_value(restricted).unwrap()).await.unwrap();
        assert_eq!(names(&serde_json::to_value(stored).unwrap(), "/spec/containers"), ["app"], "{namespace}");
    }
}

/// A webhook that runs after Pillion's: adds a container if it is absent.
fn late(request: &Value) -> Value {
    let is_there = names(&request["object"], "/spec/containers").iter().any(|name| name == "late");
    let add = json!([{"op": "add", "path": "/spec/containers/-", "value": {"name": "late", "image": "late:1"}}]);
    if is_there { json!({"allowed": true}) } else { json!({"allowed": true, "patch": add}) }
}

/// Returns the invocations of this webhook for the Pod of a namespace: the round, and whether it changed the Pod.
fn invocations(cluster: &Cluster, namespace: &str, webhook: &str) -> Vec<(String, bool)> {
    let is_meant = |event: &Value| {
        event["objectRef"]["namespace"] == namespace
            && event["verb"] == "create"
            && event["stage"] == "ResponseComplete"
    };
    let mut found = Vec::new();
    for event in cluster.audit_log().iter().filter(|event| is_meant(event)) {
        for (key, value) in event["annotations"].as_object().into_iter().flatten() {
            let Some(turn) = key.strip_prefix("mutation.webhook.admission.k8s.io/") else { continue };
            let said: Value = serde_json::from_str(value.as_str().unwrap()).unwrap();
            if said["webhook"] == webhook {
                found.push((turn.to_owned(), said["mutated"] == true));
            }
        }
    }
    found.sort();
    found
}

async fn wait_for_late(client: &Client, cluster: &Cluster) {
    let namespace = cluster.namespace("late").await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let asked = async || {
        let pod = serde_json::from_value(labelled("app", "mode", "other")).unwrap();
        let admitted = pods.create(&dry_run(), &pod).await.ok()?;
        (admitted.spec?.containers.len() == 2).then_some(())
    };
    until("the late webhook being asked", SOON, asked).await.unwrap();
}

/// `reinvocationPolicy: IfNeeded`: another webhook changed the Pod, so Pillion is called again, and changes nothing.
#[tokio::test]
async fn a_pod_that_a_later_webhook_changes_is_asked_about_again_and_stays() {
    let cluster = Cluster::start(Options::new().audit_log()).await.unwrap();
    let _installation = Installation::start(&cluster, &settings(), &[], &[]).await;
    let client = cluster.admin().await.unwrap();
    let (url, certificate) = webhook::server(late).await;
    // The API server calls webhooks in the order of their configurations' names.
    let hook = Hook::new("zz-late.test.pillion.dev", &url, &certificate).on("", "v1", "pods", &["CREATE"]);
    hook.create_mutating(&client).await.unwrap();
    wait_for_late(&client, &cluster).await;
    let namespace = cluster.namespace("reinvoked").await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client, &namespace);

    let stored = create(&pods, &labelled("app", "mode", "strip")).await.unwrap();

    assert_eq!(names(&stored, "/spec/containers"), ["app", "log-agent", "late"]);
    let seen = async || Some(invocations(&cluster, &namespace, "pods.pillion.dev")).filter(|turns| !turns.is_empty());
    let turns = until("the audit event", SOON, seen).await.unwrap();
    assert_eq!(turns, [("round_0_index_0".to_owned(), true), ("round_1_index_0".to_owned(), false)]);
}
