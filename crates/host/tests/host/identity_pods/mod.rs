//! Pods whose authors try to get the identity of a sidecar, through the built module. Each attack comes with the most
//! similar honest Pod.
#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

mod attacks;
mod audiences;
mod decisions;
mod merged;
mod places;
mod tokens;
mod twin;
mod versions;
mod volumes;

use std::sync::Arc;

use pillion_host::ValidationResponse;
use pillion_identity::names;
use serde_json::{Value, json};

use crate::support::identity::{Court, ask, edited, gated, rule, verdict};

const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const INJECTED: &str = "pillion.dev/service-account-injected";

fn set(name: &str, account: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [{"name": name, "image": "agent:1", "podInjectPolicy": "AfterAppContainer"}],
            "serviceAccountName": account, "behaviorWhenServiceAccountInjection": "Merge",
            "serviceAccountPermissions": [rule("", name, "get")],
        },
    })
}

fn isolated(name: &str, account: &str) -> Value {
    edited(set(name, account), |set| set["spec"]["serviceAccountMode"] = json!("Isolate"))
}

/// Returns a Pod as the API server sends it: with its account, the alias and the account's token.
fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "web", "labels": {"app": "web"}},
        "spec": {
            "serviceAccountName": "default", "serviceAccount": "default",
            "containers": [{
                "name": "app", "image": "nginx:1",
                "volumeMounts": [{"name": "kube-api-access-x7k2p", "readOnly": true, "mountPath": TOKEN_PATH}],
            }],
            "volumes": [automounted("kube-api-access-x7k2p")],
        },
    })
}

/// Returns the volume that the API server adds.
fn automounted(name: &str) -> Value {
    json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}})
}

fn running_as(account: &str) -> Value {
    edited(pod(), |pod| {
        pod["spec"]["serviceAccountName"] = json!(account);
        pod["spec"]["serviceAccount"] = json!(account);
    })
}

fn account(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "web", "name": name, "uid": "1"}})
}

fn merged_name() -> String {
    names::merged(&["a", "b"])
}

/// Returns the three merged objects of the sets `a` and `b`.
fn merged_objects() -> [Value; 3] {
    let name = merged_name();
    let metadata = json!({"namespace": "web", "name": name, "annotations": {"pillion.dev/sidecarsets": "a,b"}});
    let rbac = "rbac.authorization.k8s.io/v1";
    [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({"apiVersion": rbac, "kind": "Role", "metadata": metadata, "rules": [
            {"apiGroups": [""], "resources": ["a", "b"], "verbs": ["get"]}
        ]}),
        json!({
            "apiVersion": rbac, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "web"}],
        }),
    ]
}

fn cluster() -> Court {
    let accounts = ["a", "b", "agent", "other", "sidecarset-merged-0123456789abcdef"].map(account);
    Court::with(accounts.into_iter().chain(merged_objects()))
}

fn request(pod: &Value) -> Value {
    json!({
        "uid": "u", "operation": "CREATE", "namespace": "web", "name": "p", "dryRun": false,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "userInfo": {"username": "dev", "groups": ["system:authenticated"]}, "object": pod,
    })
}

fn admit_in(pod: &Value, rules: Value, sets: &[Value], cluster: Court) -> ValidationResponse {
    ask(&request(pod), &gated(&rules, sets), &Arc::new(cluster))
}

fn admit(pod: &Value, sets: &[Value]) -> ValidationResponse {
    admit_in(pod, json!({}), sets, cluster())
}

/// Returns the verdict on a Pod.
fn message_of(pod: &Value, sets: &[Value]) -> String {
    verdict(&admit(pod, sets))
}

/// Returns the Pod after admission.
fn injected(pod: &Value, sets: &[Value]) -> Value {
    accepted(pod, admit(pod, sets))
}

/// Returns a Pod after an answer that accepts it.
fn accepted(pod: &Value, answer: ValidationResponse) -> Value {
    assert!(answer.accepted, "{:?}", answer.message);
    answer.mutated_object.unwrap_or_else(|| pod.clone())
}

/// Returns the containers with a token of an account, mounted as by the kubelet: the Pod's account or an isolated
/// sidecar's.
fn holders(pod: &Value) -> Vec<String> {
    let empty = Vec::new();
    let list = |value: &Value| value.as_array().unwrap_or(&empty).clone();
    let volumes = list(&pod["spec"]["volumes"]);
    let mut holders = Vec::new();
    for container in list(&pod["spec"]["initContainers"]).iter().chain(&list(&pod["spec"]["containers"])) {
        for mount in list(&container["volumeMounts"]) {
            let Some(volume) = volumes.iter().find(|volume| volume["name"] == mount["name"]) else { continue };
            for source in list(&volume["projected"]["sources"]) {
                if !source["serviceAccountToken"].is_null() {
                    holders.push(format!("{}: {}", container["name"], pod["spec"]["serviceAccountName"]));
                } else if source["secret"]["name"].as_str().is_some_and(|name| name.starts_with("sidecarset-token-")) {
                    holders.push(format!("{}: {}", container["name"], source["secret"]["name"]));
                }
            }
        }
    }
    holders.iter().map(|text| text.replace('"', "")).collect()
}

fn volume_of(account: &str) -> String {
    names::token_volume(account)
}
