//! The settings and requests of a busy cluster. The same seed gives the same mix.

use pillion_bench::corpus::random::Random;
use pillion_server::Endpoint;
use serde_json::{Value, json};

/// The number of `SidecarSet`s in the settings. Only Pods to be refused have the label of the last one.
const SETS: usize = 20;

/// A request without its uid, and the endpoint to send it to.
pub(super) struct Sample {
    pub(super) endpoint: Endpoint,
    pub(super) request: Value,
}

fn label(set: usize) -> String {
    format!("sidecars.example.com/set-{set:02}")
}

/// Returns settings with [`SETS`] generated `SidecarSet`s, which need no look-ups.
pub(super) fn settings(seed: u64) -> Value {
    let mut numbers = Random::new(seed);
    let sets: Vec<Value> = (0..SETS).map(|set| sidecar_set(set, &mut numbers)).collect();
    json!({
        "sidecarSets": sets,
        "featureGates": {"SidecarSetServiceAccountInjection": true},
        "serviceAccounts": {"ephemeralContainers": "Warn"},
    })
}

fn sidecar_set(set: usize, numbers: &mut Random) -> Value {
    let name = format!("agent-{set:02}");
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {label(set): "on"}},
            "containers": [{
                "name": name, "image": format!("registry.example.com/agents/{name}:{}.{}", numbers.below(9), numbers.below(99)),
                "args": ["--listen", format!(":{}", 9_000 + set)],
                "podInjectPolicy": if numbers.below(2) == 0 { "BeforeAppContainer" } else { "AfterAppContainer" },
                "shareVolumePolicy": {"type": if numbers.below(2) == 0 { "enabled" } else { "disabled" }},
                "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
                "resources": {"limits": {"cpu": "200m", "memory": "128Mi"}, "requests": {"cpu": "20m", "memory": "64Mi"}},
                "volumeMounts": [{"name": format!("{name}-buffer"), "mountPath": format!("/var/lib/{name}")}],
            }],
            "volumes": [{"name": format!("{name}-buffer"), "emptyDir": {}}],
        },
    })
}

/// Returns the requests. Of ten, about six are for Pods, one for the asserting twin, one for a `SidecarSet`, and two
/// for guards.
pub(super) fn samples(seed: u64) -> Vec<Sample> {
    let mut numbers = Random::new(seed.wrapping_add(1));
    let mut samples = Vec::new();
    for (containers, repeats) in [(1, 14), (18, 8), (90, 2)] {
        for repeat in 0..repeats {
            let matching = [0, 1, 3].get(repeat % 3).copied().unwrap_or_default();
            samples.push(pod(Endpoint::Mutate, containers, matching, &mut numbers));
        }
    }
    for _ in 0..2 {
        samples.push(clash(&mut numbers));
        samples.push(pod(Endpoint::Assert, 1, 0, &mut numbers));
        samples.push(pod(Endpoint::Assert, 8, 1, &mut numbers));
    }
    samples.extend((0..4).map(|set| sidecar_set_update(set, &mut numbers)));
    for _ in 0..3 {
        samples.extend([workload(&mut numbers), account(&mut numbers), ephemeral(&mut numbers)]);
    }
    samples
}

fn request(endpoint: Endpoint, resource: [&str; 4], operation: &str, object: &Value, old: &Value) -> Sample {
    let [group, version, kind, plural] = resource;
    let shown = if object.is_null() { old } else { object };
    let text = |pointer: &str| shown.pointer(pointer).cloned().unwrap_or_default();
    let mut request = json!({
        "operation": operation, "dryRun": false,
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": plural},
        "namespace": text("/metadata/namespace"), "name": text("/metadata/name"),
        "userInfo": {
            "username": "system:serviceaccount:kube-system:replicaset-controller",
            "groups": ["system:serviceaccounts", "system:authenticated"],
        },
    });
    if let Some(fields) = request.as_object_mut() {
        for (key, value) in [("object", object), ("oldObject", old)] {
            if !value.is_null() {
                fields.insert(key.to_owned(), value.clone());
            }
        }
        fields.retain(|_, value| !value.is_null());
    }
    Sample { endpoint, request }
}

const POD: [&str; 4] = ["", "v1", "Pod", "pods"];

fn pod(endpoint: Endpoint, containers: usize, matching: usize, numbers: &mut Random) -> Sample {
    request(endpoint, POD, "CREATE", &pod_object(containers, matching, numbers), &Value::Null)
}

/// Returns a Pod as a workload creates it, with this number of containers, matched by this number of sets.
fn pod_object(containers: usize, matching: usize, numbers: &mut Random) -> Value {
    let app = format!("shop-{}", numbers.below(1_000));
    let first = numbers.below(SETS - matching);
    let mut labels = json!({"app": app, "pod-template-hash": format!("{:010x}", numbers.below(1 << 40))});
    if let Some(labels) = labels.as_object_mut() {
        labels.extend((first..first + matching).map(|set| (label(set), json!("on"))));
    }
    let containers: Vec<Value> = (0..containers).map(|index| container(index, numbers)).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": format!("{app}-"), "namespace": format!("team-{}", numbers.below(50)), "labels": labels,
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "controller": true, "blockOwnerDeletion": true,
                "uid": format!("{:032x}", numbers.number()),
            }],
        },
        "spec": {
            "serviceAccountName": "default", "serviceAccount": "default", "restartPolicy": "Always",
            "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30,
            "containers": containers,
            "volumes": [
                {"name": "data", "emptyDir": {}},
                {"name": "kube-api-access-x7k2p", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                ]}},
            ],
        },
    })
}

fn container(index: usize, numbers: &mut Random) -> Value {
    let env: Vec<Value> = (0..12)
        .map(|variable| json!({"name": format!("SETTING_{variable}"), "value": format!("{:016x}", numbers.number())}))
        .collect();
    json!({
        "name": format!("app-{index}"), "image": format!("registry.example.com/shop/app:{}", numbers.below(500)),
        "imagePullPolicy": "IfNotPresent", "env": env,
        "ports": [{"containerPort": 8_000 + index, "protocol": "TCP"}],
        "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "50m", "memory": "128Mi"}},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "kube-api-access-x7k2p", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true},
        ],
    })
}

/// A Pod to be refused: one of its own containers has the name of a sidecar.
fn clash(numbers: &mut Random) -> Sample {
    let mut object = pod_object(2, 0, numbers);
    let set = SETS - 1;
    if let Some(name) = object.pointer_mut("/spec/containers/0/name") {
        *name = json!(format!("agent-{set:02}"));
    }
    if let Some(labels) = object.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.insert(label(set), json!("on"));
    }
    request(Endpoint::Mutate, POD, "CREATE", &object, &Value::Null)
}

fn sidecar_set_update(set: usize, numbers: &mut Random) -> Sample {
    let old = sidecar_set(set, numbers);
    let mut object = old.clone();
    if let Some(image) = object.pointer_mut("/spec/containers/0/image") {
        *image = json!(format!("registry.example.com/agents/next:{}", numbers.below(99)));
    }
    let resource = ["apps.kruise.io", "v1beta1", "SidecarSet", "sidecarsets"];
    request(Endpoint::Mutate, resource, "UPDATE", &object, &old)
}

/// A Deployment that names either a merged ServiceAccount or the default one.
fn workload(numbers: &mut Random) -> Sample {
    let account = if numbers.below(2) == 0 { "sidecarset-merged-0123456789" } else { "default" };
    let mut template = pod_object(2, 1, numbers);
    if let Some(fields) = template.pointer_mut("/spec").and_then(Value::as_object_mut) {
        fields.insert("serviceAccountName".to_owned(), json!(account));
        fields.remove("serviceAccount");
    }
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop", "namespace": "team-1"},
        "spec": {"replicas": 3, "template": {"metadata": {"labels": {"app": "shop"}}, "spec": template.pointer("/spec")}},
    });
    request(Endpoint::Validate, ["apps", "v1", "Deployment", "deployments"], "CREATE", &object, &Value::Null)
}

fn account(numbers: &mut Random) -> Sample {
    let name = format!("robot-{}", numbers.below(100));
    let old = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "team-1"}});
    let mut object = old.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.insert("automountServiceAccountToken".to_owned(), json!(false));
    }
    request(Endpoint::Validate, ["", "v1", "ServiceAccount", "serviceaccounts"], "UPDATE", &object, &old)
}

/// An ephemeral container added to a Pod.
fn ephemeral(numbers: &mut Random) -> Sample {
    let old = pod_object(2, 1, numbers);
    let mut object = old.clone();
    if let Some(spec) = object.pointer_mut("/spec").and_then(Value::as_object_mut) {
        spec.insert("ephemeralContainers".to_owned(), json!([{"name": "debugger", "image": "busybox", "tty": true}]));
    }
    let mut sample = request(Endpoint::Validate, POD, "UPDATE", &object, &old);
    if let Some(fields) = sample.request.as_object_mut() {
        fields.insert("subResource".to_owned(), json!("ephemeralcontainers"));
    }
    sample
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_mix() {
        let shown = |seed| samples(seed).iter().map(|sample| sample.request.to_string()).collect::<Vec<_>>();
        assert_eq!((settings(1), shown(1)), (settings(1), shown(1)));
        assert!(settings(1) != settings(2) && shown(1) != shown(2));
    }

    #[test]
    fn the_mix_has_small_and_large_requests_for_every_path() {
        let samples = samples(1);
        let paths: BTreeSet<_> = samples.iter().map(|sample| sample.endpoint).collect();
        assert_eq!(paths, BTreeSet::from(Endpoint::ALL));
        let sizes = || samples.iter().map(|sample| sample.request.to_string().len());
        assert!(sizes().min().unwrap() < 1_000 && sizes().max().unwrap() > 50_000, "{:?}", sizes().collect::<Vec<_>>());
    }
}
