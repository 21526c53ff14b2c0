//! The server itself: a Deployment, and what belongs to it.

use pillion_host::server::paths;
use serde_json::{Value, json};

use super::super::document::{Document, metadata, selector};
use super::super::insert;
use super::super::needs::Needs;
use super::super::options::{Certificates, Standalone};
use super::{pods, server};

/// The file of the ServiceAccount and of what it may do.
pub const RBAC: &str = "02-rbac";
/// That of the image.
const USER: u32 = 65532;
/// Time to be taken out of the Service, and to answer what is under way.
const GRACE: u32 = 40;

/// An object in the server's namespace.
fn object(options: &Standalone, api_version: &str, kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": metadata(name, Some(&options.namespace), &options.common.name, server::COMPONENT, &Value::Null),
    })
}

fn with(mut object: Value, key: &str, value: Value) -> Value {
    insert(&mut object, key, value);
    object
}

/// The server's namespace.
pub fn namespace(options: &Standalone) -> Document {
    let mut metadata = metadata(&options.namespace, None, &options.common.name, server::COMPONENT, &Value::Null);
    if let Some(labels) = metadata.get_mut("labels") {
        insert(labels, "pod-security.kubernetes.io/enforce", "restricted".into());
    }
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
    Document::new("01-namespace", "The server's namespace. Nothing is injected into its Pods.", object)
}

/// Under which the server runs.
pub fn service_account(options: &Standalone) -> Document {
    let account = object(options, "v1", "ServiceAccount", &options.common.name);
    let account = with(account, "automountServiceAccountToken", false.into());
    Document::new(RBAC, "Under which the server runs.", account)
}

/// The name of the ConfigMap with the settings.
fn settings_name(options: &Standalone) -> String {
    format!("{}-settings", options.common.name)
}

/// The settings.
pub fn settings(options: &Standalone, text: &str) -> Document {
    let config_map = object(options, "v1", "ConfigMap", &settings_name(options));
    let about = "The settings. The server reads them again when they change, about a minute after they are applied, and \
                 keeps the old ones where the new ones are invalid: nothing has to be restarted.";
    Document::new("03-settings", about, with(config_map, "data", json!({server::SETTINGS_FILE: text})))
}

/// What the API server calls.
pub fn service(options: &Standalone) -> Document {
    let service = object(options, "v1", "Service", &options.common.name);
    let port = |name: &str, port: u16, target: &str| json!({"name": name, "port": port, "targetPort": target, "protocol": "TCP"});
    let spec = json!({
        "selector": selector(&options.common.name, server::COMPONENT),
        "ports": [port("https", server::SERVICE_PORT, "https"), port("metrics", server::HEALTH_PORT, "health")],
    });
    let about = "What the API server calls. Prometheus finds /metrics on the port of this name.";
    Document::new("05-service", about, with(service, "spec", spec))
}

/// The server.
pub fn deployment(options: &Standalone, needs: &Needs) -> Document {
    let labels = metadata("", None, &options.common.name, server::COMPONENT, &Value::Null);
    let labels = labels.get("labels").cloned().unwrap_or_default();
    let settings = json!({"name": "settings", "configMap": {"name": settings_name(options)}});
    let mut volumes = vec![settings];
    let mut mounts = vec![json!({"name": "settings", "mountPath": server::SETTINGS_FOLDER, "readOnly": true})];
    if options.certificates != Certificates::SelfSigned {
        volumes.push(json!({"name": "tls", "secret": {"secretName": options.tls_secret}}));
        mounts.push(json!({"name": "tls", "mountPath": server::TLS_FOLDER, "readOnly": true}));
    }
    let mut pod = json!({
        "serviceAccountName": options.common.name,
        "automountServiceAccountToken": true,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": GRACE,
        "topologySpreadConstraints": [
            spread(options, "kubernetes.io/hostname"),
            spread(options, "topology.kubernetes.io/zone"),
        ],
        "containers": [container(options, needs, &mounts)],
        "volumes": volumes,
    });
    if let Some(class) = &options.priority_class {
        insert(&mut pod, "priorityClassName", class.as_str().into());
    }
    let spec = json!({
        "replicas": options.replicas,
        "selector": pods(options),
        // A new server is there before an old one goes.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    });
    let deployment = object(options, "apps/v1", "Deployment", &options.common.name);
    Document::new("06-deployment", "The server.", with(deployment, "spec", spec))
        .with_comment("/spec/template/spec/automountServiceAccountToken", "It reads the cluster.")
        .with_comment(
            "/spec/template/spec/topologySpreadConstraints",
            "On several nodes and in several zones, where there are any.",
        )
}

fn spread(options: &Standalone, key: &str) -> Value {
    json!({
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": pods(options),
    })
}

fn container(options: &Standalone, needs: &Needs, mounts: &[Value]) -> Value {
    let port = |name: &str, port: u16| json!({"name": name, "containerPort": port, "protocol": "TCP"});
    let probe = |path: &str, period: u32, failures: u32| json!({"httpGet": {"path": path, "port": "health"}, "periodSeconds": period, "failureThreshold": failures});
    json!({
        "name": "pillion",
        "image": options.image,
        "args": server::arguments(options, needs),
        "ports": [port("https", server::PORT), port("health", server::HEALTH_PORT)],
        // The module is compiled first.
        "startupProbe": probe(paths::HEALTHZ, 2, 30),
        "livenessProbe": probe(paths::HEALTHZ, 10, 3),
        "readinessProbe": probe(paths::READYZ, 5, 2),
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    })
}

/// How many servers may be taken away at once.
pub fn disruption_budget(options: &Standalone) -> Document {
    let budget = object(options, "policy/v1", "PodDisruptionBudget", &options.common.name);
    let spec = json!({
        "maxUnavailable": 1,
        "selector": pods(options),
        // A server that is broken anyway does not keep a node from being drained.
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    });
    Document::new("07-pod-disruption-budget", "Drains take one server at a time.", with(budget, "spec", spec))
}

/// Who talks to the server, and to whom it talks.
pub fn network_policy(options: &Standalone) -> Document {
    let policy = object(options, "networking.k8s.io/v1", "NetworkPolicy", &options.common.name);
    let ports =
        |ports: &[u16]| -> Value { ports.iter().map(|port| json!({"protocol": "TCP", "port": port})).collect() };
    let spec = json!({
        "podSelector": pods(options),
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": ports(&[server::PORT, server::HEALTH_PORT])}],
        "egress": [{"ports": ports(&options.api_server_ports)}],
    });
    let about = "The server is called by the API server, the kubelet and Prometheus, and calls the API server.";
    Document::new("08-network-policy", about, with(policy, "spec", spec))
        .with_comment("/spec/ingress", "From anywhere: no selector knows where the API server runs.")
        .with_comment("/spec/egress", "The ports of the API server, before and behind its Service.")
}
