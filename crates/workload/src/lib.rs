//! Pod templates in objects, and the Pods that controllers create from them.
//!
//! An object is a workload if it has a Pod template under a key named `template` or `...Template`, even if its kind is
//! unknown. Known kinds must have one ([`shape`]).

#![forbid(unsafe_code)]

pub mod admission;
pub mod carry;
mod claims;
mod controllers;
mod label;
pub mod pod;
mod pod_defaults;
pub mod request;
pub mod settings;
pub mod shape;

use pillion_kubernetes::json;
use pillion_yaml::token;
use serde_json::Value;

pub use self::label::label;

/// The maximum depth of the search for templates. The deepest known one is at 6, in the list of a `JobSet`.
const DEPTH: usize = 10;

/// The place of a Pod template in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The JSON pointer: `""` for a Pod, `/spec/template` for most workloads.
    pub pointer: String,
    /// The kind of the Pod's owner, such as `ReplicaSet` for the Pods of a Deployment. `None` for a Pod.
    pub owner: Option<OwnerKind>,
}

/// The kind of the owner of Pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerKind {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
}

impl OwnerKind {
    fn new((_, api_version, kind): &(&str, &str, &str)) -> Self {
        Self { api_version: (*api_version).to_owned(), kind: (*kind).to_owned() }
    }
}

impl Template {
    /// Returns the spec that has the template beside other fields of the Pod's owner; `None` for a Pod.
    fn owner_spec<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        object.pointer(self.pointer.rsplit_once('/')?.0)
    }
}

/// Kinds that create Pods through another kind, with the apiVersion and kind of the Pods' owner.
const MADE_BY: [(&str, &str, &str); 4] = [
    ("Deployment", "apps/v1", "ReplicaSet"),
    ("Rollout", "apps/v1", "ReplicaSet"),
    ("CronJob", "batch/v1", "Job"),
    ("JobSet", "batch/v1", "Job"),
];

/// Keys of nested templates, with the apiVersion and kind of the Pods' owner below them.
const MADE_BELOW: [(&str, &str, &str); 6] = [
    ("jobTemplate", "batch/v1", "Job"),
    ("broadcastJobTemplate", "apps.kruise.io/v1beta1", "BroadcastJob"),
    ("statefulSetTemplate", "apps/v1", "StatefulSet"),
    ("advancedStatefulSetTemplate", "apps.kruise.io/v1beta1", "StatefulSet"),
    ("cloneSetTemplate", "apps.kruise.io/v1beta1", "CloneSet"),
    ("deploymentTemplate", "apps/v1", "ReplicaSet"),
];

/// Returns the Pod templates of an object, in the order of their pointers; empty if it is neither a Pod nor a workload.
pub fn templates(object: &Value) -> Vec<Template> {
    let kind = json::text(object, &["kind"]);
    let api_version = json::text(object, &["apiVersion"]);
    if kind == "Pod" && api_version == "v1" {
        return vec![Template { pointer: String::new(), owner: None }];
    }
    let made_by = MADE_BY.iter().find(|(maker, _, _)| *maker == kind);
    let owner = OwnerKind::new(made_by.unwrap_or(&("", api_version, kind)));
    let mut found = Vec::new();
    search(object, &mut String::new(), &owner, DEPTH, &mut found);
    found
}

fn search(value: &Value, pointer: &mut String, owner: &OwnerKind, depth: usize, found: &mut Vec<Template>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let length = pointer.len();
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                pointer.push('/');
                pointer.push_str(&token(key));
                if is_template(key, value) {
                    found.push(Template { pointer: pointer.clone(), owner: Some(owner.clone()) });
                } else {
                    let below = MADE_BELOW.iter().find(|(name, _, _)| name == key).map(OwnerKind::new);
                    search(value, pointer, below.as_ref().unwrap_or(owner), depth, found);
                }
                pointer.truncate(length);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pointer.push('/');
                pointer.push_str(&index.to_string());
                // Lists of Pod templates are rare, but Volcano and JobSet have lists of objects with a template.
                search(item, pointer, owner, depth, found);
                pointer.truncate(length);
            }
        }
        _ => {}
    }
}

fn is_named_as_template(key: &str) -> bool {
    key == "template" || key.ends_with("Template")
}

/// Whether a value is a Pod template: its key is named like one, and its `spec` has named containers.
fn is_template(key: &str, value: &Value) -> bool {
    let containers = json::items(value, &["spec", "containers"]);
    is_named_as_template(key)
        && !containers.is_empty()
        && containers.iter().all(|container| container.get("name").is_some())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn template() -> Value {
        json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    }

    fn under(keys: &[&str]) -> Value {
        keys.iter().rev().fold(template(), |value, key| json!({ *key: value }))
    }

    #[rstest]
    #[case::deployment("apps/v1", "Deployment", &["spec", "template"], "ReplicaSet")]
    #[case::replica_set("apps/v1", "ReplicaSet", &["spec", "template"], "ReplicaSet")]
    #[case::stateful_set("apps/v1", "StatefulSet", &["spec", "template"], "StatefulSet")]
    #[case::daemon_set("apps/v1", "DaemonSet", &["spec", "template"], "DaemonSet")]
    #[case::replication_controller("v1", "ReplicationController", &["spec", "template"], "ReplicationController")]
    #[case::job("batch/v1", "Job", &["spec", "template"], "Job")]
    #[case::cron_job("batch/v1", "CronJob", &["spec", "jobTemplate", "spec", "template"], "Job")]
    #[case::pod_template("v1", "PodTemplate", &["template"], "PodTemplate")]
    #[case::clone_set("apps.kruise.io/v1alpha1", "CloneSet", &["spec", "template"], "CloneSet")]
    #[case::broadcast_job("apps.kruise.io/v1alpha1", "BroadcastJob", &["spec", "template"], "BroadcastJob")]
    #[case::advanced_cron_job(
        "apps.kruise.io/v1alpha1", "AdvancedCronJob", &["spec", "template", "jobTemplate", "spec", "template"], "Job"
    )]
    #[case::advanced_cron_job_of_broadcast_jobs(
        "apps.kruise.io/v1alpha1", "AdvancedCronJob",
        &["spec", "template", "broadcastJobTemplate", "spec", "template"], "BroadcastJob"
    )]
    #[case::united_deployment(
        "apps.kruise.io/v1alpha1", "UnitedDeployment",
        &["spec", "template", "advancedStatefulSetTemplate", "spec", "template"], "StatefulSet"
    )]
    #[case::united_deployment_of_deployments(
        "apps.kruise.io/v1alpha1", "UnitedDeployment",
        &["spec", "template", "deploymentTemplate", "spec", "template"], "ReplicaSet"
    )]
    #[case::rollout("argoproj.io/v1alpha1", "Rollout", &["spec", "template"], "ReplicaSet")]
    #[case::leader_worker_set(
        "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", &["spec", "leaderWorkerTemplate", "workerTemplate"],
        "LeaderWorkerSet"
    )]
    #[case::scaled_job("keda.sh/v1alpha1", "ScaledJob", &["spec", "jobTargetRef", "template"], "ScaledJob")]
    fn templates_are_found_where_workloads_have_them(
        #[case] api_version: &str,
        #[case] kind: &str,
        #[case] keys: &[&str],
        #[case] owner: &str,
    ) {
        let mut object = under(keys);
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(kind);
        let found = templates(&object);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].pointer, format!("/{}", keys.join("/")));
        assert_eq!(found[0].owner.as_ref().map(|owner| owner.kind.as_str()), Some(owner));
        assert_eq!(object.pointer(&found[0].pointer), Some(&template()));
    }

    #[test]
    fn several_templates_of_one_object_are_found() {
        let object = json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "spec": {"replicatedJobs": [
                {"name": "a", "template": {"spec": {"template": template()}}},
                {"name": "b", "template": {"spec": {"template": template()}}}
            ]}
        });
        let pointers: Vec<String> = templates(&object).into_iter().map(|template| template.pointer).collect();
        assert_eq!(
            pointers,
            ["/spec/replicatedJobs/0/template/spec/template", "/spec/replicatedJobs/1/template/spec/template"]
        );
    }

    #[rstest]
    #[case::service(json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": []}}))]
    #[case::sidecar_set(json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "spec": {"containers": [{"name": "c"}]}
    }))]
    #[case::rollout_of_another_workload(json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "spec": {"workloadRef": {"kind": "Deployment"}}
    }))]
    #[case::image_pull_job(json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob", "spec": {"image": "i"}}))]
    #[case::another_pod(json!({"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics", "containers": [{"name": "c"}]}))]
    #[case::schema(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "spec": {"template": {"spec": {"containers": {"type": "array"}}}}
    }))]
    #[case::no_object(json!("text"))]
    fn other_objects_have_none(#[case] object: Value) {
        assert_eq!(templates(&object), []);
    }
}
