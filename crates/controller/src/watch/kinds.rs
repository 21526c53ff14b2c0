//! The kinds that several controllers watch.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use pillion_kubernetes::json;
use serde_json::Value;
use tokio::time::sleep;

use super::own::{Watch, keep_telling};
use super::subject::{PodObject, Subject, WorkloadObject};
use super::{Changes, Kept, LOOK_AGAIN, SIDECAR_SET, SIDECAR_SET_STATUS};
use crate::write::WriteProblem;
use pillion_plan::condition::PERMISSION_CEILING_EXCEEDED;

/// A kind whose objects create Pods.
pub(super) struct Workload {
    api_version: &'static str,
    pub(super) kind: &'static str,
    /// Whether a cluster may lack the kind.
    is_optional: bool,
}

const fn workload(api_version: &'static str, kind: &'static str) -> Workload {
    Workload { api_version, kind, is_optional: false }
}

/// The kinds of workloads (MRG-6).
pub(super) const WORKLOADS: &[Workload] = &[
    workload("apps/v1", "Deployment"),
    workload("apps/v1", "StatefulSet"),
    workload("apps/v1", "DaemonSet"),
    workload("apps/v1", "ReplicaSet"),
    workload("batch/v1", "Job"),
    workload("batch/v1", "CronJob"),
    Workload { api_version: "apps.kruise.io/v1alpha1", kind: "CloneSet", is_optional: true },
];

/// The API group and versions of SidecarSets, in order of preference. v1beta1 lacks some fields of v1alpha1 if the API
/// server does not convert.
const SIDECAR_SET_VERSIONS: [&str; 2] = ["apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1"];

const POD: &str = "Pod";

fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// Whether the API server serves a kind.
///
/// # Errors
/// The API server does not answer the question; the text tells why.
async fn is_served(client: &Client, api_version: &str, kind: &str) -> Result<bool, String> {
    match client.list_api_group_resources(api_version).await {
        Ok(list) => Ok(list.resources.iter().any(|resource| resource.kind == kind)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => {
            tracing::warn!(kind, api_version, %error, "discovery");
            Err(format!("whether the API server serves {api_version} is not known: {}", WriteProblem::of(&error)))
        }
    }
}

/// Waits until one of these versions is served and returns the first that is. Until then, `kept` counts as listed and
/// empty, unless the API server does not answer.
async fn served<T>(client: &Client, versions: &[&'static str], kind: &str, kept: &Kept<T>) -> &'static str {
    loop {
        let mut unknown = None;
        for version in versions {
            match is_served(client, version, kind).await {
                Ok(true) => return version,
                Ok(false) => {}
                Err(problem) => unknown = Some(problem),
            }
        }
        match unknown {
            Some(problem) => kept.progress().fail_for_now(problem),
            None if kept.is_listed() => kept.progress().works(),
            None => {
                kept.start_list();
                kept.end_list();
            }
        }
        sleep(LOOK_AGAIN).await;
    }
}

pub(super) async fn pods(client: Client, kept: Arc<Kept<Subject>>, changes: Changes) {
    let api = Api::<PodObject>::all_with(client, &ApiResource::erase::<Pod>(&()));
    let see = |pod| Some(Subject::of_pod(pod));
    keep_telling(Watch::new(api, POD), kept, see, is_other(POD), changes).await;
}

pub(super) async fn workloads(client: Client, workload: &'static Workload, kept: Arc<Kept<Subject>>, changes: Changes) {
    let Workload { api_version, kind, is_optional } = workload;
    if *is_optional {
        served(&client, &[api_version], kind, &kept).await;
    }
    let api = Api::<WorkloadObject>::all_with(client, &resource(api_version, kind));
    let see = move |object| Subject::of_workload(kind, object);
    keep_telling(Watch::new(api, kind), kept, see, is_other(kind), changes).await;
}

/// Compares two versions of a Pod or workload. Kubelets and controllers write status all the time, and nearly none of
/// that matters here.
fn is_other(kind: &'static str) -> impl Fn(&Subject, &Subject) -> Option<&'static str> {
    move |before, now| (before != now).then_some(kind)
}

pub(super) async fn sidecar_sets(client: Client, kept: Arc<Kept<Value>>, changes: Changes) {
    let version = served(&client, &SIDECAR_SET_VERSIONS, SIDECAR_SET, &kept).await;
    let api = Api::<DynamicObject>::all_with(client, &resource(version, SIDECAR_SET));
    let whole = |mut object: DynamicObject| {
        object.metadata.managed_fields = None;
        serde_json::to_value(object).ok()
    };
    let tell = |before: &Value, now: &Value| Some(told(before, now));
    keep_telling(Watch::new(api, SIDECAR_SET), kept, whole, tell, changes).await;
}

/// Returns how a change of a SidecarSet is announced. If only Pod counts and conditions differ, the change concerns no
/// namespace. OpenKruise counts Pods in the status.
fn told(before: &Value, now: &Value) -> &'static str {
    const WRITTEN: [&str; 2] = ["resourceVersion", "generation"];
    fn metadata(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
        let fields = object.get("metadata").and_then(Value::as_object).into_iter().flatten();
        fields.filter(|(key, _)| !WRITTEN.contains(&key.as_str()))
    }
    fn ceiling(object: &Value) -> Option<&Value> {
        let mut conditions = json::items(object, &["status", "conditions"]).iter();
        conditions.find(|condition| json::text(condition, &["type"]) == PERMISSION_CEILING_EXCEEDED)
    }
    let is_same = before.get("spec") == now.get("spec")
        && metadata(before).eq(metadata(now))
        // If this condition changes, every namespace must be compared again.
        && ceiling(before) == ceiling(now);
    if is_same { SIDECAR_SET_STATUS } else { SIDECAR_SET }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::counts(json!({"status": {"matchedPods": 2}}), SIDECAR_SET_STATUS)]
    #[case::a_condition(json!({"status": {"conditions": [{"type": "InBundle", "status": "True"}]}}), SIDECAR_SET_STATUS)]
    #[case::what_was_not_granted(json!({"status": {"conditions": [{"type": PERMISSION_CEILING_EXCEEDED, "status": "True"}]}}), SIDECAR_SET)]
    #[case::the_spec(json!({"spec": {"paused": true}}), SIDECAR_SET)]
    #[case::a_label(json!({"metadata": {"labels": {"a": "b"}}}), SIDECAR_SET)]
    #[case::its_deletion(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), SIDECAR_SET)]
    fn of_a_sidecar_set_only_what_it_says_concerns_namespaces(#[case] change: Value, #[case] expected: &str) {
        let before =
            json!({"metadata": {"name": "logs", "resourceVersion": "1"}, "spec": {}, "status": {"matchedPods": 1}});
        let mut now = before.clone();
        for (part, fields) in change.as_object().into_iter().flatten() {
            for (key, value) in fields.as_object().into_iter().flatten() {
                now[part][key] = value.clone();
            }
        }
        now["metadata"]["resourceVersion"] = json!("2");
        assert_eq!(told(&before, &now), expected);
    }

    #[test]
    fn a_pod_is_another_where_what_decides_about_identities_is() {
        let pod = |labels: Value, phase: &str, ip: &str| {
            let metadata = json!({"name": "web", "namespace": "shop", "labels": labels});
            let status = json!({"phase": phase, "podIP": ip});
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}, "status": status});
            Subject::of_pod(serde_json::from_value(pod).expect("a Pod"))
        };
        let (tell, before) = (is_other("Pod"), pod(json!({"app": "web"}), "Pending", ""));
        assert_eq!(tell(&before, &pod(json!({"app": "web"}), "Running", "10.0.0.1")), None);
        assert_eq!(tell(&before, &pod(json!({"app": "api"}), "Pending", "")), Some("Pod"));
        assert_eq!(tell(&before, &pod(json!({"app": "web"}), "Failed", "")), Some("Pod"));
    }
}
