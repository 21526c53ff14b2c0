//! Pods as a Deployment's controller creates them and an API server shows them to a mutating webhook: with defaults,
//! the token's volume and managed fields.

use serde_json::{Map, Value, json};

use super::random::Random;

/// The namespace of the Pods.
pub const NAMESPACE: &str = "shop";
/// The path of the token in a container.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The smallest Pod that [`pod`] returns, in bytes of compact JSON, even for smaller sizes. It is mostly what an API
/// server adds to a Pod that only names its image.
pub const SMALLEST: usize = 2_600;
/// The size from which the containers are configured.
const CONFIGURED: usize = 4_100;

/// Returns the labels of all Pods.
pub fn labels() -> Map<String, Value> {
    let labels = json!({
        "app": "checkout", "app.kubernetes.io/instance": "checkout", "app.kubernetes.io/name": "checkout",
        "pod-template-hash": "6d4b75cb6d", "team": "storefront", "tier": "web",
    });
    labels.as_object().cloned().unwrap_or_default()
}

/// Returns a Pod with this length in compact JSON. A small Pod has one container; a larger one has more containers with
/// more variables each. An annotation fills up the rest.
pub fn pod(seed: u64, bytes: usize) -> Value {
    let mut random = Random::new(seed);
    let mut containers = vec![container(&mut random, "checkout", (bytes >= CONFIGURED).then_some(4))];
    let mut pod = assemble(&containers);
    let mut longer = pod.clone();
    while containers.len() < CONTAINERS_MAX && length(&longer) <= bytes {
        pod = longer;
        let name = format!("worker-{}", containers.len());
        let variables = (bytes / 2_000).clamp(4, 60);
        containers.push(container(&mut random, &name, Some(variables)));
        longer = assemble(&containers);
    }
    let missing = bytes.max(SMALLEST).saturating_sub(length(&pod) + PADDING.len() + 6);
    if missing > 0
        && let Some(annotations) = pod.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
    {
        annotations.insert(PADDING.to_owned(), random.noise(missing).into());
    }
    pod
}

const CONTAINERS_MAX: usize = 20;
/// The annotation that fills a Pod up to its size.
const PADDING: &str = "config.example.com/rendered";

fn length(value: &Value) -> usize {
    value.to_string().len()
}

fn assemble(containers: &[Value]) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": "checkout-6d4b75cb6d-", "namespace": NAMESPACE,
            "labels": labels(),
            "annotations": {"prometheus.io/scrape": "true"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "checkout-6d4b75cb6d",
                "uid": "4a3c7c0e-51f4-4a0f-9d0c-0d9b5c3d5a11", "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "volumes": [
                {"name": "cache", "emptyDir": {}},
                {"name": "kube-api-access-7mt8f", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                    {"downwardAPI": {"items": [{
                        "path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                    }]}},
                ]}},
            ],
            "containers": containers,
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "checkout", "serviceAccount": "checkout", "securityContext": {},
            "schedulerName": "default-scheduler", "priority": 0, "enableServiceLinks": true,
            "preemptionPolicy": "PreemptLowerPriority",
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
                 "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
                 "tolerationSeconds": 300},
            ],
        },
        "status": {},
    });
    let managed = managed_fields(containers);
    if let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("managedFields".to_owned(), managed);
    }
    pod
}

/// Returns a container with its defaults. With a number of variables, it also has those, ports, resources and a probe.
fn container(random: &mut Random, name: &str, variables: Option<usize>) -> Value {
    let token = json!({"name": "kube-api-access-7mt8f", "readOnly": true, "mountPath": TOKEN_PATH});
    let mut container = json!({
        "name": name, "image": format!("registry.example.com/shop/{name}:{}", random.hex(12)), "resources": {},
        "volumeMounts": [token],
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    });
    if let (Some(count), Some(container)) = (variables, container.as_object_mut()) {
        let mut put = |key: &str, value: Value| container.insert(key.to_owned(), value);
        let variables: Vec<Value> = (0..count)
            .map(|index| {
                let value = format!("https://{}.shop.svc.cluster.local:8443/v1/{}", random.hex(6), random.hex(12));
                json!({"name": format!("SERVICE_{index:02}_URL"), "value": value})
            })
            .collect();
        put("env", variables.into());
        put("ports", json!([{"name": "http", "containerPort": 8080, "protocol": "TCP"}]));
        put(
            "resources",
            json!({"limits": {"cpu": "1", "memory": "512Mi"}, "requests": {"cpu": "250m", "memory": "256Mi"}}),
        );
        put("volumeMounts", json!([{"name": "cache", "mountPath": "/var/cache/app"}, token]));
        put(
            "livenessProbe",
            json!({
                "httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"},
                "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
            }),
        );
    }
    container
}

/// Returns the API server's record of which manager wrote which field.
fn managed_fields(containers: &[Value]) -> Value {
    let mut owned = Map::new();
    for container in containers {
        let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
        owned.insert(format!(r#"k:{{"name":"{name}"}}"#), fields(container));
    }
    json!([{
        "manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
        "time": "2026-11-21T05:14:31Z", "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:generateName": {}, "f:labels": {".": {}, "f:app": {}}, "f:ownerReferences": {".": {}}},
            "f:spec": {
                "f:containers": owned, "f:dnsPolicy": {}, "f:enableServiceLinks": {}, "f:restartPolicy": {},
                "f:schedulerName": {}, "f:securityContext": {}, "f:serviceAccountName": {},
                "f:terminationGracePeriodSeconds": {},
            },
        },
    }])
}

/// Returns the fields of an object as a set. Items of lists are keyed by their name or path, if they have one.
fn fields(value: &Value) -> Value {
    let mut set = Map::new();
    set.insert(".".to_owned(), json!({}));
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let below = if value.is_object() || value.is_array() { fields(value) } else { json!({}) };
                set.insert(format!("f:{key}"), below);
            }
        }
        Value::Array(items) => {
            for item in items {
                let key = ["name", "mountPath"].into_iter().find_map(|key| Some((key, item.get(key)?)));
                if let Some((key, value)) = key {
                    set.insert(format!(r#"k:{{"{key}":{value}}}"#), fields(item));
                }
            }
        }
        _ => {}
    }
    Value::Object(set)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(SMALLEST)]
    #[case(5_000)]
    #[case(20_000)]
    #[case(200_000)]
    fn pods_have_the_size_that_was_asked_for(#[case] bytes: usize) {
        assert_eq!(length(&pod(1, bytes)), bytes);
        assert_eq!(pod(1, bytes), pod(1, bytes));
    }
}
