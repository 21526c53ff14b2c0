//! Restarts containers whose image changes, as kubelets do.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use http::Request;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::core::WatchEvent;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::scale::populate::send;

/// The part of a Pod that a kubelet acts on.
#[derive(Clone, Debug, Deserialize)]
struct Pod {
    metadata: Metadata,
    spec: Containers,
    #[serde(default)]
    status: Statuses,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    namespace: String,
    resource_version: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Containers {
    containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statuses {
    #[serde(default)]
    container_statuses: Vec<Container>,
}

#[derive(Clone, Debug, Deserialize)]
struct Container {
    name: String,
    image: String,
}

/// The restarts so far.
#[derive(Default)]
struct Restarts {
    /// The Pods that are restarting, or were restarted, with the number of their restarts.
    counts: BTreeMap<String, usize>,
    /// The images of each Pod that the last restart gave it.
    images: BTreeMap<String, Vec<String>>,
    /// Those who wait until a Pod is ready again, by the path of the Pod.
    waiting: BTreeMap<String, oneshot::Sender<()>>,
    last: Option<Instant>,
}

/// All kubelets of a cluster, until they are dropped.
pub struct Kubelet {
    work: Work,
    _watch: JoinSet<()>,
}

#[derive(Clone)]
struct Work {
    client: Client,
    /// How long a container takes until it is ready.
    restart: Duration,
    restarts: Arc<Mutex<Restarts>>,
}

/// Returns the path of a Pod.
pub fn path(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods/{name}")
}

impl Kubelet {
    /// Starts to watch Pods.
    pub async fn start(client: &Client, restart: Duration) -> Self {
        let work = Work { client: client.clone(), restart, restarts: Arc::default() };
        let page: Value = client.request(get("/api/v1/pods?limit=1")).await.unwrap();
        let version = page["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let mut watch = JoinSet::new();
        watch.spawn(work.clone().watch(version));
        Self { work, _watch: watch }
    }

    /// Returns the number of restarts of each Pod since the last call, and when the last one was complete.
    pub fn take(&self) -> (BTreeMap<String, usize>, Option<Instant>) {
        let mut restarts = self.work.restarts.lock();
        (std::mem::take(&mut restarts.counts), restarts.last.take())
    }

    /// Returns what completes when this Pod has restarted. To be called before its image is changed.
    pub fn next(&self, path: &str) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.work.restarts.lock().waiting.insert(path.to_owned(), sender);
        receiver
    }
}

impl Work {
    async fn watch(self, mut version: String) {
        loop {
            let request = get(&format!("/api/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion={version}"));
            let mut events = pin!(self.client.request_events::<Pod>(request).await.unwrap());
            while let Some(Ok(event)) = events.next().await {
                match event {
                    WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                        version.clone_from(&pod.metadata.resource_version);
                        self.sees(&pod);
                    }
                    WatchEvent::Deleted(pod) => version = pod.metadata.resource_version,
                    WatchEvent::Bookmark(bookmark) => version = bookmark.metadata.resource_version,
                    WatchEvent::Error(error) => panic!("the watch of Pods ended: {error:?}"),
                }
            }
        }
    }

    /// Restarts the containers of a Pod whose image is not the one that runs.
    fn sees(&self, pod: &Pod) {
        let runs = |container: &&Container| {
            let status = pod.status.container_statuses.iter().find(|status| status.name == container.name);
            status.is_none_or(|status| status.image == container.image)
        };
        let changed: Vec<Container> = pod.spec.containers.iter().filter(|it| !runs(it)).cloned().collect();
        if changed.is_empty() {
            return;
        }
        let path = path(&pod.metadata.namespace, &pod.metadata.name);
        let images: Vec<String> = changed.iter().map(|container| container.image.clone()).collect();
        let mut restarts = self.restarts.lock();
        // The status that says so may not have arrived yet.
        if restarts.images.insert(path.clone(), images.clone()).as_ref() == Some(&images) {
            return;
        }
        *restarts.counts.entry(path.clone()).or_default() += 1;
        // A patch replaces the whole list, so the containers that go on running are in it, too.
        let restarting = |container: &Container| changed.iter().any(|it| it.name == container.name);
        let containers = pod.spec.containers.iter().map(|it| (it.clone(), restarting(it))).collect();
        tokio::spawn(self.clone().restart(path, containers));
    }

    /// Writes the status of a Pod some of whose containers, those with `true`, restart.
    async fn restart(self, path: String, containers: Vec<(Container, bool)>) {
        let (at, media) = (format!("{path}/status"), "application/strategic-merge-patch+json");
        for is_ready in [false, true] {
            send(&self.client, "PATCH", &at, media, &status(&containers, is_ready)).await;
            if !is_ready {
                tokio::time::sleep(self.restart).await;
            }
        }
        let mut restarts = self.restarts.lock();
        restarts.last = Some(Instant::now());
        if let Some(waiting) = restarts.waiting.remove(&path) {
            // Nobody waits any longer.
            let _ = waiting.send(());
        }
    }
}

fn get(path: &str) -> Request<Vec<u8>> {
    Request::get(path).body(Vec::new()).unwrap()
}

/// Returns the digest of an image, which differs between images as it does in a registry.
fn image_id(image: &str) -> String {
    let mut hasher = DefaultHasher::new();
    image.hash(&mut hasher);
    format!("{image}@sha256:{:064x}", hasher.finish())
}

fn status(containers: &[(Container, bool)], is_ready: bool) -> Value {
    let now = Timestamp::now().to_string();
    let condition = |kind: &str| json!({"type": kind, "status": if is_ready { "True" } else { "False" }, "lastTransitionTime": now});
    let container = |(container, restarts): &(Container, bool)| {
        json!({
            "name": container.name, "image": container.image, "imageID": image_id(&container.image),
            "ready": is_ready || !restarts, "started": true, "restartCount": usize::from(*restarts),
            "state": {"running": {"startedAt": now}},
        })
    };
    json!({"status": {
        "conditions": [condition("Ready"), condition("ContainersReady")],
        "containerStatuses": containers.iter().map(container).collect::<Vec<Value>>(),
    }})
}

/// Returns the status of a Pod whose containers all run.
pub fn running(pod: &Value) -> Value {
    let now = Timestamp::now().to_string();
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now});
    let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition);
    let containers = pod["spec"]["containers"].as_array().unwrap().iter().map(|container| {
        json!({
            "name": container["name"], "image": container["image"], "ready": true, "started": true,
            "imageID": image_id(container["image"].as_str().unwrap()),
            "containerID": "containerd://0f1e2d3c4b5a69788990a1b2c3d4e5f60718293a4b5c6d7e8f9001122334455",
            "restartCount": 0, "lastState": {}, "state": {"running": {"startedAt": now}},
        })
    });
    json!({"status": {
        "phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.1.0.1", "startTime": now, "qosClass": "Burstable",
        "conditions": conditions,
        "containerStatuses": containers.collect::<Vec<Value>>(),
    }})
}
