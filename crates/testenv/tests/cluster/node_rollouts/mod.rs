//! Rollouts to containers that run: kubelets restart them, and say what comes of it.

pub mod availability;
mod names;
mod resize;
mod tests;
mod waves;
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use pillion_sidecarset::image;
use pillion_testenv::{Cluster, Image, Options, free_port, until};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::rollout::{OLD, REPLICAS, RolloutNamespace, prepare_with};
use crate::support::controllers::Controllers;
use crate::support::is_ready;
use crate::support::node::shell::Shell;
use crate::support::node::{STARTED, container};
use crate::support::{SOON, create, dynamic, program};

/// The image of apps.
const APP: &str = "pillion.test/app:1";
/// The only sidecar of most SidecarSets.
pub const AGENT: &str = "agent";

/// Prints the limit of the container's memory in Mi, on nodes with cgroup v1 or v2.
const MEMORY: &str =
    "cd /sys/fs/cgroup; bytes=$(cat memory.max 2>/dev/null || cat memory/memory.limit_in_bytes); echo $((bytes >> 20))";

/// A cluster with the controller, for the tests of this module.
async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    let images = tests::images().into_iter().chain(names::images());
    CLUSTER.get_or_init(async || start(images.fold(Options::new().real_nodes(2), Options::image)).await).await
}

/// Starts a cluster with the controller, whose nodes have the images of apps and of three versions of the sidecar.
pub async fn start(options: Options) -> Cluster {
    let images = [Image::busybox(APP), agent("v1"), agent("v2"), agent("v3")];
    let cluster = prepare_with(images.into_iter().fold(options, Options::image), |_| {}).await;
    let flags = ["--controllers", "sidecarset-rollout"];
    let controllers = Controllers::install(&cluster, &program(), &json!({}), &flags).await;
    controllers.start(REPLICAS[0], free_port().unwrap()).await;
    cluster
}

/// Returns an image of the sidecar, whose name SidecarSets write without its registry. It has its tag in `/version`, and
/// the files that probes look for.
pub fn agent(tag: &str) -> Image {
    Image::busybox(format!("docker.io/library/agent:{tag}"))
        .file("version", tag)
        .file("ready", "")
        .file("www/ready", "")
}

/// A Deployment with sidecars, in a namespace of its own.
pub struct Scene {
    pub place: RolloutNamespace,
    pub cluster: &'static Cluster,
}

/// What a rollout took.
pub struct Took {
    pub seconds: f64,
    /// The largest number of Pods that were unavailable at the same time.
    pub unavailable: usize,
}

impl Scene {
    pub async fn new(cluster: &'static Cluster) -> Self {
        Self { place: RolloutNamespace::in_cluster(cluster).await, cluster }
    }

    /// Returns a SidecarSet for the Pods of this namespace with these fields.
    pub fn set(&self, annotations: &Value, fields: &Value) -> Value {
        let mut set = self.place.set(AGENT, fields);
        set["metadata"]["annotations"] = annotations.clone();
        set
    }

    /// Creates a SidecarSet, and a Deployment whose Pods have its sidecars. Waits until all of that is ready.
    pub async fn run(&self, set: &Value, replicas: usize) {
        self.run_with(set, replicas, &json!({})).await;
    }

    /// The same with annotations of the Pods.
    pub async fn run_with(&self, set: &Value, replicas: usize, annotations: &Value) {
        create_set(&self.place, set).await;
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": self.place.name},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}, "annotations": annotations},
                    "spec": {"terminationGracePeriodSeconds": 5, "containers": [{"name": "app", "image": APP}]},
                },
            },
        });
        let injected = self.place.injected(std::slice::from_ref(set), &[deployment]);
        let deployments: Api<Deployment> = Api::namespaced(self.place.client.clone(), &self.place.name);
        create(&deployments, &injected[0]).await.unwrap();
        let ready = async || {
            let pods = self.pods().await;
            (pods.len() == replicas && pods.iter().all(is_ready)).then_some(())
        };
        if let Err(error) = until("the Pods being ready", STARTED, ready).await {
            panic!("{error}: {}", self.told().await);
        }
        self.place.complete(AGENT, replicas).await;
    }

    /// Makes a change of the SidecarSet, and waits until it has reached all Pods. They run `image` then.
    pub async fn rolled_out(&self, image: &str, change: impl AsyncFn()) -> Took {
        self.rolled_out_as(image, change, image::is_same).await
    }

    /// The same where `is_name` tells whether a runtime may report the first name for an image that has the second one.
    #[allow(clippy::print_stdout, reason = "the harness shows it if the test fails")]
    pub async fn rolled_out_as(
        &self,
        image: &str,
        change: impl AsyncFn(),
        is_name: impl Fn(&str, &str) -> bool,
    ) -> Took {
        let (since, started) = (self.writes(), Instant::now());
        change().await;
        self.place.ended(AGENT, "Complete").await;
        let seconds = started.elapsed().as_secs_f64();
        let unavailable = self.unavailable(since, is_name);
        println!("{image}: {seconds:.1} s, {unavailable} unavailable at most");
        assert!(self.place.images(AGENT).await.iter().all(|known| known == image), "{}", self.told().await);
        Took { seconds, unavailable }
    }

    /// Gives the first sidecar another image, and waits until all Pods run it.
    pub async fn released(&self, image: &str) -> Took {
        self.rolled_out(image, async || self.place.release(AGENT, image).await).await
    }

    /// Returns the number of writes to Pods so far.
    pub fn writes(&self) -> usize {
        self.place.writes().len()
    }

    /// Returns the largest number of Pods that were unavailable at the same time since so many writes.
    pub fn unavailable(&self, since: usize, is_name: impl Fn(&str, &str) -> bool) -> usize {
        availability::most_unavailable(&self.place.writes(), since, is_name)
    }

    pub async fn pods(&self) -> Vec<Value> {
        let pods = self.place.pods().list(&ListParams::default()).await.unwrap().items;
        pods.iter().map(|pod| json!(pod)).filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).collect()
    }

    /// Waits until the Pods are in a state.
    pub async fn until_pods(&self, what: &str, holds: impl Fn(&[Value]) -> bool) {
        let seen = async || holds(&self.pods().await).then_some(());
        if let Err(error) = until(what, SOON, seen).await {
            panic!("{error}: {}", self.told().await);
        }
    }

    /// Returns the restarts of a container in each Pod.
    pub async fn restarts(&self, name: &str) -> Vec<u64> {
        self.pods().await.iter().map(|pod| container(pod, name)["restartCount"].as_u64().unwrap()).collect()
    }

    /// Runs a line of sh in a container of each Pod. Returns what each of them printed.
    pub async fn printed(&self, name: impl Fn(&Value) -> String, line: &str) -> Vec<String> {
        let mut printed = Vec::new();
        for pod in self.pods().await {
            let (container, pod) = (name(&pod), pod["metadata"]["name"].as_str().unwrap());
            let shell = Shell { cluster: self.cluster, namespace: &self.place.name, pod, container: &container };
            printed.push(shell.run(line).await);
        }
        printed
    }

    /// Returns what is in `/version` of a container in each Pod.
    pub async fn versions(&self, name: &str) -> Vec<String> {
        self.printed(|_| name.to_owned(), "cat /version").await
    }

    /// Returns the limit of a container's memory in Mi, as its cgroup has it, in each Pod.
    pub async fn memory(&self, name: &str) -> Vec<String> {
        self.printed(|_| name.to_owned(), MEMORY).await
    }

    /// Returns the messages of Events with this reason about the SidecarSet.
    pub async fn events(&self, reason: &str) -> Vec<String> {
        let events = Api::<Event>::all(self.place.client.clone()).list(&ListParams::default()).await.unwrap();
        let name = self.place.set_name(AGENT);
        let about = events.items.into_iter().filter(|event| {
            let regarding = event.regarding.as_ref().and_then(|regarding| regarding.name.as_ref());
            event.reason.as_deref() == Some(reason) && regarding == Some(&name)
        });
        about.filter_map(|event| event.note).collect()
    }

    /// Waits until there is an Event with this reason about the SidecarSet, and with a message for which `holds` is true.
    pub async fn until_event(&self, reason: &str, holds: impl Fn(&str) -> bool) {
        let told = async || self.events(reason).await.iter().any(|text| holds(text)).then_some(());
        if let Err(error) = until(reason, STARTED, told).await {
            panic!("{error}: {:?}\n{}", self.events(reason).await, self.told().await);
        }
    }

    /// Returns what is known, for the message of a test that fails.
    pub async fn told(&self) -> String {
        let status = self.place.stored(AGENT).await["status"].take();
        let pods: Vec<Value> = self.pods().await.iter().map(|pod| json!([pod["metadata"], pod["status"]])).collect();
        format!("{status:#}\n{:#}\n{}", json!(pods), self.place.logs())
    }
}

/// Returns the condition of a SidecarSet.
pub fn condition<'a>(stored: &'a Value, type_: &str) -> &'a Value {
    let mut conditions = stored["status"]["conditions"].as_array().unwrap().iter();
    conditions.find(|condition| condition["type"] == type_).unwrap_or(&Value::Null)
}

/// Returns the reason why a container waits; an empty text if it does not.
pub fn waits_for<'a>(pod: &'a Value, name: &str) -> &'a str {
    container(pod, name)["state"]["waiting"]["reason"].as_str().unwrap_or_default()
}

/// Returns a SidecarSet's container with the image of the first version.
pub fn sidecar(fields: &Value) -> Value {
    let mut sidecar = json!({"name": AGENT, "image": OLD});
    json_patch::merge(&mut sidecar, fields);
    sidecar
}

fn sidecar_sets(place: &RolloutNamespace) -> Api<DynamicObject> {
    dynamic(&place.client, "apps.kruise.io/v1beta1", "SidecarSet", "sidecarsets")
}

async fn create_set(place: &RolloutNamespace, set: &Value) {
    create(&sidecar_sets(place), set).await.unwrap();
}

/// Merges fields into a SidecarSet.
pub async fn edit_set(place: &RolloutNamespace, fields: &Value) {
    let patch = Patch::Merge(fields);
    sidecar_sets(place).patch(&place.set_name(AGENT), &PatchParams::default(), &patch).await.unwrap();
}

/// How long a rollout may take that has nothing to wait for but the kubelet, on a busy machine.
pub const AT_ONCE: Duration = Duration::from_secs(45);
