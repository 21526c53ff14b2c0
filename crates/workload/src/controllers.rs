//! What each of Kubernetes' controllers gives the Pods that it creates, beyond their templates.

use pillion_kubernetes::json::{self, Object};
use serde_json::{Value, json};

use crate::{Template, claims};

/// Placeholder for cluster-dependent values of a controller: a hash, a uid, the name of a node.
pub const UNKNOWN: &str = "preview";

const JOB_INDEX: &str = "batch.kubernetes.io/job-completion-index";
const JOB_INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// The taints that Pods of a `DaemonSet` tolerate, with their effects.
const DAEMON_TAINTS: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// The taint that those in the node's network tolerate, too.
const NETWORK_TAINT: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// The object that creates a Pod.
pub struct Owner<'a> {
    /// The manifest with the Pod template: the owner itself, or what makes the owner.
    pub object: &'a Value,
    /// The place of the template.
    pub template: &'a Template,
    /// The kind of the owner.
    pub kind: &'a str,
    /// The name of the owner.
    pub name: &'a str,
}

/// The parts of a Pod that a controller changes.
pub struct Parts {
    /// `metadata`.
    pub metadata: Object,
    /// `spec`.
    pub spec: Value,
}

impl Parts {
    fn label(&mut self, key: &str, value: &str) {
        self.note("labels", key, value);
    }

    fn note(&mut self, map: &str, key: &str, value: &str) {
        if let Some(map) = json::object_mut(&mut self.metadata, map) {
            map.insert(key.to_owned(), value.into());
        }
    }

    fn set(&mut self, key: &str, value: impl Into<Value>) {
        if let Some(spec) = self.spec.as_object_mut() {
            spec.insert(key.to_owned(), value.into());
        }
    }
}

impl Owner<'_> {
    /// Changes a Pod as the owner's controller does.
    pub fn complete(&self, pod: &mut Parts) {
        match self.kind {
            "ReplicaSet" => self.replica_set(pod),
            "StatefulSet" => self.stateful_set(pod),
            "CloneSet" => self.clone_set(pod),
            "DaemonSet" => self.daemon_set(pod),
            "Job" => self.job(pod),
            _ => {}
        }
    }

    /// Returns the spec of the owner, which has the Pod template.
    fn spec(&self) -> &Value {
        self.template.owner_spec(self.object).unwrap_or(&Value::Null)
    }

    /// A `ReplicaSet` labels no Pods: the Deployment that makes it puts the label into its template.
    fn replica_set(&self, pod: &mut Parts) {
        match json::text(self.object, &["kind"]) {
            "ReplicaSet" => {}
            "Rollout" => pod.label("rollouts-pod-template-hash", UNKNOWN),
            _ => pod.label("pod-template-hash", UNKNOWN),
        }
    }

    fn stateful_set(&self, pod: &mut Parts) {
        let ordinal = json::at(self.spec(), &["ordinals", "start"]).and_then(Value::as_u64).unwrap_or_default();
        let name = format!("{}-{ordinal}", self.name);
        pod.label("controller-revision-hash", UNKNOWN);
        pod.label("statefulset.kubernetes.io/pod-name", &name);
        pod.label("apps.kubernetes.io/pod-index", &ordinal.to_string());
        pod.set("hostname", name.as_str());
        if let Some(spec) = pod.spec.as_object_mut() {
            claims::mount(self.object, self.template, &name, spec);
            spec.remove("subdomain");
        }
        let service = json::text(self.spec(), &["serviceName"]);
        if !service.is_empty() {
            pod.set("subdomain", service);
        }
        pod.metadata.insert("name".to_owned(), name.into());
    }

    /// A `CloneSet` of OpenKruise names its Pods and their claims by an id that it draws.
    fn clone_set(&self, pod: &mut Parts) {
        let name = format!("{}-{UNKNOWN}", self.name);
        for key in ["apps.kruise.io/cloneset-instance-id", "controller-revision-hash", "pod-template-hash"] {
            pod.label(key, UNKNOWN);
        }
        if let Some(spec) = pod.spec.as_object_mut() {
            claims::mount(self.object, self.template, &name, spec);
        }
        pod.metadata.insert("name".to_owned(), name.into());
    }

    fn daemon_set(&self, pod: &mut Parts) {
        let generation =
            json::text(self.object, &["metadata", "annotations", "deprecated.daemonset.template.generation"]);
        pod.label("controller-revision-hash", UNKNOWN);
        pod.label("pod-template-generation", if generation.is_empty() { "1" } else { generation });
        let is_in_network = json::flag(&pod.spec, &["hostNetwork"]);
        let Some(spec) = pod.spec.as_object_mut() else { return };
        let node = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [UNKNOWN]}]});
        if let Some(affinity) = json::object_mut(spec, "affinity").and_then(|it| json::object_mut(it, "nodeAffinity")) {
            affinity.insert(
                "requiredDuringSchedulingIgnoredDuringExecution".to_owned(),
                json!({"nodeSelectorTerms": [node]}),
            );
        }
        let Some(tolerations) = json::list_mut(spec, "tolerations") else { return };
        for (key, effect) in DAEMON_TAINTS.into_iter().chain(is_in_network.then_some(NETWORK_TAINT)) {
            let toleration = json!({"key": key, "operator": "Exists", "effect": effect});
            let is_it = |other: &Value| {
                ["key", "operator", "effect", "value"]
                    .iter()
                    .all(|key| json::text(other, &[key]) == json::text(&toleration, &[key]))
            };
            let same: Vec<&mut Value> = tolerations.iter_mut().filter(|other| is_it(other)).collect();
            if same.is_empty() {
                tolerations.push(toleration);
            } else {
                for other in same {
                    *other = toleration.clone();
                }
            }
        }
    }

    fn job(&self, pod: &mut Parts) {
        // The API server puts these labels into the template of a Job, unless its author chooses the selector.
        if !json::flag(self.spec(), &["manualSelector"]) {
            for key in ["controller-uid", "batch.kubernetes.io/controller-uid"] {
                pod.label(key, UNKNOWN);
            }
            for key in ["job-name", "batch.kubernetes.io/job-name"] {
                pod.label(key, self.name);
            }
        }
        if let Some(finalizers) = json::list_mut(&mut pod.metadata, "finalizers") {
            finalizers.push("batch.kubernetes.io/job-tracking".into());
        }
        if json::text(self.spec(), &["completionMode"]) == "Indexed" {
            self.first_index(pod);
        }
    }

    /// Makes a Pod that of the first index of a Job.
    fn first_index(&self, pod: &mut Parts) {
        pod.label(JOB_INDEX, "0");
        pod.note("annotations", JOB_INDEX, "0");
        if json::at(self.spec(), &["backoffLimitPerIndex"]).is_some_and(|limit| !limit.is_null()) {
            pod.note("annotations", "batch.kubernetes.io/job-index-failure-count", "0");
        }
        pod.metadata.insert("generateName".to_owned(), format!("{}-0-", self.name).into());
        pod.set("hostname", format!("{}-0", self.name));
        let index = json!({
            "name": JOB_INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": format!("metadata.labels['{JOB_INDEX}']")}}
        });
        for list in ["initContainers", "containers"] {
            let containers = pod.spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
            for env in containers.filter_map(Value::as_object_mut).filter_map(|it| json::list_mut(it, "env")) {
                if env.iter().all(|variable| json::text(variable, &["name"]) != JOB_INDEX_VARIABLE) {
                    env.push(index.clone());
                }
            }
        }
    }
}
