use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use pillion_testenv::{Cluster, Options};
use serde_json::json;

use crate::support::node::shell::Shell;
use crate::support::node::{self, APP};
use crate::support::{create, pod};

#[tokio::test]
async fn a_container_runs_and_finds_the_api_server_as_in_every_cluster() {
    let cluster = Cluster::start(Options::new().real_nodes(1).image(node::app())).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let namespace = cluster.namespace("shop").await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let web = pod(&json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "app", "image": APP}]}}));
    create(&pods, &web).await.unwrap();

    node::ready(&client, &namespace, "web").await;

    let app = Shell { cluster: &cluster, namespace: &namespace, pod: "web", container: "app" };
    assert_eq!(app.run("cat /version").await, APP);
    assert_eq!(app.user().await, format!("system:serviceaccount:{namespace}:default"));
    let refused = app.try_run("kubectl get secrets").await.unwrap_err();
    assert!(refused.contains("is forbidden"), "{refused}");
}
