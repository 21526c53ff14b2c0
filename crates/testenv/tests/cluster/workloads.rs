//! With nodes, controllers and simulated kubelets, the workloads of users run.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use pillion_testenv::{Cluster, Options, apply, until};
use tokio::sync::OnceCell;

const PATIENCE: Duration = Duration::from_mins(2);

async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    CLUSTER.get_or_init(async || Cluster::start(Options::new().nodes(2)).await.unwrap()).await
}

#[tokio::test]
async fn a_deployment_reaches_running_on_the_nodes() {
    let cluster = cluster().await;
    let namespace = cluster.namespace("deployment").await.unwrap();
    let client = cluster.admin().await.unwrap();
    let manifest = format!(
        r"
apiVersion: apps/v1
kind: Deployment
metadata: {{name: app, namespace: {namespace}}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: a}}}}
  template:
    metadata: {{labels: {{app: a}}}}
    spec:
      initContainers:
        - {{name: setup, image: 'setup:1'}}
        - {{name: proxy, image: 'proxy:1', restartPolicy: Always}}
      containers:
        - {{name: app, image: 'app:1', resources: {{requests: {{cpu: 100m, memory: 1Gi}}}}}}
"
    );

    apply(&client, &manifest, "test").await.unwrap();

    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &namespace);
    let available = async || {
        let status = deployments.get("app").await.ok()?.status?;
        (status.available_replicas == Some(2)).then_some(())
    };
    until("the Deployment being available", PATIENCE, available).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        let (spec, status) = (pod.spec.unwrap(), pod.status.unwrap());
        assert_eq!(status.phase.as_deref(), Some("Running"));
        assert!(spec.node_name.unwrap().starts_with("node-"));
        assert!(status.pod_ip.unwrap().starts_with("10."));
        let state = |index: usize| status.init_container_statuses.as_ref().unwrap()[index].state.clone().unwrap();
        assert_eq!(state(0).terminated.unwrap().exit_code, 0);
        assert!(state(1).running.is_some());
    }
}

#[tokio::test]
async fn a_job_completes() {
    let cluster = cluster().await;
    let namespace = cluster.namespace("job").await.unwrap();
    let client = cluster.admin().await.unwrap();
    let manifest = format!(
        r"
apiVersion: batch/v1
kind: Job
metadata: {{name: once, namespace: {namespace}}}
spec:
  template:
    spec:
      restartPolicy: Never
      initContainers: [{{name: proxy, image: 'proxy:1', restartPolicy: Always}}]
      containers: [{{name: once, image: 'once:1'}}]
"
    );

    apply(&client, &manifest, "test").await.unwrap();

    let jobs: Api<Job> = Api::namespaced(client.clone(), &namespace);
    let complete = async || {
        let conditions = jobs.get("once").await.ok()?.status?.conditions?;
        conditions.into_iter().find(|condition| condition.type_ == "Complete" && condition.status == "True")
    };
    until("the Job being complete", PATIENCE, complete).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    let pod = pods.list(&ListParams::default()).await.unwrap().items.remove(0);
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Succeeded"));
}

#[tokio::test]
async fn a_deleted_pod_goes_and_what_nobody_owns_any_more_too() {
    let cluster = cluster().await;
    let namespace = cluster.namespace("deletion").await.unwrap();
    let client = cluster.admin().await.unwrap();
    let manifest = format!(
        r"
apiVersion: apps/v1
kind: ReplicaSet
metadata: {{name: app, namespace: {namespace}}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: a}}}}
  template:
    metadata: {{labels: {{app: a}}}}
    spec: {{containers: [{{name: app, image: 'app:1'}}]}}
---
apiVersion: v1
kind: Pod
metadata: {{name: alone, namespace: {namespace}}}
spec: {{containers: [{{name: app, image: 'app:1'}}]}}
"
    );
    apply(&client, &manifest, "test").await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let list = async || pods.list(&ListParams::default()).await.ok().map(|pods| pods.items);
    let running = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    let both = async || list().await.filter(|pods| pods.len() == 2 && pods.iter().all(running));
    until("two Pods running", PATIENCE, both).await.unwrap();

    pods.delete("alone", &DeleteParams::default()).await.unwrap();
    let sets: Api<k8s_openapi::api::apps::v1::ReplicaSet> = Api::namespaced(client, &namespace);
    sets.delete("app", &DeleteParams::background()).await.unwrap();

    until("no Pod being left", PATIENCE, async || list().await.filter(Vec::is_empty)).await.unwrap();
}

#[tokio::test]
async fn a_namespace_has_what_controllers_put_into_it() {
    let cluster = cluster().await;
    let namespace = cluster.labelled_namespace("labelled", [("team", "a")]).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(client.clone(), &namespace);

    let roots = async || maps.get("kube-root-ca.crt").await.ok()?.data?.remove("ca.crt");
    let certificate = until("the API server's certificate", PATIENCE, roots).await.unwrap();

    assert_eq!(certificate, cluster.authority_certificate());
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client);
    assert_eq!(namespaces.get(&namespace).await.unwrap().labels()["team"], "a");
}

#[tokio::test]
async fn as_many_nodes_join_as_were_asked_for() {
    let nodes: Api<Node> = Api::all(cluster().await.admin().await.unwrap());

    let nodes = nodes.list(&ListParams::default()).await.unwrap();

    assert_eq!(nodes.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["node-1", "node-2"]);
}
