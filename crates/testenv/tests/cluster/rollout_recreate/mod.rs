//! SidecarSets with the upgrade policy `Recreate` on a real API server: workloads, the real admission, and the controller
//! with exactly the rendered rights.

mod tests;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use pillion_testenv::{Cluster, Options, apply, free_port, until};
use serde_json::{Value, json};

use crate::support::controllers::{Controllers, NAMESPACE};
use crate::support::is_ready;
use crate::support::{Installation, SOON, create, dry_run, dynamic, pod, program};

const PATIENCE: Duration = Duration::from_secs(100);
/// The replicas of the controller.
pub const REPLICAS: [&str; 2] = ["one", "two"];
/// The namespace without injection, and the one whose Pods are never evicted.
pub const EXCLUDED: &str = "excluded";
pub const PROTECTED: &str = "protected";
const CONTROLLER: &str = "system:serviceaccount:pillion-system:pillion-controller-rollout";

/// Starts a cluster with admission, workloads and the controller. `options` give it nodes.
pub async fn start(options: Options) -> Cluster {
    let cluster = Cluster::start(options.audit_log_of_pods()).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let namespaces = Api::<Namespace>::all(client.clone());
    for name in ["kruise-system", NAMESPACE, EXCLUDED, PROTECTED] {
        let _ = create(&namespaces, &json!({"metadata": {"name": name}})).await;
    }
    let settings = json!({
        "serviceAccounts": {"protectedNamespaces": ["kube-system", PROTECTED]},
        "bundleRef": {"namespace": NAMESPACE, "name": "sidecarsets"},
    });
    let prepared = Installation::prepare(&cluster, &settings, &["--exclude-namespaces", EXCLUDED], &[]).await;
    prepared.register("").await;
    let bundle = Controllers::install(&cluster, &program(), &settings, &["--controllers", "bundle"]).await;
    bundle.start("bundle", free_port().unwrap()).await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let kept = async || maps.get_opt("sidecarsets").await.ok().flatten();
    if let Err(error) = until("the bundle", SOON, kept).await {
        panic!("{error}: {}", cluster.log("bundle"));
    }
    prepared.start_server().await;
    prepared.register(&prepared.authority()).await;
    prepared.wait_for_webhooks().await;
    let flags = ["--controllers", "sidecarset-rollout"];
    let controllers = Controllers::install(&cluster, &program(), &settings, &flags).await;
    for replica in REPLICAS {
        controllers.start(replica, free_port().unwrap()).await;
    }
    cluster
}

/// A namespace for one test, with its own SidecarSet.
pub struct RolloutNamespace<'a> {
    pub name: String,
    pub client: Client,
    pub cluster: &'a Cluster,
}

impl<'a> RolloutNamespace<'a> {
    pub async fn new(cluster: &'a Cluster) -> Self {
        let name = cluster.namespace("recreate").await.unwrap();
        Self { name, client: cluster.admin().await.unwrap(), cluster }
    }

    fn sets(&self) -> Api<DynamicObject> {
        dynamic(&self.client, "apps.kruise.io/v1beta1", "SidecarSet", "sidecarsets")
    }

    /// Returns the SidecarSet of this namespace, with a variable of its container.
    pub fn set(&self, level: &str, strategy: &Value) -> Value {
        json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
            "metadata": {"name": self.name, "annotations": {"pillion.dev/upgrade-policy": "Recreate"}},
            "spec": {
                "selector": {"matchLabels": {"app": self.name}},
                "containers": [{"name": "agent", "image": "agent:v1", "env": [{"name": "LEVEL", "value": level}]}],
                "updateStrategy": strategy,
            },
        })
    }

    pub async fn create_set(&self, strategy: &Value) {
        create(&self.sets(), &self.set("info", strategy)).await.unwrap();
        self.in_bundle().await;
        self.injects(true).await;
    }

    /// Waits until the policy has the present version of the SidecarSet.
    async fn in_bundle(&self) {
        let there = async || {
            let stored = self.stored().await;
            let conditions = stored["status"]["conditions"].as_array()?;
            let is_it = |one: &&Value| one["type"] == "InBundle" && one["status"] == "True";
            let condition = conditions.iter().find(is_it)?;
            (condition["observedGeneration"] == stored["metadata"]["generation"]).then_some(())
        };
        until("the bundle having the SidecarSet", SOON, there).await.unwrap();
    }

    /// Waits until the policy gives new Pods the sidecar, or no longer does: its watch follows the bundle.
    pub async fn injects(&self, wanted: bool) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.name);
        let probe = pod(&json!({"metadata": {"name": "probe", "labels": {"app": self.name}}}));
        let probe: Pod = serde_json::from_value(probe).unwrap();
        let as_wanted = async || {
            let made = json!(pods.create(&dry_run(), &probe).await.ok()?);
            ((level(&made) != "none") == wanted).then_some(())
        };
        until("the policy following the SidecarSet", SOON, as_wanted).await.unwrap();
    }

    /// Adds an annotation to the SidecarSet.
    pub async fn annotate(&self, key: &str, value: &str) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
        self.sets().patch(&self.name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Changes the spec of the SidecarSet.
    pub async fn change(&self, spec: &Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.sets().patch(&self.name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Changes the variable of the container.
    pub async fn release(&self, level: &str) {
        let containers = self.set(level, &json!({}))["spec"]["containers"].take();
        self.change(&json!({"containers": containers})).await;
    }

    /// Returns a workload of some Pods in a namespace.
    pub fn workload(&self, kind: &str, namespace: &str, replicas: usize) -> Value {
        let labels = json!({"app": self.name});
        let mut workload = json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web", "namespace": namespace},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}},
            },
        });
        if kind == "StatefulSet" {
            workload["spec"]["serviceName"] = json!("web");
        }
        workload
    }

    /// Returns a PodDisruptionBudget of the workloads.
    pub fn budget(&self, name: &str, max_unavailable: usize) -> Value {
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": self.name},
            "spec": {"maxUnavailable": max_unavailable, "selector": {"matchLabels": {"app": self.name}}},
        })
    }

    /// Waits until the disruption controller has counted the Pods of a budget.
    pub async fn counted(&self, name: &str, pods: i32) {
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), &self.name);
        let counted = async || {
            let budget = budgets.get(name).await.ok()?;
            let status = budget.status?;
            let is_present = status.observed_generation == budget.metadata.generation;
            (status.expected_pods == Some(pods) && is_present).then_some(())
        };
        until("the budget being counted", SOON, counted).await.unwrap();
    }

    /// Applies objects, and waits until the namespace has so many ready Pods.
    pub async fn run(&self, objects: &[Value], pods: usize) {
        self.apply(objects).await;
        self.ready(pods).await;
    }

    pub async fn apply(&self, objects: &[Value]) {
        let text: Vec<String> = objects.iter().map(Value::to_string).collect();
        apply(&self.client, &text.join("\n---\n"), "test").await.unwrap();
    }

    pub async fn ready(&self, count: usize) {
        let ready = async || {
            let pods = self.pods(&self.name).await;
            (pods.len() == count && pods.iter().all(is_ready)).then_some(())
        };
        until("the Pods being ready", SOON, ready).await.unwrap();
    }

    /// Returns the Pods of a namespace that are not being deleted.
    pub async fn pods(&self, namespace: &str) -> Vec<Value> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let selected = ListParams::default().labels(&format!("app={}", self.name));
        let pods = api.list(&selected).await.unwrap().items.into_iter().map(|pod| json!(pod));
        pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).collect()
    }

    /// Returns the variables of the sidecars of the Pods; a Pod without the sidecar has `none`.
    pub async fn levels(&self, namespace: &str) -> Vec<String> {
        self.pods(namespace).await.iter().map(level).collect()
    }

    pub async fn stored(&self) -> Value {
        json!(self.sets().get(&self.name).await.unwrap())
    }

    /// Waits until the condition `Ready` of the SidecarSet has this reason, for its present generation. Returns the
    /// message.
    pub async fn ended(&self, reason: &str) -> String {
        let ended = async || {
            let stored = self.stored().await;
            let generation = &stored["metadata"]["generation"];
            let conditions = stored["status"]["conditions"].as_array()?;
            let ready = conditions.iter().find(|condition| condition["type"] == "Ready")?;
            let has_ended = ready["reason"] == reason && ready["observedGeneration"] == *generation;
            has_ended.then(|| ready["message"].as_str().unwrap_or_default().to_owned())
        };
        match until(reason, PATIENCE, ended).await {
            Ok(message) => message,
            Err(error) => panic!("{error}: {:#}\n{}", self.stored().await["status"], self.logs()),
        }
    }

    pub fn logs(&self) -> String {
        REPLICAS.iter().map(|replica| self.cluster.log(replica)).collect()
    }

    /// Waits until so many Pods were evicted.
    pub async fn evicted(&self, count: usize) {
        let evicted = async || (self.evictions(usize::MAX).len() >= count).then_some(());
        if let Err(error) = until("the evictions", PATIENCE, evicted).await {
            panic!("{error}: {:#}\n{}", self.stored().await["status"], self.logs());
        }
    }

    /// Returns the evictions of the controller in this namespace, each with the number of Pods that are unavailable after
    /// it, if the workloads want `pods`. The audit log shows each version of each Pod.
    pub fn evictions(&self, pods: usize) -> Vec<(String, usize)> {
        let mut events: Vec<Value> = self.cluster.audit_log();
        events.retain(|event| {
            let object = &event["objectRef"];
            let is_stored = event["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300);
            let is_dry_run = event["requestURI"].as_str().is_some_and(|uri| uri.contains("dryRun=All"));
            object["resource"] == "pods" && object["namespace"] == self.name.as_str() && is_stored && !is_dry_run
        });
        events.sort_by_key(|event| event["stageTimestamp"].as_str().unwrap_or_default().to_owned());
        let mut known = std::collections::BTreeMap::<String, Value>::new();
        let mut evictions = Vec::new();
        for event in events {
            let pod = &event["responseObject"];
            let name = event["objectRef"]["name"].as_str().or(pod["metadata"]["name"].as_str()).unwrap_or_default();
            let is_by_controller = event["user"]["username"] == CONTROLLER;
            if event["objectRef"]["subresource"] == "eviction" {
                if pod["status"] == "Failure" {
                    continue;
                }
                assert!(is_by_controller, "{event:#}");
                known.remove(name);
                let available = known.values().filter(|pod| is_ready(pod)).count();
                evictions.push((name.to_owned(), pods.saturating_sub(available)));
                continue;
            }
            assert!(!is_by_controller || event["verb"] == "patch", "the controller only patches: {event:#}");
            if event["verb"] == "delete" || !pod["metadata"]["deletionTimestamp"].is_null() {
                let is_it = known.get(name).is_some_and(|known| known["metadata"]["uid"] == pod["metadata"]["uid"]);
                if is_it || event["verb"] == "delete" {
                    known.remove(name);
                }
            } else if pod["kind"] == "Pod" {
                known.insert(name.to_owned(), pod.clone());
            }
        }
        evictions
    }
}

/// Returns the variable of the sidecar of a Pod.
fn level(pod: &Value) -> String {
    let containers = pod["spec"]["containers"].as_array().cloned().unwrap_or_default();
    let agent = containers.iter().find(|container| container["name"] == "agent");
    agent.map_or("none", |agent| agent["env"][0]["value"].as_str().unwrap_or_default()).to_owned()
}
