//! The programs of Deployments in the cluster as local processes, with the flags, the settings and the rights that the
//! cluster's objects give them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use pillion_testenv::{Cluster, until};
use serde_json::Value;

use super::{SOON, get};

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

/// Starts the program of a Deployment under the name `process`. `local` are the flags that differ on this machine.
pub async fn start(
    cluster: &Cluster,
    program: &Path,
    (namespace, deployment): (&str, &str),
    process: &str,
    local: &[String],
) {
    let deployments: Api<Deployment> = Api::namespaced(cluster.admin().await.unwrap(), namespace);
    let deployment = serde_json::to_value(deployments.get(deployment).await.unwrap()).unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    let rendered =
        pod["containers"][0]["args"].as_array().unwrap().iter().map(|flag| flag.as_str().unwrap().to_owned());
    let rendered: Vec<String> = rendered.collect();

    let file = write_settings(cluster, namespace, &deployment, process).await.unwrap();

    let mut local = local.to_vec();
    local.push(format!("--settings={}", file.display()));
    let is_same = |one: &str, other: &str| one.split('=').next() == other.split('=').next();
    let kept = rendered.into_iter().filter(|flag| !local.iter().any(|other| is_same(flag, other)));
    let account = pod["serviceAccountName"].as_str().unwrap();
    let mut arguments = vec![
        format!("KUBECONFIG={}", kubeconfig(cluster, namespace, account).await.display()),
        format!("POD_NAME={process}"),
        program.display().to_string(),
    ];
    arguments.extend(kept.collect::<Vec<_>>());
    arguments.extend(local);
    cluster.start_program(process, Path::new("/usr/bin/env"), &arguments).await.unwrap();
}

/// Writes the settings of a Deployment's ConfigMap for a process that has started, as the kubelet does when they have
/// changed. An object that is just going changes nothing.
pub async fn renew_settings(cluster: &Cluster, (namespace, deployment): (&str, &str), process: &str) {
    let deployments: Api<Deployment> = Api::namespaced(cluster.admin().await.unwrap(), namespace);
    if let Ok(Some(deployment)) = deployments.get_opt(deployment).await {
        write_settings(cluster, namespace, &serde_json::to_value(deployment).unwrap(), process).await;
    }
}

/// Writes the settings that a Deployment mounts into a file, unless they are there. Returns the file, and `None` if the
/// ConfigMap does not exist.
async fn write_settings(cluster: &Cluster, namespace: &str, deployment: &Value, process: &str) -> Option<PathBuf> {
    let pod = &deployment["spec"]["template"]["spec"];
    let mut arguments = pod["containers"][0]["args"].as_array()?.iter().filter_map(Value::as_str);
    let settings = arguments.find_map(|flag| flag.strip_prefix("--settings="))?;
    let key = Path::new(settings).file_name()?.to_str()?;
    let source = pod["volumes"].as_array()?.iter().find_map(|volume| volume["configMap"]["name"].as_str())?;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.admin().await.unwrap(), namespace);
    let text = maps.get_opt(source).await.ok()??.data?.remove(key)?;
    let file = cluster.folder().join(format!("{process}.settings"));
    if fs::read_to_string(&file).is_ok_and(|known| known == text) {
        return Some(file);
    }
    // The process reads the file at any time: it must never see half of it.
    let new = file.with_extension("new");
    write(&new, &text);
    fs::rename(new, &file).unwrap();
    Some(file)
}

/// Waits until a process is ready, as it says on its port for health checks.
pub async fn ready(cluster: &Cluster, process: &str, health: u16) {
    ready_at(cluster, process, health, "/readyz").await;
}

/// The same for a process with another path.
pub async fn ready_at(cluster: &Cluster, process: &str, health: u16, path: &str) {
    let ready = async || {
        cluster.still_runs(process).unwrap();
        get(health, path).await.filter(|answer| answer.starts_with("HTTP/1.1 200"))
    };
    if let Err(error) = until("the process being ready", SOON, ready).await {
        panic!("{error}: {:?}\n{}", get(health, path).await, cluster.log(process));
    }
}
