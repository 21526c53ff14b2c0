//! Samples of requests that could undo or steal an identity, and of Shoots.

use pillion_bench::corpus::pods::NAMESPACE;
use pillion_bench::corpus::requests::{Resource, create, delete, update};
use serde_json::{Value, json};

use super::{clusters, gate, pods, sets, with};
use crate::cost::Input;

pub(super) fn inputs() -> Vec<Input> {
    let mut inputs = vec![ephemeral()];
    inputs.extend(running());
    inputs.extend(workloads());
    inputs.extend(accounts());
    inputs.extend(secrets());
    inputs.extend(trust_anchors());
    inputs.extend(shoots());
    inputs
}

fn guarded(name: &str, request: Value) -> Input {
    let settings =
        json!({"sidecarSets": [sets::rich("agent")], "featureGates": gate(), "serviceAccounts": sets::rules()});
    Input::validate(name, request).with("settings", settings).with("objects", clusters::objects()).about(&["/request"])
}

fn ephemeral() -> Input {
    let before = pods::web();
    let debugger = json!({
        "name": "debugger", "image": "registry.example.com/busybox:1.36", "command": ["sh"],
        "env": [{"name": "A", "value": "b"}], "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
        "volumeDevices": [{"name": "disk", "devicePath": "/dev/disk"}],
        "securityContext": {"privileged": false, "capabilities": {"add": ["SYS_PTRACE"]}},
    });
    let after = with(before.clone(), &json!({"spec": {"ephemeralContainers": [debugger]}}));
    guarded("guard/ephemeral", update(Resource::POD, "ephemeralcontainers", &before, &after))
}

/// Returns what the guards of running Pods judge: a forwarded port, another image, a requested token. The Pod has an
/// isolated sidecar.
fn running() -> Vec<Input> {
    let volume = "sidecarset-sa-0123456789abcdef";
    let token = json!({"secret": {"name": "sidecarset-token-0123456789abcdef"}});
    let holder = |image: &str| {
        json!({
            "name": "holder", "image": image,
            "volumeMounts": [{"name": volume, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
        })
    };
    let pod = |image: &str| {
        with(
            pods::web(),
            &json!({"metadata": {"name": "web-0", "namespace": NAMESPACE}, "spec": {
                "initContainers": [{"name": "setup", "image": "setup:1"}],
                "containers": [{"name": "web", "image": "web:1", "env": [{"name": "A", "value": "b"}]}, holder(image)],
                "ephemeralContainers": [{"name": "debugger", "image": "busybox", "targetContainerName": "holder"}],
                "volumes": [{"name": volume, "projected": {"sources": [token]}}],
            }}),
        )
    };
    let guarded = |name: &str, request: Value| {
        let rules = json!({"guards": {
            "exec": true, "execUsers": ["bob"], "images": true, "imageUsers": ["bob"], "breakGlassGroups": ["oncall"],
            "tokenRequests": true, "tokenRequestAccounts": [{"namespaces": ["team-*"], "names": ["a*b"]}],
        }});
        let settings = json!({"sidecarSets": [sets::rich("agent")], "featureGates": gate(), "serviceAccounts": rules});
        let mut objects = clusters::objects();
        if let Some(objects) = objects.as_array_mut() {
            objects.push(pod("holder:1"));
        }
        Input::validate(name, request).with("settings", settings).with("objects", objects)
    };
    let options = json!({"apiVersion": "v1", "kind": "PodPortForwardOptions", "ports": [8080]});
    let connect = with(
        create(Resource::POD, &options),
        &json!({
            "operation": "CONNECT", "subResource": "portforward", "name": "web-0", "namespace": NAMESPACE,
            "kind": {"kind": "PodPortForwardOptions"},
        }),
    );
    let wanted = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {"labels": {"a": "b"}},
        "spec": {"audiences": ["a"]},
    });
    let requested = with(
        create(Resource::SERVICE_ACCOUNT, &wanted),
        &json!({
            "subResource": "token", "name": "agent", "namespace": NAMESPACE,
            "kind": {"group": "authentication.k8s.io", "kind": "TokenRequest"},
        }),
    );
    vec![
        guarded("guard/connect", connect).about(&["/request", "/objects"]),
        guarded("guard/image", update(Resource::POD, "", &pod("holder:1"), &pod("holder:2"))).about(&["/request"]),
        guarded("guard/token-request", requested).about(&["/request", "/settings/serviceAccounts/guards"]),
    ]
}

fn workloads() -> Vec<Input> {
    let pod = pods::web();
    let part = |pointer| pod.pointer(pointer).cloned().unwrap_or_default();
    let template = json!({"metadata": {"labels": part("/metadata/labels")}, "spec": part("/spec")});
    let workload = |resource: Resource, spec: Value| {
        let after = json!({
            "apiVersion": resource.api_version(), "kind": resource.kind(),
            "metadata": {"name": "web", "namespace": NAMESPACE, "labels": {"a": "b"}}, "spec": spec,
        });
        let before = with(after.clone(), &json!({"spec": {"replicas": 1}}));
        [
            guarded(&format!("template/{}/create", resource.kind()), create(resource, &after)),
            guarded(&format!("template/{}/update", resource.kind()), update(resource, "", &before, &after)).about(&[]),
        ]
    };
    let plain = || json!({"template": template, "selector": {"matchLabels": {"app": "web"}}});
    let mut inputs = Vec::new();
    for resource in Resource::WORKLOADS {
        // The policy reads all workloads alike, so only one of them grows in a brief survey.
        let is_read_alike = resource.kind() != Resource::DEPLOYMENT.kind();
        let [create, update] = workload(resource, plain());
        inputs.extend([if is_read_alike { create.about(&[]) } else { create }, update]);
    }
    inputs.extend(workload(Resource::CRON_JOB, json!({"jobTemplate": {"spec": plain()}})));
    inputs
}

fn accounts() -> Vec<Input> {
    let merged = clusters::merged();
    let resources = [Resource::SERVICE_ACCOUNT, Resource::ROLE, Resource::ROLE_BINDING];
    let mut inputs = Vec::new();
    for (resource, object) in resources.into_iter().zip(merged) {
        let after = with(object.clone(), &json!({"metadata": {"labels": {"changed": "yes"}}}));
        inputs.push(guarded(&format!("guard/{}/update", resource.kind()), update(resource, "", &object, &after)));
        inputs.push(guarded(&format!("guard/{}/delete", resource.kind()), delete(resource, &object)));
    }
    let robot = |secret: &str| {
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "agent", "namespace": NAMESPACE, "annotations": {"a": "b"}},
            "secrets": [{"name": secret}], "imagePullSecrets": [{"name": "registry"}],
        })
    };
    let (before, after) = (robot("token"), robot("sidecarset-token-0123456789abcdef"));
    inputs.push(guarded("guard/account/update", update(Resource::SERVICE_ACCOUNT, "", &before, &after)));
    inputs.push(guarded("guard/account/delete", delete(Resource::SERVICE_ACCOUNT, &before)));
    inputs
}

fn secrets() -> Vec<Input> {
    let secret = |account: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
            "metadata": {
                "name": "robot-token", "namespace": NAMESPACE, "labels": {"a": "b"},
                "annotations": {"kubernetes.io/service-account.name": account},
            },
            "data": {"token": "YQ=="}, "stringData": {"a": "b"},
        })
    };
    let (before, after) = (secret("agent"), secret("robot"));
    vec![
        guarded("guard/secret/create", create(Resource::SECRET, &after)),
        guarded("guard/secret/update", update(Resource::SECRET, "", &before, &after)),
    ]
}

fn trust_anchors() -> Vec<Input> {
    let authority = |certificates: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "kube-root-ca.crt", "namespace": NAMESPACE, "labels": {"a": "b"}, "annotations": {"a": "b"},
                "finalizers": ["example.com/a"],
                "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"}],
            },
            "data": {"ca.crt": certificates}, "binaryData": {"a": "YQ=="},
        })
    };
    let service = |port: u16| {
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "kubernetes", "namespace": NAMESPACE, "labels": {"a": "b"}},
            "spec": {"ports": [{"port": port}], "selector": {"app": "web"}},
        })
    };
    let (before, after) = (authority("one"), authority("one"));
    vec![
        guarded("guard/authority/create", create(Resource::CONFIG_MAP, &after)),
        guarded("guard/authority/update", update(Resource::CONFIG_MAP, "", &before, &after)),
        guarded("guard/authority/delete", delete(Resource::CONFIG_MAP, &before)),
        guarded("guard/service/update", update(Resource::SERVICE, "", &service(443), &service(443))),
    ]
}

fn shoots() -> Vec<Input> {
    let shoot = |issuer: &str| {
        json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot",
            "metadata": {
                "name": "shoot", "namespace": "garden-dev", "uid": "u",
                "annotations": {"pillion.dev/acknowledge-removed-issuer": "https://old.example.com"},
            },
            "spec": {"kubernetes": {"version": "1.34.1", "kubeAPIServer": {"serviceAccountConfig": {
                "issuer": issuer, "acceptedIssuers": ["https://old.example.com", "https://older.example.com"],
                "maxTokenExpiration": "1080h30m", "extendTokenExpiration": false,
            }}}},
        })
    };
    let (before, after) = (shoot("https://one.example.com"), shoot("https://two.example.com"));
    let settings = json!({"shoots": {
        "enabled": true, "migration": "Deny",
        "pathPrefixes": ["spec.kubernetes.kubeAPIServer", "spec.virtualCluster.kubernetes.kubeAPIServer"],
    }});
    vec![
        Input::validate("shoot/create", create(Resource::SHOOT, &after)).with("settings", settings.clone()),
        Input::validate("shoot/update", update(Resource::SHOOT, "", &before, &after)).with("settings", settings),
    ]
}
