//! An upgrade from the module and the chart of an earlier commit, which `testenv/earlier` has built.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde_json::Value;

use super::node::Node;
use super::{Reader, WAY_BACK, cluster};
use crate::support::built;

const QUICK_START: &str = "docs/quickstart-standalone.md";
/// Adds a Pod, and shows the containers of all Pods of the app.
const SCALE: &str = "kubectl --namespace shop scale deployment/web --replicas 2 && \
                     kubectl --namespace shop rollout status deployment/web --timeout 5m";

/// Returns the containers of the app's Pods by the names of the Pods.
async fn containers(cluster: &pillion_testenv::Cluster) -> Vec<(String, Value)> {
    let pods: Api<Pod> = Api::namespaced(cluster.admin().await.unwrap(), "shop");
    let found = pods.list(&ListParams::default().labels("app=web")).await.unwrap().items;
    let mut all: Vec<(String, Value)> = found
        .into_iter()
        .map(|pod| {
            let name = pod.metadata.name.clone().unwrap();
            (name, serde_json::to_value(pod).unwrap()["spec"]["containers"].take())
        })
        .collect();
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    all
}

#[tokio::test]
async fn an_installation_of_an_earlier_commit_is_upgraded_and_pods_keep_their_sidecars() {
    // The script builds nothing if the history does not have the commit.
    let (Some(module), Some(chart)) = (built("earlier/module.wasm"), built("earlier/chart")) else {
        eprintln!("skipped: testenv/earlier has not built the module of an earlier commit");
        return;
    };
    let cluster = cluster().await;
    let (reader, mut node) = (Reader::start(&cluster).await, Node::cordoned(&cluster).await);
    node.with_server_flags(vec![format!("--module={}", module.display())]);
    let install = format!(
        "helm install pillion {} --namespace pillion-system --create-namespace \
         --set settings.featureGates.SidecarSetServiceAccountInjection=true --wait --timeout 5m",
        chart.display()
    );
    reader.type_in(&install, &mut node).await;
    reader.read(QUICK_START, &["--from", "3. A log agent", "--until", "5. The proof"], &mut node).await;
    let before = containers(&cluster).await;
    assert_eq!(before.len(), 1);

    node.with_server_flags(Vec::new());
    // Another tag, as another version has: the Deployments replace their Pods.
    let upgrade = "helm upgrade pillion ./charts/pillion --namespace pillion-system --reset-then-reuse-values \
                   --set image.tag=v0.1.1 --wait --timeout 5m";
    reader.type_in(upgrade, &mut node).await;
    reader.type_in(SCALE, &mut node).await;
    let after = containers(&cluster).await;
    assert_eq!(after.len(), 2);
    assert!(after.contains(&before[0]), "a running Pod changed: {before:#?}\n{after:#?}");
    let names = |containers: &Value| -> Vec<String> {
        let all = containers.as_array().unwrap();
        all.iter().map(|container| container["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&after[0].1), ["log-agent", "web"]);
    assert_eq!(names(&after[1].1), ["log-agent", "web"]);
    // The rest of the page works as after an installation.
    reader.read(QUICK_START, &["--from", "6. A Pod that is refused", "--until", WAY_BACK], &mut node).await;
    reader.read(QUICK_START, &["--from", WAY_BACK], &mut node).await;
    reader.leaves_nothing().await;
}
