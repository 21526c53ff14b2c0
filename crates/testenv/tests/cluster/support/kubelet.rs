//! What a kubelet does for the volumes of a Pod: requests tokens, reads Secrets and ConfigMaps, and writes their files.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use k8s_openapi::api::authentication::v1::TokenRequestSpec;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use pillion_identity::names::is_mount_path;
use pillion_testenv::Cluster;
use serde_json::Value;

use super::accounts::bound_to;

/// The files of a volume, by name.
pub type Files = BTreeMap<String, String>;

/// Returns the files in the token directory of one container of a stored Pod; `None` if it mounts nothing there.
///
/// A later source of a projected volume replaces the files of an earlier one. Objects that are missing make the Pod
/// wait, so they fail the test, except for the ConfigMap of the root certificate: not every cluster has its publisher.
pub async fn token_directory(cluster: &Cluster, pod: &Value, container: &str) -> Option<Files> {
    let lists = [&pod["spec"]["initContainers"], &pod["spec"]["containers"]];
    let mut containers = lists.into_iter().flat_map(|list| list.as_array().into_iter().flatten());
    let container = containers.find(|one| one["name"] == container).unwrap();
    let mut mounts = container["volumeMounts"].as_array().into_iter().flatten();
    let mount = mounts.find(|mount| is_mount_path(mount["mountPath"].as_str().unwrap()))?;
    let mut volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let volume = volumes.find(|volume| volume["name"] == mount["name"]).unwrap();
    let mut files = Files::new();
    for source in volume["projected"]["sources"].as_array().unwrap() {
        files.extend(of_source(cluster, pod, source).await);
    }
    Some(files)
}

async fn of_source(cluster: &Cluster, pod: &Value, source: &Value) -> Files {
    let client = cluster.admin().await.unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let namespace = text(&pod["metadata"]["namespace"]);
    let (kind, source) = source.as_object().unwrap().iter().next().unwrap();
    match kind.as_str() {
        "serviceAccountToken" => {
            let audience = Some(text(&source["audience"])).filter(|audience| !audience.is_empty());
            let wanted = TokenRequestSpec {
                audiences: audience.map(|audience| vec![audience]),
                expiration_seconds: Some(source["expirationSeconds"].as_i64().unwrap_or(3600)),
                ..bound_to("Pod", pod)
            };
            let account = text(&pod["spec"]["serviceAccountName"]);
            let token = cluster.token(&namespace, &account, &wanted).await.unwrap();
            Files::from([(text(&source["path"]), token)])
        }
        "secret" => {
            let found = secret(&client, &namespace, &text(&source["name"])).await;
            selected(&found.unwrap_or_else(|| panic!("the Pod waits for {source}")), source)
        }
        "configMap" => {
            let api: Api<ConfigMap> = Api::namespaced(client, &namespace);
            let found = api.get_opt(&text(&source["name"])).await.unwrap();
            found.map(|map| selected(&map.data.unwrap_or_default(), source)).unwrap_or_default()
        }
        "downwardAPI" => {
            let items = source["items"].as_array().unwrap().iter();
            items.map(|item| (text(&item["path"]), field(pod, &text(&item["fieldRef"]["fieldPath"])))).collect()
        }
        _ => panic!("this kubelet knows no {kind}"),
    }
}

/// Returns the data of a Secret; `None` if there is none.
pub async fn secret(client: &Client, namespace: &str, name: &str) -> Option<Files> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let data = api.get_opt(name).await.unwrap()?.data.unwrap_or_default();
    Some(data.into_iter().map(|(key, value)| (key, String::from_utf8(value.0).unwrap())).collect())
}

/// Returns the keys that `items` of a source select, or all.
fn selected(data: &Files, source: &Value) -> Files {
    let Some(items) = source["items"].as_array() else { return data.clone() };
    let file = |item: &Value| {
        let (key, path) = (item["key"].as_str().unwrap(), item["path"].as_str().unwrap());
        (path.to_owned(), data.get(key).unwrap_or_else(|| panic!("the Pod waits for the key {key}")).clone())
    };
    items.iter().map(file).collect()
}

fn field(object: &Value, path: &str) -> String {
    object.pointer(&format!("/{}", path.replace('.', "/"))).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the time of this machine, in seconds since 1970.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().try_into().unwrap()
}
