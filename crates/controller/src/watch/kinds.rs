//! The kinds that several controllers look at.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::Value;
use tokio::time::sleep;

use super::own::{Watch, keep};
use super::subject::{PodObject, Subject, WorkloadObject};
use super::{Changes, Kept, LOOK_AGAIN};
use crate::write::Problem;

/// A kind whose objects make Pods.
pub(super) struct Workload {
    api_version: &'static str,
    pub(super) kind: &'static str,
    /// Not every cluster has it.
    is_optional: bool,
}

const fn workload(api_version: &'static str, kind: &'static str) -> Workload {
    Workload { api_version, kind, is_optional: false }
}

/// `serviceaccounts.md` G6.
pub(super) const WORKLOADS: &[Workload] = &[
    workload("apps/v1", "Deployment"),
    workload("apps/v1", "StatefulSet"),
    workload("apps/v1", "DaemonSet"),
    workload("apps/v1", "ReplicaSet"),
    workload("batch/v1", "Job"),
    workload("batch/v1", "CronJob"),
    Workload { api_version: "apps.kruise.io/v1alpha1", kind: "CloneSet", is_optional: true },
];

/// Their group, and the versions in which they are read, the best first: v1beta1 does not say everything that v1alpha1
/// does where the API server does not convert.
const SIDECAR_SET_VERSIONS: [&str; 2] = ["apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1"];

fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// Whether the API server serves a kind.
///
/// # Errors
/// Why it does not say.
async fn is_served(client: &Client, api_version: &str, kind: &str) -> Result<bool, String> {
    match client.list_api_group_resources(api_version).await {
        Ok(list) => Ok(list.resources.iter().any(|resource| resource.kind == kind)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => {
            tracing::warn!(kind, api_version, %error, "discovery");
            Err(format!("whether the API server serves {api_version} is not known: {}", Problem::of(&error)))
        }
    }
}

/// The first of these versions that is served. Until there is one, nothing is kept, and that is all there is.
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
    keep(Watch::new(api, "Pod"), kept, |pod| Some(Subject::of_pod(pod)), changes).await;
}

pub(super) async fn workloads(client: Client, workload: &'static Workload, kept: Arc<Kept<Subject>>, changes: Changes) {
    let Workload { api_version, kind, is_optional } = workload;
    if *is_optional {
        served(&client, &[api_version], kind, &kept).await;
    }
    let api = Api::<WorkloadObject>::all_with(client, &resource(api_version, kind));
    keep(Watch::new(api, kind), kept, move |object| Subject::of_workload(kind, object), changes).await;
}

pub(super) async fn sidecar_sets(client: Client, kept: Arc<Kept<Value>>, changes: Changes) {
    const KIND: &str = "SidecarSet";
    let version = served(&client, &SIDECAR_SET_VERSIONS, KIND, &kept).await;
    let api = Api::<DynamicObject>::all_with(client, &resource(version, KIND));
    let whole = |mut object: DynamicObject| {
        object.metadata.managed_fields = None;
        serde_json::to_value(object).ok()
    };
    keep(Watch::new(api, KIND), kept, whole, changes).await;
}
