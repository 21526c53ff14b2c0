//! The kubelets of a cluster: they start new Pods, and restart containers whose image changes.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures_util::StreamExt as _;
use http::Request;
use kube::Client;
use kube::core::WatchEvent;
use parking_lot::Mutex;
use pillion_kubernetes::json;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::requests::{STRATEGIC, get, patch, pod_path};

/// Kubelets at work. They end when this is dropped.
pub struct Kubelet {
    work: Work,
    watch: JoinHandle<()>,
}

#[derive(Clone)]
struct Work {
    client: Client,
    /// How long a container takes to restart.
    restart: Duration,
    seen: Arc<Mutex<SeenPods>>,
    restarted: Arc<Notify>,
}

#[derive(Default)]
struct SeenPods {
    /// The images that a Pod restarts with, by path.
    images: BTreeMap<String, Vec<String>>,
    /// How often each Pod has restarted.
    restarts: BTreeMap<String, usize>,
    /// When the last restart was complete.
    last: Option<Instant>,
}

/// The restarts of Pods.
#[derive(Clone, Debug, Default)]
pub struct Restarts {
    /// How often each Pod has restarted, by path.
    pub counts: BTreeMap<String, usize>,
    /// When the last restart was complete.
    pub last: Option<Instant>,
}

/// The fields of a Pod that kubelets read here.
#[derive(Clone, Debug, Deserialize)]
struct Pod {
    metadata: Metadata,
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    namespace: String,
    name: String,
    resource_version: String,
    deletion_timestamp: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    containers: Vec<Container>,
}

#[derive(Clone, Debug, Deserialize)]
struct Container {
    name: String,
    #[serde(default)]
    image: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    container_statuses: Vec<Container>,
}

impl Kubelet {
    /// Starts kubelets that see all changes from now on.
    ///
    /// # Errors
    /// The Pods cannot be listed.
    pub async fn start(client: Client, restart: Duration) -> anyhow::Result<Self> {
        let list = get(&client, "/api/v1/pods?limit=1").await?;
        let version = json::text(&list, &["metadata", "resourceVersion"]).to_owned();
        let work = Work { client, restart, seen: Arc::default(), restarted: Arc::default() };
        let watching = work.clone();
        let watch = tokio::spawn(async move {
            if let Err(error) = watching.watch(version).await {
                crate::progress::tell(&format!("the kubelets have stopped: {error:#}"));
            }
        });
        Ok(Self { work, watch })
    }

    /// Returns the restarts since the last call.
    pub fn take(&self) -> Restarts {
        let mut seen = self.work.seen.lock();
        Restarts { counts: std::mem::take(&mut seen.restarts), last: seen.last.take() }
    }

    /// Waits until this Pod has restarted as often as this, since the last call of [`Kubelet::take`].
    pub async fn restarted(&self, path: &str, times: usize) {
        loop {
            let restarted = self.work.restarted.notified();
            if self.work.seen.lock().restarts.get(path).is_some_and(|count| *count >= times) {
                return;
            }
            restarted.await;
        }
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl Work {
    async fn watch(self, mut version: String) -> anyhow::Result<()> {
        loop {
            let path = format!("/api/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion={version}");
            let request = Request::get(path).body(Vec::new())?;
            let mut events = pin!(self.client.request_events::<Pod>(request).await.context("the watch of Pods")?);
            while let Some(Ok(event)) = events.next().await {
                match event {
                    WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                        version.clone_from(&pod.metadata.resource_version);
                        self.see(&pod);
                    }
                    WatchEvent::Deleted(pod) => {
                        version = pod.metadata.resource_version;
                        let path = pod_path(&pod.metadata.namespace, &pod.metadata.name);
                        self.seen.lock().images.remove(&path);
                    }
                    WatchEvent::Bookmark(bookmark) => version = bookmark.metadata.resource_version,
                    WatchEvent::Error(error) => anyhow::bail!("the watch of Pods: {error:?}"),
                }
            }
        }
    }

    /// Starts a Pod that is new, and restarts the containers of one whose image is not the one that runs.
    fn see(&self, pod: &Pod) {
        let Metadata { namespace, name, deletion_timestamp, .. } = &pod.metadata;
        let statuses = &pod.status.container_statuses;
        let runs = |container: &Container| {
            statuses.iter().any(|status| status.name == container.name && status.image == container.image)
        };
        let changed: Vec<&Container> = pod.spec.containers.iter().filter(|container| !runs(container)).collect();
        if changed.is_empty() || deletion_timestamp.is_some() {
            return;
        }
        let path = pod_path(namespace, name);
        let images: Vec<String> = changed.iter().map(|container| container.image.clone()).collect();
        // The status that says so may not have arrived yet.
        if self.seen.lock().images.insert(path.clone(), images.clone()).as_ref() == Some(&images) {
            return;
        }
        let restarting = |container: &Container| changed.iter().any(|it| it.name == container.name);
        let containers = pod.spec.containers.iter().map(|it| (it.clone(), restarting(it))).collect();
        let is_new = pod.status.phase != "Running";
        tokio::spawn(self.clone().restart(path, containers, is_new));
    }

    /// Writes the status of a Pod some of whose containers, those with `true`, start or restart.
    async fn restart(self, path: String, containers: Vec<(Container, bool)>, is_new: bool) {
        let at = format!("{path}/status");
        for is_ready in [false, true] {
            if is_ready {
                tokio::time::sleep(self.restart).await;
            }
            // A Pod that is gone has no status.
            if patch(&self.client, &at, STRATEGIC, &status(&containers, is_ready, is_new)).await.is_err() {
                return;
            }
        }
        if is_new {
            return;
        }
        {
            let mut seen = self.seen.lock();
            *seen.restarts.entry(path).or_default() += 1;
            seen.last = Some(Instant::now());
        }
        self.restarted.notify_waiters();
    }
}

/// Returns the digest of an image, which differs between images as it does in a registry.
fn image_id(image: &str) -> String {
    let mut hasher = DefaultHasher::new();
    image.hash(&mut hasher);
    format!("{image}@sha256:{:064x}", hasher.finish())
}

const STARTED: &str = "2026-01-02T03:04:06Z";

fn status(containers: &[(Container, bool)], is_ready: bool, is_new: bool) -> Value {
    let condition = |kind: &str| json!({"type": kind, "status": if is_ready { "True" } else { "False" }, "lastTransitionTime": STARTED});
    let container = |(container, restarts): &(Container, bool)| {
        json!({
            "name": container.name, "image": container.image, "imageID": image_id(&container.image),
            "ready": is_ready || !restarts, "started": true, "restartCount": usize::from(*restarts && !is_new),
            "state": {"running": {"startedAt": STARTED}},
        })
    };
    json!({"status": {
        "phase": "Running",
        "conditions": [condition("Ready"), condition("ContainersReady")],
        "containerStatuses": containers.iter().map(container).collect::<Vec<Value>>(),
    }})
}

/// Returns the status of a Pod whose containers all run.
pub fn running(pod: &Value) -> Value {
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": STARTED});
    let conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten().map(|container| {
        json!({
            "name": container["name"], "image": container["image"], "ready": true, "started": true,
            "imageID": image_id(container["image"].as_str().unwrap_or_default()),
            "containerID": "containerd://0f1e2d3c4b5a69788990a1b2c3d4e5f60718293a4b5c6d7e8f9001122334455",
            "restartCount": 0, "lastState": {}, "state": {"running": {"startedAt": STARTED}},
        })
    });
    json!({
        "phase": "Running", "hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}], "podIP": "10.1.0.1",
        "podIPs": [{"ip": "10.1.0.1"}], "startTime": STARTED, "qosClass": "Burstable",
        "conditions": conditions.map(condition), "containerStatuses": containers.collect::<Vec<Value>>(),
    })
}
