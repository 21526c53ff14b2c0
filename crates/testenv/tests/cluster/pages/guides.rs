//! A stranger's path with Helm: the README's installation, what `helm install` says, the guides, and the removal.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use pillion_identity::names::token_secret;
use serde_json::Value;

use super::node::Node;
use super::{Reader, cluster};

/// The heading of the README behind which Pillion is installed.
const INSTALL: &str = "Install it";

/// Returns the first Pod of a namespace with this label.
async fn pod(cluster: &pillion_testenv::Cluster, namespace: &str, label: &str) -> Value {
    let pods: Api<Pod> = Api::namespaced(cluster.admin().await.unwrap(), namespace);
    let mut found = pods.list(&ListParams::default().labels(label)).await.unwrap().items;
    serde_json::to_value(found.remove(0)).unwrap()
}

fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let containers = pod["spec"]["containers"].as_array().unwrap();
    containers.iter().find(|container| container["name"] == name).unwrap()
}

#[tokio::test]
async fn the_readme_and_the_guides_do_what_they_say_and_the_removal_leaves_nothing_behind() {
    let cluster = cluster().await;
    let (reader, mut node) = (Reader::start(&cluster).await, Node::cordoned(&cluster).await);
    reader.read("README.md", &["--from", INSTALL], &mut node).await;

    // The guide begins with the installation, and ends in the mode `Isolate`.
    // Its namespace stays: the controller has a Role there.
    reader.type_in("kubectl delete sidecarset log-agent", &mut node).await;
    reader.type_in("kubectl --namespace shop delete serviceaccounts web log-agent", &mut node).await;
    reader.read("docs/guides/own-identity.md", &[], &mut node).await;
    let web = pod(&cluster, "shop", "app=web").await;
    assert_eq!(web["spec"]["serviceAccountName"], "web");
    assert!(container(&web, "web")["volumeMounts"][0]["name"].as_str().unwrap().starts_with("kube-api-access-"));
    let agent = container(&web, "log-agent")["volumeMounts"][0]["name"].clone();
    let volumes = web["spec"]["volumes"].as_array().unwrap();
    let volume = volumes.iter().find(|volume| volume["name"] == agent).unwrap();
    assert_eq!(volume["projected"]["sources"][0]["secret"]["name"], token_secret("log-agent"));

    // The commands that look at a cluster find it.
    reader.read("docs/try.md", &[], &mut node).await;
    reader.read("docs/guides/refused.md", &[], &mut node).await;
    reader.read("docs/guides/cloud-identities.md", &[], &mut node).await;
    reader.read("docs/guides/opt-out.md", &[], &mut node).await;
    reader.type_in("rm sets.yaml orders.yaml", &mut node).await;
    reader.read("docs/guides/overrides.md", &[], &mut node).await;
    // The folder is a repository now. Each of the pages before has written a SidecarSet of one name.
    reader.type_in("rm -r sets refused.yaml sets.yaml orders.yaml", &mut node).await;
    reader.read("docs/guides/ci.md", &[], &mut node).await;

    reader.read("docs/guides/roll-out.md", &["--until", "The way back"], &mut node).await;
    let store = pod(&cluster, "store", "app=store").await;
    assert_eq!(container(&store, "collector")["image"], "busybox:1.36", "undone");
    // What Helm says at the end fits the release, and its commands work. One has NAME in place of a name of the reader's.
    for command in reader.notes(&mut node).await {
        if !command.starts_with("helm uninstall") && !command.contains(" NAME ") {
            reader.type_in(&command, &mut node).await;
        }
    }
    reader.read("docs/rollouts.md", &["--without", "manifests"], &mut node).await;
    reader.read("docs/guides/roll-out.md", &["--from", "The way back"], &mut node).await;

    reader.read("docs/guides/uninstall.md", &["--until", "Before"], &mut node).await;
    reader.read("docs/guides/uninstall.md", &["--from", "What stays"], &mut node).await;
    reader.type_in("kubectl delete namespace shop --timeout 2m", &mut node).await;
    reader.leaves_nothing().await;
}
