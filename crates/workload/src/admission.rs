//! Changes of the API server to a Pod before webhooks see it, as far as injection depends on them.
//!
//! These are: the defaults of the Pod, its containers and volumes; the ServiceAccount with its token and pull secrets;
//! requests from limits; priority and tolerations. Left out is what depends on further objects of the cluster, such as
//! the limits of a namespace ([`crate::pod_defaults`]), and what other webhooks do. The test `cluster::workload_pods` compares the
//! result with the requests of a real API server.

use pillion_admission::pod_identity;
use pillion_kubernetes::json::{self, Object};
use pillion_sidecarset::sidecar_set::defaults;
use serde_json::{Value, json};

use crate::pod_defaults;

/// The mount path of tokens.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The volume with the token. The API server generates the last five letters.
const TOKEN_VOLUME: &str = "kube-api-access-xxxxx";
/// Fields that the sidecar defaults add beyond those of a plain container.
const SIDECAR_FIELDS: [&str; 3] = ["podInjectPolicy", "shareVolumePolicy", "upgradeStrategy"];

/// Fills in a Pod. `service_account` returns a ServiceAccount of the Pod's namespace by its name.
///
/// A mirror Pod, which only represents a static Pod of a kubelet, may not have a ServiceAccount.
pub fn apply(pod: &mut Value, service_account: impl Fn(&str) -> Option<Value>) {
    let is_mirror = pod_identity::is_mirror(pod);
    if let Some(pod) = pod.as_object_mut() {
        pod.entry("status").or_insert_with(|| json!({}));
    }
    let Some(spec) = pod.as_object_mut().and_then(|pod| json::object_mut(pod, "spec")) else { return };
    let lists: Vec<(&str, Value)> = ["initContainers", "containers", "volumes"]
        .into_iter()
        .filter_map(|key| Some((key, spec.remove(key)?)))
        .collect();
    let mut defaulted =
        json!({"spec": lists.into_iter().map(|(key, list)| (key.to_owned(), list)).collect::<Object>()});
    defaults::apply(&mut defaulted);
    for key in ["initContainers", "containers", "volumes"] {
        if let Some(list) = defaulted.pointer_mut(&format!("/spec/{key}")) {
            spec.insert(key.to_owned(), list.take());
        }
    }
    for container in containers(spec) {
        for field in SIDECAR_FIELDS {
            container.remove(field);
        }
        requests_from_limits(container);
        pod_defaults::apply_to_container(container);
    }
    pod_defaults::apply(spec);
    if !is_mirror {
        self::service_account(spec, service_account);
    }
}

/// Sets missing requests to the limits.
fn requests_from_limits(container: &mut Object) {
    let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    if let Some(requests) = json::object_mut(resources, "requests") {
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
}

/// Adds the ServiceAccount, its pull secrets if the Pod has none, and its token.
fn service_account(spec: &mut Object, find: impl Fn(&str) -> Option<Value>) {
    let named = spec.get("serviceAccountName").or_else(|| spec.get("serviceAccount")).and_then(Value::as_str);
    let name = named.filter(|name| !name.is_empty()).unwrap_or("default").to_owned();
    let account = find(&name).unwrap_or_default();
    for key in ["serviceAccountName", "serviceAccount"] {
        spec.insert(key.to_owned(), name.as_str().into());
    }
    let secrets = json::items(&account, &["imagePullSecrets"]);
    let own = spec.get("imagePullSecrets").and_then(Value::as_array);
    if !secrets.is_empty() && own.is_none_or(Vec::is_empty) {
        spec.insert("imagePullSecrets".to_owned(), secrets.into());
    }
    let automount = spec.get("automountServiceAccountToken").or_else(|| account.get("automountServiceAccountToken"));
    if automount.and_then(Value::as_bool).unwrap_or(true) {
        mount_token(spec);
    }
}

/// Mounts the token into containers that have no other mount at its path.
fn mount_token(spec: &mut Object) {
    let is_token = |volume: &&Value| json::text(volume, &["name"]).starts_with("kube-api-access-");
    let volumes = spec.get("volumes").and_then(Value::as_array);
    let present = volumes.and_then(|volumes| volumes.iter().find(is_token)).map(|volume| json::text(volume, &["name"]));
    let name = present.unwrap_or(TOKEN_VOLUME).to_owned();
    let exists = present.is_some();
    let mut mounted = false;
    for container in containers(spec) {
        let Some(mounts) = json::list_mut(container, "volumeMounts") else { continue };
        if mounts.iter().all(|mount| json::text(mount, &["mountPath"]) != TOKEN_PATH) {
            mounts.push(json!({"name": name, "readOnly": true, "mountPath": TOKEN_PATH}));
            mounted = true;
        }
    }
    if mounted
        && !exists
        && let Some(volumes) = json::list_mut(spec, "volumes")
    {
        volumes.push(json!({"name": name, "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [
                {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
            ]}}
        ]}}));
    }
}

/// Whether a volume or a mount belongs to the token that [`apply`] adds. The API server adds both to every Pod, so
/// manifests must not contain them.
pub fn is_token(item: &Value) -> bool {
    json::text(item, &["name"]) == TOKEN_VOLUME
}

fn containers(spec: &mut Object) -> impl Iterator<Item = &mut Object> {
    let lists = spec.iter_mut().filter(|(key, _)| *key == "initContainers" || *key == "containers");
    lists.filter_map(|(_, list)| list.as_array_mut()).flatten().filter_map(Value::as_object_mut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(spec: &Value, account: Option<&Value>) -> Value {
        let mut pod = json!({ "spec": spec });
        apply(&mut pod, |name| account.filter(|account| json::text(account, &["metadata", "name"]) == name).cloned());
        pod["spec"].take()
    }

    #[test]
    fn containers_and_volumes_get_the_defaults_of_core_v1_and_a_token() {
        let spec = json!({
            "containers": [{
                "name": "a", "image": "i:1", "ports": [{"containerPort": 80}],
                "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m"}}
            }],
            "volumes": [{"name": "v", "configMap": {"name": "c"}}]
        });
        let with = applied(&spec, None);
        assert_eq!(
            with["containers"][0],
            json!({
                "name": "a", "image": "i:1", "imagePullPolicy": "IfNotPresent",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName", "apiVersion": "v1"}}}],
                "resources": {
                    "limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "1Gi"}
                },
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                "volumeMounts": [{"name": "kube-api-access-xxxxx", "readOnly": true, "mountPath": TOKEN_PATH}]
            })
        );
        assert_eq!(with["volumes"][0]["configMap"]["defaultMode"], 420);
        assert!(is_token(&with["volumes"][1]));
        assert_eq!((&with["serviceAccountName"], &with["serviceAccount"]), (&json!("default"), &json!("default")));
    }

    #[test]
    fn the_service_account_gives_its_pull_secrets_and_says_whether_its_token_is_mounted() {
        let account = json!({
            "metadata": {"name": "robot"}, "imagePullSecrets": [{"name": "s"}], "automountServiceAccountToken": false
        });
        let spec = json!({"serviceAccountName": "robot", "containers": [{"name": "a", "image": "i"}]});
        let with = applied(&spec, Some(&account));
        assert_eq!(with["imagePullSecrets"], json!([{"name": "s"}]));
        assert_eq!(with.pointer("/volumes"), None);
        let own = json!({
            "serviceAccountName": "robot", "imagePullSecrets": [{"name": "own"}], "automountServiceAccountToken": true,
            "containers": []
        });
        assert_eq!(applied(&own, Some(&account))["imagePullSecrets"], json!([{"name": "own"}]));
    }

    #[test]
    fn sap9_a_mirror_pod_gets_no_service_account() {
        let annotations = json!({"kubernetes.io/config.mirror": "x"});
        let mut pod = json!({"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "a"}]}});
        apply(&mut pod, |_| None);
        assert_eq!(pod["spec"].get("serviceAccountName"), None);
        assert_eq!(pod["spec"]["containers"][0].get("volumeMounts"), None);
    }

    #[test]
    fn a_pod_that_went_through_an_api_server_stays_as_it_is() {
        let spec = json!({"containers": [{"name": "a", "image": "i", "resources": {"limits": {"cpu": "1"}}}]});
        let once = applied(&spec, None);
        assert_eq!(applied(&once, None), once);
        let mut exported = once;
        exported["volumes"][0]["name"] = json!("kube-api-access-7mt8f");
        exported["containers"][0]["volumeMounts"][0]["name"] = json!("kube-api-access-7mt8f");
        assert_eq!(applied(&exported, None), exported);
    }

    /// Compares with a request recorded from kube-apiserver after `kubectl run`. The default ServiceAccount has a pull
    /// secret.
    #[test]
    fn the_api_server_does_the_same() {
        let recorded = include_str!("../../../test_data/pod-create-review.json");
        let recorded: Value = serde_json::from_str(&recorded.replace("kube-api-access-7mt8f", TOKEN_VOLUME)).unwrap();
        let account = json!({"metadata": {"name": "default"}, "imagePullSecrets": [{"name": "from-default"}]});
        let sent = json!({"containers": [{"name": "p-strip", "image": "nginx", "resources": {}}]});
        let imitated = applied(&sent, Some(&account));
        assert_eq!(imitated, recorded["request"]["object"]["spec"]);
    }

    #[test]
    fn odd_shapes_are_left_to_the_policy() {
        for spec in [json!({"containers": 3, "volumes": ["x"]}), json!({"containers": [1]}), json!([])] {
            let mut pod = json!({ "spec": spec });
            apply(&mut pod, |_| None);
            assert!(pod.get("spec").is_some());
        }
    }
}
