//! A stranger's path without Helm: docs/deploying.md with each way to install Pillion, the controllers, the guides, and
//! the removal.

use super::node::Node;
use super::{Reader, cluster, kubewarden};

const PAGE: &str = "docs/deploying.md";
const UNINSTALL: &str = "docs/guides/uninstall.md";

/// Leaves the blocks for other ways to install out.
fn without<'a>(names: &[&'a str]) -> Vec<&'a str> {
    names.iter().flat_map(|name| ["--without", name]).collect()
}

#[tokio::test]
async fn manifests_install_a_server_that_the_guides_work_with_and_the_removal_leaves_nothing_behind() {
    let cluster = cluster().await;
    let (reader, mut node) = (Reader::start(&cluster).await, Node::cordoned(&cluster).await);
    let others = without(&["helm", "kustomize", "kubewarden"]);
    let part = |from: &'static str, until: &'static str| [&["--from", from, "--until", until], &others[..]].concat();
    let settings = part("Settings first", "With Kubewarden");
    reader.read(PAGE, &settings, &mut node).await;
    reader.read(PAGE, &part("Standalone", "With Helm"), &mut node).await;
    reader.read("docs/controller.md", &part("Installing", "Preview"), &mut node).await;

    // The guide has settings of its own.
    reader.read("docs/guides/own-identity.md", &others, &mut node).await;
    reader.read(PAGE, &settings, &mut node).await;
    reader.read("docs/controller.md", &part("Preview", "Watching it"), &mut node).await;

    let rollouts = [&["--from", "Installing, and what it may do"], &others[..]].concat();
    reader.read("docs/rollouts.md", &rollouts, &mut node).await;
    reader.read("docs/guides/roll-out.md", &others, &mut node).await;

    reader.read(PAGE, &part("Who reads SidecarSets", "Removing"), &mut node).await;
    reader.read("docs/serve.md", &part("When Pods are refused", "Options"), &mut node).await;
    // What the pages had the reader create, besides Pillion.
    let own = "kubectl delete namespace shop --timeout 2m && kubectl delete clusterrolebinding sidecarsets-view";
    reader.type_in(own, &mut node).await;
    remove(&reader, &mut node, &others).await;
}

/// Removes Pillion as the page says, and checks that nothing is left.
async fn remove(reader: &Reader<'_>, node: &mut Node<'_>, others: &[&str]) {
    let part = ["--from", "With manifests or Kustomize", "--until", "With Argo CD or Flux"];
    reader.read(UNINSTALL, &[&part, others].concat(), node).await;
    reader.read(UNINSTALL, &[&["--from", "What stays"], others].concat(), node).await;
    reader.leaves_nothing().await;
}

#[tokio::test]
async fn a_kustomization_installs_a_server_and_the_removal_leaves_nothing_behind() {
    let cluster = cluster().await;
    let (reader, mut node) = (Reader::start(&cluster).await, Node::cordoned(&cluster).await);
    let others = without(&["helm", "manifests", "kubewarden"]);
    reader.read(PAGE, &[&["--from", "Kustomize"], &others[..]].concat(), &mut node).await;
    // The overlay has the webhooks too, so Pods wait for the server.
    let ready = "kubectl --namespace pillion-system rollout status deployment/pillion --timeout 5m";
    reader.type_in(ready, &mut node).await;
    let guide = "docs/guides/roll-out.md";
    reader.read(guide, &[&["--until", "2. Look"], &others[..]].concat(), &mut node).await;
    reader.read(guide, &[&["--from", "The way back"], &others[..]].concat(), &mut node).await;
    remove(&reader, &mut node, &others).await;
}

#[tokio::test]
async fn manifests_install_policies_for_kubewarden_and_the_removal_leaves_nothing_behind() {
    let cluster = cluster().await;
    kubewarden::install(&cluster).await;
    let (reader, mut node) = (Reader::start(&cluster).await, Node::cordoned(&cluster).await);
    let others = without(&["helm", "kustomize", "manifests"]);
    let part = |from: &'static str, until: &'static str| [&["--from", from, "--until", until], &others[..]].concat();
    reader.read(PAGE, &part("Settings first", "With Kubewarden"), &mut node).await;
    reader.read(PAGE, &part("With Kubewarden", "A module of your own"), &mut node).await;
    reader.read("docs/controller.md", &part("Installing", "Preview"), &mut node).await;
    kubewarden::serve(&cluster).await;
    reader.read("docs/guides/own-identity.md", &others, &mut node).await;
    reader.type_in("kubectl delete namespace shop --timeout 2m", &mut node).await;
    remove(&reader, &mut node, &others).await;
}
