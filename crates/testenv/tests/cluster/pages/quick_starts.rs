//! The quick starts (docs/quickstart.md, docs/quickstart-standalone.md), from the installation of the chart to the way
//! back, and the proof that needs no kubelet. The blocks for a kubelet run in the module
//! `node_pages`, and on kind, in the workflow `quickstart.yml`.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;
use kube::api::ListParams;
use pillion_identity::names::token_secret;
use pillion_testenv::{Cluster, until};
use serde_json::{Value, json};

use super::node::Node;
use super::{INSTALLED, Reader, WAY_BACK, cluster, kubewarden};
use crate::support::SOON;
use crate::support::accounts::{bound_to, name_of};

const AGENT: &str = "system:serviceaccount:shop:log-agent";

/// Returns the Pod of the app.
async fn web(cluster: &Cluster) -> Value {
    let pods: Api<Pod> = Api::namespaced(cluster.admin().await.unwrap(), "shop");
    let mut found = pods.list(&ListParams::default().labels("app=web")).await.unwrap().items;
    assert_eq!(found.len(), 1, "{found:#?}");
    serde_json::to_value(found.remove(0)).unwrap()
}

fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let containers = pod["spec"]["containers"].as_array().unwrap();
    containers.iter().find(|container| container["name"] == name).unwrap()
}

/// Returns the volume behind the only mount of a container.
fn mounted<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let mounts = container(pod, name)["volumeMounts"].as_array().unwrap();
    assert_eq!(mounts.len(), 1, "{pod:#}");
    assert_eq!(mounts[0]["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount");
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    volumes.iter().find(|volume| volume["name"] == mounts[0]["name"]).unwrap()
}

#[tokio::test]
async fn the_quick_start_with_kubewarden_isolates_the_token_and_leaves_nothing_behind() {
    let cluster = cluster().await;
    kubewarden::install(&cluster).await;
    let (reader, mut node) = (Reader::start(&cluster).await, Node::cordoned(&cluster).await);
    let page = "docs/quickstart.md";
    let policies = async || kubewarden::has_policies(&cluster).await.then_some(());
    let installed = async {
        until("the policies", INSTALLED, policies).await.unwrap();
        kubewarden::serve(&cluster).await;
    };
    let (printed, ()) = tokio::join!(reader.read(page, &["--until", WAY_BACK], &mut node), installed);
    // Kubewarden, both ways to a cluster, and the two commands of the proof.
    assert!(printed.contains(" blocks ran, 5 were skipped"), "{printed}");

    // The app is what its author wrote.
    let client = cluster.admin().await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "shop");
    let deployment = serde_json::to_value(deployments.get("web").await.unwrap()).unwrap();
    let pod = web(&cluster).await;
    assert_eq!(container(&pod, "web"), &deployment["spec"]["template"]["spec"]["containers"][0]);
    assert_eq!(pod["spec"]["serviceAccountName"], "default");
    // The log agent mounts the Secret that the controller made, and its token is the log agent's.
    let sources = mounted(&pod, "log-agent")["projected"]["sources"].clone();
    assert_eq!(sources[0]["secret"]["name"], token_secret("log-agent"));
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "shop");
    let token = async || {
        let data = secrets.get_opt(&token_secret("log-agent")).await.unwrap()?.data?;
        String::from_utf8(data.get("token")?.0.clone()).ok()
    };
    let token = until("the token of the log agent", SOON, token).await.unwrap();
    assert_eq!(name_of(&cluster, &token).await.unwrap(), AGENT);

    reader.read(page, &["--from", WAY_BACK], &mut node).await;
    reader.leaves_nothing().await;
}

#[tokio::test]
async fn the_quick_start_without_kubewarden_takes_the_token_from_the_app_and_leaves_nothing_behind() {
    let cluster = cluster().await;
    let (reader, mut node) = (Reader::start(&cluster).await, Node::cordoned(&cluster).await);
    let page = "docs/quickstart-standalone.md";
    let printed = reader.read(page, &["--until", WAY_BACK], &mut node).await;
    // Both ways to a cluster, and the two commands of the proof.
    assert!(printed.contains(" blocks ran, 4 were skipped"), "{printed}");

    let pod = web(&cluster).await;
    assert_eq!(container(&pod, "web").get("volumeMounts"), None, "{pod:#}");
    assert_eq!(pod["spec"]["automountServiceAccountToken"], json!(false));
    let sources = &mounted(&pod, "log-agent")["projected"]["sources"];
    assert!(sources[0]["serviceAccountToken"].is_object(), "{sources:#}");
    let token = cluster.token("shop", "log-agent", &bound_to("Pod", &pod)).await.unwrap();
    assert_eq!(name_of(&cluster, &token).await.unwrap(), AGENT);

    reader.read(page, &["--from", WAY_BACK], &mut node).await;
    reader.leaves_nothing().await;
}

/// From a clone, the chart takes the place of the released one, and the quick start goes on.
#[tokio::test]
async fn the_chart_of_a_clone_takes_the_place_of_the_released_one() {
    let cluster = cluster().await;
    let (reader, mut node) = (Reader::start(&cluster).await, Node::cordoned(&cluster).await);
    let clone = ["--from", "Quick start without Kubewarden", "--until", "Quick start with Kubewarden"];
    reader.read("docs/from-source.md", &clone, &mut node).await;
    let page = "docs/quickstart-standalone.md";
    reader.read(page, &["--from", "3. A log agent", "--until", "5. The proof"], &mut node).await;
    assert!(mounted(&web(&cluster).await, "log-agent")["projected"].is_object());
    reader.read(page, &["--from", WAY_BACK], &mut node).await;
    reader.leaves_nothing().await;
}
