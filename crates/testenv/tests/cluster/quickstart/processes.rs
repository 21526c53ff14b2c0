//! The programs of the chart's Deployments as local processes.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{DynamicObject, ListParams, PostParams};
use pillion_testenv::{Cluster, free_port, point_at, until};
use serde_json::Value;

use super::NAMESPACE;
use crate::support::{deployments, dynamic};

/// How long `helm install --wait` may take on a busy machine.
pub const INSTALLED: Duration = Duration::from_mins(5);

/// Seconds that a process gets to end.
const GRACE: u8 = 10;

/// Waits until helm has finished the installation.
pub async fn wait_for_helm(cluster: &Cluster) {
    let secrets: Api<Secret> = Api::namespaced(cluster.admin().await.unwrap(), NAMESPACE);
    let deployed = ListParams::default().labels("owner=helm,name=pillion,status=deployed");
    let is_deployed = async || secrets.list(&deployed).await.ok().filter(|list| !list.items.is_empty()).map(drop);
    until("helm finishing the installation", INSTALLED, is_deployed).await.unwrap();
}

/// Stops local processes as soon as helm has deleted the Deployments that they stand in for.
pub async fn stop_with_the_chart(cluster: &Cluster, names: &[&str]) {
    let installed: Api<Deployment> = Api::namespaced(cluster.admin().await.unwrap(), NAMESPACE);
    let are_gone = async || {
        let left = installed.list(&ListParams::default()).await.ok()?;
        left.items.is_empty().then_some(())
    };
    until("helm deleting the Deployments", INSTALLED, are_gone).await.unwrap();
    for name in names {
        cluster.stop_program(name, GRACE).await.unwrap();
    }
}

/// Starts the controllers.
pub async fn start_controller(cluster: &Cluster) {
    let health = format!("--health-listen=127.0.0.1:{}", free_port().unwrap());
    deployments::start(cluster, (NAMESPACE, "pillion-controller"), "controller", &[health]).await;
}

/// Starts the controllers, and then Pillion's own server. The page goes on as soon as the server has written its
/// certificate, while `helm install --wait` waits for the Pods of both, so the bundle must be there first.
pub async fn start_both(cluster: &Cluster) {
    start_controller(cluster).await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.admin().await.unwrap(), NAMESPACE);
    let bundle = async || maps.get_opt("pillion-bundle").await.ok().flatten();
    until("the bundle", INSTALLED, bundle).await.unwrap();
    start_server(cluster).await;
}

/// Starts Pillion's own server. Before, the webhooks and the conversion are pointed at this machine; the server then
/// writes its certificate into them.
async fn start_server(cluster: &Cluster) {
    let url = format!("https://127.0.0.1:{}", free_port().unwrap());
    let client = cluster.admin().await.unwrap();
    let group = "admissionregistration.k8s.io/v1";
    for (api, name) in [
        (dynamic(&client, group, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"), "pillion"),
        (dynamic(&client, group, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"), "pillion"),
        (
            dynamic(&client, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions"),
            "sidecarsets.apps.kruise.io",
        ),
    ] {
        redirect(&api, name, &url).await;
    }
    let local = [
        format!("--listen={}", url.trim_start_matches("https://")),
        format!("--health-listen=127.0.0.1:{}", free_port().unwrap()),
        "--drain-delay=0s".to_owned(),
        "--tls-name=127.0.0.1".to_owned(),
    ];
    deployments::start(cluster, (NAMESPACE, "pillion"), "server", &local).await;
}

/// Replaces the Services in an object by this URL, which is not trusted yet.
async fn redirect(api: &Api<DynamicObject>, name: &str, url: &str) {
    let redirected = async || {
        let mut object: Value = serde_json::to_value(api.get(name).await.ok()?).unwrap();
        point_at(&mut object, url, "");
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        // Another client may have changed the object in between.
        api.replace(name, &PostParams::default(), &object).await.ok().map(drop)
    };
    until(&format!("\"{name}\" pointing at this machine"), INSTALLED, redirected).await.unwrap();
}
