//! The programs of the chart's Deployments as local processes, with the flags, the settings and the rights that the
//! chart gives them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{DynamicObject, ListParams, PostParams};
use pillion_testenv::{Cluster, free_port, point_at, until};
use serde_json::Value;

use super::NAMESPACE;
use crate::support::{dynamic, program};

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

/// Writes a file that only the user can read.
fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Writes the kubeconfig of a ServiceAccount. Returns its path.
pub async fn kubeconfig(cluster: &Cluster, namespace: &str, account: &str) -> PathBuf {
    let path = cluster.folder().join(format!("{namespace}.{account}.kubeconfig"));
    write(&path, &cluster.as_service_account(namespace, account).await.unwrap().kubeconfig());
    path
}

/// Starts the program of a Deployment under this name. `local` are the flags that differ on this machine.
async fn start(cluster: &Cluster, name: &str, deployment: &str, local: &[String]) {
    let client = cluster.admin().await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let deployment = serde_json::to_value(deployments.get(deployment).await.unwrap()).unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    let rendered =
        pod["containers"][0]["args"].as_array().unwrap().iter().map(|flag| flag.as_str().unwrap().to_owned());
    let rendered: Vec<String> = rendered.collect();

    let settings = rendered.iter().find_map(|flag| flag.strip_prefix("--settings=")).unwrap();
    let key = Path::new(settings).file_name().unwrap().to_str().unwrap();
    let volumes = pod["volumes"].as_array().unwrap();
    let source = volumes.iter().find_map(|volume| volume["configMap"]["name"].as_str()).unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    let data = maps.get(source).await.unwrap().data.unwrap_or_default();
    let file = cluster.folder().join(format!("{name}.settings"));
    write(&file, &data[key]);

    let mut local = local.to_vec();
    local.push(format!("--settings={}", file.display()));
    let is_same = |one: &str, other: &str| one.split('=').next() == other.split('=').next();
    let kept = rendered.into_iter().filter(|flag| !local.iter().any(|other| is_same(flag, other)));
    let account = pod["serviceAccountName"].as_str().unwrap();
    let mut arguments = vec![
        format!("KUBECONFIG={}", kubeconfig(cluster, NAMESPACE, account).await.display()),
        format!("POD_NAME={name}"),
        program().display().to_string(),
    ];
    arguments.extend(kept.collect::<Vec<_>>());
    arguments.extend(local);
    cluster.start_program(name, Path::new("/usr/bin/env"), &arguments).await.unwrap();
}

/// Stops local processes as soon as helm has deleted the Deployments that they stand in for.
pub async fn stop_with_the_chart(cluster: &Cluster, names: &[&str]) {
    let deployments: Api<Deployment> = Api::namespaced(cluster.admin().await.unwrap(), NAMESPACE);
    let are_gone = async || {
        let left = deployments.list(&ListParams::default()).await.ok()?;
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
    start(cluster, "controller", "pillion-controller", &[health]).await;
}

/// Starts Pillion's own server. Before, the webhooks and the conversion are pointed at this machine; the server then
/// writes its certificate into them.
pub async fn start_server(cluster: &Cluster) {
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
    start(cluster, "server", "pillion", &local).await;
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
