//! Renders a process of Pillion in the cluster: a Deployment and its related objects.

use pillion_kubernetes::json;
use pillion_kubernetes::paths;
use serde_json::{Value, json};

use super::document::{Document, PART_OF, PILLION, metadata, selector};
use super::insert;
use super::options::Deployment;

/// The file of the ServiceAccount and its roles.
pub const RBAC: &str = "02-rbac";
/// The folder where the settings are mounted. The whole folder is mounted, so that changes reach the process.
pub const SETTINGS_FOLDER: &str = "/etc/pillion";
/// The settings file in that folder.
pub const SETTINGS_FILE: &str = "settings.yaml";
/// The user and group of the image.
const USER: u32 = 65532;

/// The properties that all objects of a process share.
#[derive(Clone, Copy, Debug)]
pub struct Process<'a> {
    /// The name of the objects.
    pub name: &'a str,
    /// The value of `app.kubernetes.io/component`, also used in comments.
    pub component: &'static str,
    /// The options of its Deployment.
    options: &'a Deployment,
    /// Whether its Pods run in the network of their nodes.
    host_network: bool,
}

/// The container of a process.
#[derive(Clone, Debug)]
pub struct Container {
    /// The command line, without `pillion`.
    pub arguments: Vec<String>,
    /// Names and numbers of its ports. The probes use the port named `health`.
    pub ports: Vec<(&'static str, u16)>,
    /// The value of `resources`.
    pub resources: Value,
    /// The volumes besides the settings: name, mount path and source.
    pub volumes: Vec<(&'static str, &'static str, Value)>,
    /// The seconds between SIGTERM and SIGKILL.
    pub grace: u32,
}

/// Returns the path of the mounted settings file.
pub fn mounted_settings() -> String {
    format!("{SETTINGS_FOLDER}/{SETTINGS_FILE}")
}

/// Returns the text of the settings if `object` was rendered by [`Process::settings`].
pub fn settings_in(object: &Value) -> Option<&str> {
    let is_ours = json::text(object, &["apiVersion"]) == "v1"
        && json::text(object, &["kind"]) == "ConfigMap"
        && json::text(object, &["metadata", "labels", PART_OF]) == PILLION;
    json::at(object, &["data", SETTINGS_FILE]).and_then(Value::as_str).filter(|_| is_ours)
}

/// Turns a note into a sentence for a comment.
fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

impl<'a> Process<'a> {
    /// Returns the process named `name`.
    pub fn new(name: &'a str, component: &'static str, options: &'a Deployment) -> Self {
        Self { name, component, options, host_network: false }
    }

    /// Returns the process with its Pods in the network of their nodes, if `host_network`.
    #[must_use]
    pub fn with_host_network(self, host_network: bool) -> Self {
        Self { host_network, ..self }
    }

    fn metadata(&self, name: &str, namespace: Option<&str>) -> Value {
        metadata(name, namespace, self.name, self.component, &Value::Null)
    }

    /// Returns an object in the namespace of the process, with `rest` besides its metadata.
    pub fn object(&self, api_version: &str, kind: &str, name: &str, rest: Value) -> Value {
        let mut object = json!({
            "apiVersion": api_version, "kind": kind, "metadata": self.metadata(name, Some(&self.options.namespace)),
        });
        if let (Some(object), Value::Object(rest)) = (object.as_object_mut(), rest) {
            object.extend(rest);
        }
        object
    }

    /// Returns the selector of its Pods.
    pub fn pods(&self) -> Value {
        json!({"matchLabels": selector(self.name, self.component)})
    }

    /// Returns its namespace.
    pub fn namespace(&self) -> Document {
        let mut metadata = self.metadata(&self.options.namespace, None);
        if let Some(labels) = metadata.get_mut("labels") {
            // The Pod Security Standards allow Pods in the network of their nodes with "privileged" alone.
            let level = if self.host_network { "privileged" } else { "restricted" };
            insert(labels, "pod-security.kubernetes.io/enforce", level.into());
        }
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        let about = format!("The {}'s namespace. Nothing is injected into its Pods.", self.component);
        Document::new("01-namespace", about, object)
    }

    /// Returns its ServiceAccount.
    pub fn service_account(&self) -> Document {
        let rest = json!({"automountServiceAccountToken": false});
        let account = self.object("v1", "ServiceAccount", self.name, rest);
        Document::new(RBAC, format!("The {}'s ServiceAccount.", self.component), account)
    }

    /// Returns the name of the ConfigMap with the settings.
    fn settings_name(&self) -> String {
        format!("{}-settings", self.name)
    }

    /// Returns the ConfigMap with the settings.
    pub fn settings(&self, text: &str) -> Document {
        let config_map = self.object("v1", "ConfigMap", &self.settings_name(), json!({"data": {SETTINGS_FILE: text}}));
        let about = format!(
            "The settings. The {} reads them again when they change, about a minute after they are applied, and keeps \
             the old ones where the new ones are invalid: nothing has to be restarted.",
            self.component
        );
        Document::new("03-settings", about, config_map)
    }

    /// Returns the Deployment.
    pub fn deployment(&self, container: &Container) -> Document {
        let labels = self.metadata("", None).get("labels").cloned().unwrap_or_default();
        let settings = json!({"name": "settings", "configMap": {"name": self.settings_name()}});
        let mut volumes = vec![settings];
        let mut mounts = vec![json!({"name": "settings", "mountPath": SETTINGS_FOLDER, "readOnly": true})];
        for (name, path, source) in &container.volumes {
            let mut volume = source.clone();
            insert(&mut volume, "name", (*name).into());
            volumes.push(volume);
            mounts.push(json!({"name": name, "mountPath": path, "readOnly": true}));
        }
        let mut nodes = json!({"kubernetes.io/os": "linux"});
        for (key, value) in &self.options.node_selector {
            insert(&mut nodes, key, value.as_str().into());
        }
        let mut pod = json!({
            "serviceAccountName": self.name,
            "automountServiceAccountToken": true,
            "securityContext": {
                "runAsNonRoot": true,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "terminationGracePeriodSeconds": container.grace,
            "nodeSelector": nodes,
            "topologySpreadConstraints": [
                self.spread("kubernetes.io/hostname"),
                self.spread("topology.kubernetes.io/zone"),
            ],
            "containers": [self.container(container, &mounts)],
            "volumes": volumes,
        });
        if let Some(class) = &self.options.priority_class {
            insert(&mut pod, "priorityClassName", class.as_str().into());
        }
        // A new Pod is ready before an old one stops, unless both need the same ports of a node.
        let (surge, unavailable) = if self.host_network { (0, 1) } else { (1, 0) };
        if self.host_network {
            insert(&mut pod, "hostNetwork", true.into());
            insert(&mut pod, "dnsPolicy", "ClusterFirstWithHostNet".into());
        }
        let spec = json!({
            "replicas": self.options.replicas,
            "selector": self.pods(),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        });
        let deployment = self.object("apps/v1", "Deployment", self.name, json!({"spec": spec}));
        let placeholder = self.options.note().map(|note| format!("{note}.")).unwrap_or_default();
        Document::new("06-deployment", format!("The {}.", self.component), deployment)
            .with_comment("/spec/template/spec/containers/0/image", capitalised(&placeholder))
            .with_comment("/spec/template/spec/automountServiceAccountToken", "It reads the cluster.")
            .with_comment(
                "/spec/template/spec/topologySpreadConstraints",
                "On several nodes and in several zones, where there are any.",
            )
    }

    fn spread(&self, key: &str) -> Value {
        json!({
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": self.pods(),
        })
    }

    fn container(&self, container: &Container, mounts: &[Value]) -> Value {
        let ports: Vec<Value> = container
            .ports
            .iter()
            .map(|(name, port)| json!({"name": name, "containerPort": port, "protocol": "TCP"}))
            .collect();
        let probe = |path: &str, period: u32, failures: u32| json!({"httpGet": {"path": path, "port": "health"}, "periodSeconds": period, "failureThreshold": failures});
        json!({
            "name": "pillion",
            "image": self.options.image(),
            "args": container.arguments,
            "ports": ports,
            // The process may first have to compile a module or list objects.
            "startupProbe": probe(paths::HEALTHZ, 2, 150),
            "livenessProbe": probe(paths::HEALTHZ, 10, 3),
            "readinessProbe": probe(paths::READYZ, 5, 2),
            "resources": container.resources,
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": mounts,
        })
    }

    /// Returns the PodDisruptionBudget.
    pub fn disruption_budget(&self) -> Document {
        let spec = json!({
            "maxUnavailable": 1,
            "selector": self.pods(),
            // A Pod that is not ready anyway does not block the drain of a node.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        });
        let budget = self.object("policy/v1", "PodDisruptionBudget", self.name, json!({"spec": spec}));
        let about = format!("Drains take one {} at a time.", self.component);
        Document::new("07-pod-disruption-budget", about, budget)
    }

    /// Returns the NetworkPolicy: ingress on these ports, egress to the API server.
    pub fn network_policy(&self, listens: &[u16], about: String, from: &str) -> Document {
        let ports =
            |ports: &[u16]| -> Value { ports.iter().map(|port| json!({"protocol": "TCP", "port": port})).collect() };
        let spec = json!({
            "podSelector": self.pods(),
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": ports(listens)}],
            "egress": [{"ports": ports(&self.options.api_server_ports)}],
        });
        let policy = self.object("networking.k8s.io/v1", "NetworkPolicy", self.name, json!({"spec": spec}));
        Document::new("08-network-policy", about, policy)
            .with_comment("/spec/ingress", from)
            .with_comment("/spec/egress", "The ports of the API server, before and behind its Service.")
    }
}
