//! A cluster of two nodes: a Deployment whose sidecars have tokens of their own, and the controllers.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod, ServiceAccount};
use kube::Api;
use kube::api::ListParams;
use pillion_testenv::{Cluster, Node, Options, until};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use super::installation::{image as pillion, install};
use crate::rollout::{RolloutNamespace, audit, prepare_with};
use crate::support::controllers::NAMESPACE;
use crate::support::node::shell::{Shell, finished};
use crate::support::node::{self, APP, STARTED, container};
use crate::support::{create, is_ready};

/// The SidecarSet and its container.
const AGENT: &str = "agent";
const ACCOUNT: &str = "logs";
/// The Pods of the Deployment.
const PODS: usize = 4;
/// The versions of the sidecar: the first one, and one for each test.
const VERSIONS: u32 = 7;
/// How long the API server waits for a node. The node renews its Lease every two seconds.
const GRACE: &str = "--node-monitor-grace-period=8s";

/// The Deployment, its SidecarSet and the nodes.
pub struct Scene {
    pub cluster: &'static Cluster,
    place: RolloutNamespace,
}

/// A test's turn: faults concern the whole cluster, so there is one at a time.
pub struct Turn {
    pub scene: Scene,
    version: MutexGuard<'static, u32>,
    budget: usize,
}

fn image(version: u32) -> String {
    format!("pillion.test/agent:v{version}")
}

/// Waits for the turn of a test.
pub async fn turn() -> Turn {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static NAMESPACE: OnceCell<String> = OnceCell::const_new();
    static VERSION: Mutex<u32> = Mutex::const_new(1);
    let version = VERSION.lock().await;
    let cluster = CLUSTER.get_or_init(Scene::cluster).await;
    let namespace = NAMESPACE.get_or_init(async || Scene::start(cluster).await).await;
    let place = RolloutNamespace::existing(cluster, namespace.clone()).await;
    Turn { scene: Scene { cluster, place }, version, budget: 1 }
}

impl Scene {
    async fn cluster() -> Cluster {
        let images = (1..=VERSIONS).map(|version| node::agent(&image(version)));
        let options = Options::new().real_nodes(2).image(node::app()).controller_manager_flag(GRACE);
        let options = images.fold(options.controller_manager_flag("--node-monitor-period=1s"), Options::image);
        prepare_with(options, |_| {}).await
    }

    /// Starts everything. Returns the namespace.
    async fn start(cluster: &'static Cluster) -> String {
        let scene = Self { cluster, place: RolloutNamespace::in_cluster(cluster).await };
        scene.fill().await;
        scene.place.name
    }

    async fn fill(&self) {
        let set = self.place.set(
            AGENT,
            &json!({
                "containers": [{"name": AGENT, "image": image(1)}],
                "serviceAccountName": ACCOUNT, "serviceAccountMode": "Isolate",
            }),
        );
        let settings = json!({"sidecarSets": [set], "featureGates": {"SidecarSetServiceAccountInjection": true}});
        let accounts: Api<ServiceAccount> = Api::namespaced(self.place.client.clone(), &self.place.name);
        create(&accounts, &json!({"metadata": {"name": ACCOUNT}})).await.unwrap();

        let node = self.node(1);
        node.import(&[pillion()]).await.unwrap();
        let tokens = ["--name=pillion-tokens", "--controllers=sidecar-tokens", "--token-namespaces", &self.place.name];
        install(self.cluster, &node, &settings, &tokens).await;
        install(self.cluster, &node, &json!({}), &["--controllers=sidecarset-rollout"]).await;
        // A Pod whose Secret comes late waits until the kubelet tries again, which it does ever more rarely.
        let work = async || {
            let pods = self.controllers().await;
            (pods.len() == 2 && pods.iter().all(is_ready)).then_some(())
        };
        if let Err(error) = until("the controllers being ready", STARTED, work).await {
            panic!("{error}: {}", self.told().await);
        }

        self.place.fill(&[set], 0, |_, _| {}).await;
        let deployments: Api<Deployment> = Api::namespaced(self.place.client.clone(), &self.place.name);
        create(&deployments, &self.injected(&settings).await).await.unwrap();
        let ready = async || (self.ready().await == PODS).then_some(());
        if let Err(error) = until("the Pods being ready", STARTED, ready).await {
            panic!("{error}: {}", self.told().await);
        }
        self.place.complete(AGENT, PODS).await;
        for number in [0, 1] {
            assert!(!self.pods_of(&self.node(number)).await.is_empty(), "{}", self.told().await);
        }
    }

    /// Returns the Deployment with its sidecars.
    async fn injected(&self, settings: &Value) -> Value {
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": self.place.name},
            "spec": {
                "replicas": PODS, "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "app", "image": APP}]},
                },
            },
        });
        let file = |name: &str, object: &Value| {
            let path = self.cluster.folder().join(name);
            std::fs::write(&path, object.to_string()).unwrap();
            path
        };
        let mut command = std::process::Command::new(crate::support::program());
        command.args(["inject", "--assume-service-accounts", "-o", "json", "--settings"]);
        command.arg(file("settings.json", settings)).arg(file("deployment.json", &deployment));
        let output = finished(command).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Returns the first node, which has faults, or the second one, which has the controllers.
    pub fn node(&self, number: usize) -> Node<'static> {
        self.cluster.real_nodes().nth(number).unwrap()
    }

    async fn pods(&self) -> Vec<Value> {
        let pods = self.place.pods().list(&ListParams::default()).await.unwrap().items;
        pods.iter().map(|pod| json!(pod)).collect()
    }

    async fn pods_of(&self, node: &Node<'_>) -> Vec<Value> {
        self.pods().await.into_iter().filter(|pod| pod["spec"]["nodeName"] == node.name()).collect()
    }

    async fn ready(&self) -> usize {
        self.pods().await.iter().filter(|pod| is_ready(pod)).count()
    }

    /// Waits until the API server takes a node for ready, or not.
    pub async fn until_node(&self, node: &Node<'_>, wanted: bool) {
        let nodes: Api<NodeObject> = Api::all(self.place.client.clone());
        let ready = async || {
            let object = json!(nodes.get(&node.name()).await.unwrap());
            (is_ready(&object) == wanted).then_some(())
        };
        until("the state of the node", STARTED, ready).await.unwrap();
    }

    /// Waits until this SidecarSet's condition has a reason. Returns the SidecarSet.
    pub async fn until_reason(&self, reason: &str) -> Value {
        self.place.ended(AGENT, reason).await
    }

    async fn controllers(&self) -> Vec<Value> {
        let pods: Api<Pod> = Api::namespaced(self.place.client.clone(), NAMESPACE);
        pods.list(&ListParams::default()).await.unwrap().items.iter().map(|pod| json!(pod)).collect()
    }

    /// Returns the restarts of the containers of the controllers.
    pub async fn restarts_of_controllers(&self) -> Vec<u64> {
        let restarts = |pod: &Value| container(pod, "pillion")["restartCount"].as_u64().unwrap_or_default();
        self.controllers().await.iter().map(restarts).collect()
    }

    /// Returns the writes to the Pods, a line for each: when, by whom, which Pod, the image that the sidecar should have, the
    /// one that it has, and whether the Pod is Ready.
    fn history(&self) -> String {
        let events = self.cluster.audit_log().into_iter();
        let of_place = events.filter(|event| event["objectRef"]["namespace"] == self.place.name.as_str());
        let line = |event: Value| {
            let pod = &event["responseObject"];
            let wanted = pod["spec"]["containers"].as_array()?.iter().find(|container| container["name"] == AGENT)?;
            let (time, user) = (&event["stageTimestamp"], &event["user"]["username"]);
            let (name, has, is_ready) = (&pod["metadata"]["name"], &container(pod, AGENT)["image"], is_ready(pod));
            Some(format!("{time} {user} {name} {} {has} {is_ready}\n", wanted["image"]))
        };
        of_place.filter_map(line).collect()
    }

    /// Returns what is known, for the message of a test that fails.
    pub async fn told(&self) -> String {
        let mut all = self.pods().await;
        all.extend(self.controllers().await);
        let pods = all.iter().map(|pod| json!([pod["metadata"]["name"], pod["spec"]["nodeName"], pod["status"]]));
        format!("{:#}\n{:#}", self.place.stored(AGENT).await["status"], Value::Array(pods.collect()))
    }
}

impl Turn {
    /// Lets so many Pods be unavailable.
    pub async fn allow(&mut self, budget: usize) {
        self.budget = budget;
        self.scene.place.change(AGENT, &json!({"updateStrategy": {"maxUnavailable": budget}})).await;
    }

    fn image(&self) -> String {
        image(*self.version)
    }

    /// Gives the sidecar its next version.
    pub async fn release(&mut self) {
        *self.version += 1;
        self.scene.place.release(AGENT, &self.image()).await;
    }

    /// Waits until a Pod has got the new image.
    pub async fn until_begun(&self) {
        self.until_one("a Pod getting the image", |_, _| true).await;
    }

    /// Waits until a Pod of this node has got the new image, and nobody restarts its container.
    pub async fn until_stuck(&self, node: &Node<'_>) {
        let is_of_node =
            |pod: &Value, reported: &str| pod["spec"]["nodeName"] == node.name() && reported != self.image();
        self.until_one("a Pod of the node getting the image", is_of_node).await;
    }

    async fn until_one(&self, what: &str, holds: impl Fn(&Value, &str) -> bool) {
        let is_new = |pod: &Value| {
            let mut containers = pod["spec"]["containers"].as_array().unwrap().iter();
            let is_new = containers.any(|container| container["name"] == AGENT && container["image"] == self.image());
            is_new && holds(pod, container(pod, AGENT)["image"].as_str().unwrap_or_default())
        };
        let one = async || self.scene.pods().await.iter().any(is_new).then_some(());
        if let Err(error) = until(what, STARTED, one).await {
            panic!("{error}: {}", self.scene.told().await);
        }
    }

    /// Waits until the rollout has ended. Every Pod has got the image once and within the budget, runs it, and each
    /// container is still who it was.
    pub async fn ends(self) {
        let scene = &self.scene;
        let stored = scene.until_reason("Complete").await;
        assert_eq!(stored["status"]["updatedReadyPods"], PODS, "{}", scene.told().await);
        let mut times = BTreeMap::<String, usize>::new();
        for upgrade in audit::upgrades(&scene.place.writes()).iter().filter(|upgrade| upgrade.gives(&self.image())) {
            *times.entry(upgrade.pod.clone()).or_default() += 1;
            // A Pod that is not available anyway is upgraded at once. A fault may come at the moment of an upgrade.
            let is_within = !upgrade.was_available || upgrade.known_unavailable.len() < self.budget;
            assert!(is_within, "more than {} are unavailable: {upgrade:?}\n{}", self.budget, scene.history());
        }
        let pods = scene.pods().await;
        assert_eq!(pods.len(), PODS);
        let once = pods.iter().map(|pod| (pod["metadata"]["name"].as_str().unwrap().to_owned(), 1));
        assert_eq!(times, once.collect(), "Pods are not upgraded once");
        for pod in &pods {
            self.is_who_it_was(pod["metadata"]["name"].as_str().unwrap()).await;
        }
    }

    async fn is_who_it_was(&self, pod: &str) {
        let (cluster, namespace) = (self.scene.cluster, self.scene.place.name.as_str());
        for (container, account) in [(AGENT, ACCOUNT), ("app", "default")] {
            let shell = Shell { cluster, namespace, pod, container };
            assert_eq!(shell.user().await, format!("system:serviceaccount:{namespace}:{account}"));
            if container == AGENT {
                assert_eq!(shell.run("cat /version").await, self.image());
            }
        }
    }
}
