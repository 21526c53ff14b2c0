//! The kinds that several controllers watch.

use std::sync::Arc;
use std::time::Duration;

use kube::api::DynamicObject;
use kube::{Api, Client};
use tokio::time::sleep;

use super::change::Projection;
use super::resource;
use super::sidecar_set::SidecarSetObject;
use super::subject::{Subject, WorkloadObject};
use super::table::Table;
use super::watch::{Watch, keep};
use crate::problem::classify;

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
pub(super) const SIDECAR_SET_VERSIONS: [&str; 2] = ["apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1"];

const SIDECAR_SET: &str = "SidecarSet";
/// The interval between checks for a kind that the API server does not serve.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// The interval between checks if the API server did not answer.
const ASK_AGAIN: Duration = Duration::from_secs(2);

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
            Err(format!("whether the API server serves {api_version} is not known: {}", classify(&error)))
        }
    }
}

/// Waits until one of these versions is served and returns the first that is. Until then, `table` counts as listed and
/// empty, unless the API server does not answer.
async fn served<T: Projection>(
    client: &Client,
    versions: &[&'static str],
    kind: &str,
    table: &Table<T>,
) -> &'static str {
    loop {
        let mut unknown = None;
        for version in versions {
            match is_served(client, version, kind).await {
                Ok(true) => return version,
                Ok(false) => {}
                Err(problem) => unknown = Some(problem),
            }
        }
        let is_known = unknown.is_none();
        match unknown {
            Some(problem) => table.progress().fail_for_now(problem, ASK_AGAIN),
            None if table.is_listed() => table.progress().works(),
            None => {
                table.start_list();
                table.end_list();
            }
        }
        sleep(if is_known { LOOK_AGAIN } else { ASK_AGAIN }).await;
    }
}

/// Watches the workloads of a kind for as long as it is polled.
pub(super) async fn workloads(client: Client, workload: &'static Workload, table: Arc<Table<Subject>>) {
    let Workload { api_version, kind, is_optional } = workload;
    if *is_optional {
        served(&client, &[api_version], kind, &table).await;
    }
    let api = Api::<WorkloadObject>::all_with(client, &resource(api_version, kind));
    keep(Watch::new(api, *kind), table, move |object| Subject::of_workload(kind, object)).await;
}

/// Returns the watch of SidecarSets, in the preferred version that the API server serves. Waits until it serves one.
pub(super) async fn sidecar_sets(client: &Client, table: &Table<SidecarSetObject>) -> Watch<DynamicObject> {
    let version = served(client, &SIDECAR_SET_VERSIONS, SIDECAR_SET, table).await;
    Watch::new(Api::all_with(client.clone(), &resource(version, SIDECAR_SET)), SIDECAR_SET)
}
