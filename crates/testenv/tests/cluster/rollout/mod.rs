//! SidecarSets with Pods that kwok runs, and the controller that rolls them out, with exactly the rendered rights.

pub mod audit;
mod tests;
use std::fs;
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use pillion_install::rendering::crd;
use pillion_testenv::{Cluster, Options, apply, free_port, until};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use self::audit::Upgrade;
use crate::support::controllers::{Controllers, NAMESPACE};
use crate::support::is_ready;
use crate::support::{SOON, create, dynamic, program};

/// A rollout waits for its Pods, which restart one after the other.
const PATIENCE: Duration = Duration::from_mins(3);
/// How long nothing must happen before a rollout counts as at rest.
const QUIET: Duration = Duration::from_secs(4);
/// The replicas of the controller.
pub const REPLICAS: [&str; 2] = ["one", "two"];
/// The Lease of the replicas.
const LEASE: &str = "pillion-controller-rollout";
/// The image with which Pods are created.
pub const OLD: &str = "agent:v1";
/// The image that is rolled out.
pub const NEW: &str = "agent:v2";

/// A cluster with two replicas of the controller, for all tests.
pub async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    CLUSTER.get_or_init(start).await
}

async fn start() -> Cluster {
    let cluster = prepare(|_| {}).await;
    let flags = ["--controllers", "sidecarset-rollout"];
    let controllers = Controllers::install(&cluster, &program(), &json!({}), &flags).await;
    for replica in REPLICAS {
        controllers.start(replica, free_port().unwrap()).await;
    }
    cluster
}

/// Returns a cluster in which nothing runs yet. `edit` changes the definition of SidecarSets.
pub async fn prepare(edit: impl Fn(&mut Value)) -> Cluster {
    prepare_with(Options::new().nodes(1), edit).await
}

/// The same with these options.
pub async fn prepare_with(options: Options, edit: impl Fn(&mut Value)) -> Cluster {
    let cluster = Cluster::start(options.audit_log_of_pods()).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let namespaces = Api::<Namespace>::all(client.clone());
    for name in ["kruise-system", NAMESPACE] {
        create(&namespaces, &json!({"metadata": {"name": name}})).await.unwrap();
    }
    let mut definition = crd::document("pillion", &crd::Conversion::None, &Value::Null);
    edit(&mut definition.object);
    apply(&client, &definition.object.to_string(), "test").await.unwrap();
    let sets = sidecar_sets(&client);
    let served = async || sets.list(&ListParams::default()).await.ok();
    until("the definition being served", SOON, served).await.unwrap();
    cluster
}

fn sidecar_sets(client: &Client) -> Api<DynamicObject> {
    dynamic(client, "apps.kruise.io/v1beta1", "SidecarSet", "sidecarsets")
}

/// A namespace for one test, with its own SidecarSets.
pub struct RolloutNamespace {
    pub name: String,
    pub client: Client,
    cluster: &'static Cluster,
}

impl RolloutNamespace {
    pub async fn new() -> Self {
        Self::in_cluster(cluster().await).await
    }

    /// The same in another cluster.
    pub async fn in_cluster(cluster: &'static Cluster) -> Self {
        Self::existing(cluster, cluster.namespace("rollout").await.unwrap()).await
    }

    /// The same for a namespace that exists. A client works only in the test that has made it.
    pub async fn existing(cluster: &'static Cluster, name: String) -> Self {
        Self { name, client: cluster.admin().await.unwrap(), cluster }
    }

    /// Returns the name of a SidecarSet, which is unique in the cluster.
    pub fn set_name(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// Returns a SidecarSet for the Pods of this namespace, with one container, named like it, and these further fields.
    pub fn set(&self, name: &str, fields: &Value) -> Value {
        let mut set = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": self.set_name(name)},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.name}},
                "containers": [{"name": name, "image": OLD}],
            },
        });
        json_patch::merge(&mut set["spec"], fields);
        set
    }

    /// Creates SidecarSets, and Pods that are injected by them and run. `edit` changes the manifest of each Pod.
    pub async fn fill(&self, sets: &[Value], pods: usize, edit: impl Fn(usize, &mut Value)) {
        let known = sidecar_sets(&self.client);
        for set in sets {
            create(&known, set).await.unwrap();
        }
        self.fill_for(sets, pods, edit).await;
    }

    /// The same for SidecarSets that exist.
    pub async fn fill_for(&self, sets: &[Value], pods: usize, edit: impl Fn(usize, &mut Value)) {
        let manifests = (0..pods).map(|number| {
            let mut pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": format!("web-{number}"), "namespace": self.name, "labels": {"app": "web"}},
                "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "app:1"}]},
            });
            edit(number, &mut pod);
            pod
        });
        let injected = self.injected(sets, &manifests.collect::<Vec<_>>());
        assert_eq!(injected.len(), pods);
        for pod in injected {
            create(&self.pods(), &pod).await.unwrap();
        }
        let run = async || {
            let pods = self.pods().list(&ListParams::default()).await.unwrap();
            pods.items.iter().all(|pod| is_ready(&json!(pod))).then_some(())
        };
        until("the Pods being ready", SOON, run).await.unwrap();
    }

    /// Returns Pods or workloads with their sidecars, as the policy injects them.
    pub fn injected(&self, sets: &[Value], pods: &[Value]) -> Vec<Value> {
        let file = |name: &str| self.cluster.folder().join(format!("{}.{name}.json", self.name));
        let list = |items: &[Value]| json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        fs::write(file("sets"), list(sets)).unwrap();
        fs::write(file("pods"), list(pods)).unwrap();
        let mut command = Command::new(program());
        command.args(["inject", "-o", "json", "--sidecar-sets"]).arg(file("sets")).arg(file("pods"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        answer["items"].as_array().cloned().unwrap_or_else(|| vec![answer])
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Changes the spec of a SidecarSet.
    pub async fn change(&self, name: &str, fields: &Value) {
        let patch = Patch::Merge(json!({"spec": fields}));
        sidecar_sets(&self.client).patch(&self.set_name(name), &PatchParams::default(), &patch).await.unwrap();
    }

    /// Gives the container of a SidecarSet another image.
    pub async fn release(&self, name: &str, image: &str) {
        let stored = self.stored(name).await;
        let mut containers = stored["spec"]["containers"].clone();
        containers[0]["image"] = image.into();
        self.change(name, &json!({"containers": containers})).await;
    }

    pub async fn delete(&self, name: &str) {
        sidecar_sets(&self.client).delete(&self.set_name(name), &DeleteParams::default()).await.unwrap();
    }

    pub async fn stored(&self, name: &str) -> Value {
        json!(sidecar_sets(&self.client).get(&self.set_name(name)).await.unwrap())
    }

    /// Waits until the condition `Ready` of a SidecarSet has this reason, for its present generation. Returns the
    /// SidecarSet.
    pub async fn ended(&self, name: &str, reason: &str) -> Value {
        let ended = async || {
            let stored = self.stored(name).await;
            let generation = &stored["metadata"]["generation"];
            let conditions = stored["status"]["conditions"].as_array()?;
            let ready = conditions.iter().find(|condition| condition["type"] == "Ready")?;
            (ready["reason"] == reason && ready["observedGeneration"] == *generation).then_some(stored)
        };
        match until(reason, PATIENCE, ended).await {
            Ok(stored) => stored,
            Err(error) => panic!("{error}: {:#}\n{}", self.stored(name).await["status"], self.logs()),
        }
    }

    /// Waits until a SidecarSet is rolled out to so many Pods. The controller may see it before its Pods.
    pub async fn complete(&self, name: &str, pods: usize) {
        let counted = async || {
            let stored = self.ended(name, "Complete").await;
            ["matchedPods", "updatedPods"].iter().all(|count| stored["status"][count] == pods).then_some(())
        };
        if let Err(error) = until("the Pods being counted", SOON, counted).await {
            panic!("{error}: {:#}\n{}", self.stored(name).await["status"], self.logs());
        }
    }

    /// Waits until so many Pods have been upgraded, in all.
    pub async fn upgraded(&self, count: usize) {
        let upgraded = async || (self.upgrades().len() >= count).then_some(());
        if let Err(error) = until("the upgrades", PATIENCE, upgraded).await {
            panic!("{error}: {:#?}\n{}", self.upgrades(), self.logs());
        }
    }

    /// Returns all upgrades, in their order, after no Pod has been written for some time.
    pub async fn all_upgrades(&self) -> Vec<Upgrade> {
        let mut before = audit::writes(self.cluster, &self.name).len();
        loop {
            tokio::time::sleep(QUIET).await;
            let now = audit::writes(self.cluster, &self.name).len();
            if now == before {
                return self.upgrades();
            }
            before = now;
        }
    }

    /// Returns the writes to the Pods so far.
    pub fn writes(&self) -> Vec<audit::Write> {
        audit::writes(self.cluster, &self.name)
    }

    fn upgrades(&self) -> Vec<Upgrade> {
        audit::upgrades(&audit::writes(self.cluster, &self.name))
    }

    /// Returns the images of a container, in the order of the Pods' names.
    pub async fn images(&self, container: &str) -> Vec<String> {
        let pods = self.pods().list(&ListParams::default()).await.unwrap();
        let image = |pod: &Pod| {
            let containers = &pod.spec.as_ref().unwrap().containers;
            containers.iter().find(|known| known.name == container).unwrap().image.clone().unwrap()
        };
        pods.items.iter().map(image).collect()
    }

    /// Writes an annotation that nobody reads, as any other client might.
    pub async fn annotate(&self, pod: &str, value: &str) {
        self.edit_pod(pod, &json!({"metadata": {"annotations": {"test/other": value}}})).await;
    }

    /// Merges these fields into a Pod.
    pub async fn edit_pod(&self, pod: &str, fields: &Value) {
        let patch = Patch::Merge(fields);
        let _ = self.pods().patch(pod, &PatchParams::default(), &patch).await;
    }

    pub async fn delete_pod(&self, pod: &str) {
        self.pods().delete(pod, &DeleteParams::default().grace_period(0)).await.unwrap();
    }

    /// Returns the replica that holds the Lease.
    pub async fn holder(&self) -> String {
        let leases = Api::<Lease>::namespaced(self.client.clone(), NAMESPACE);
        let lease = leases.get(LEASE).await.unwrap();
        let identity = lease.spec.and_then(|spec| spec.holder_identity).unwrap();
        // The identity ends with a part that differs between processes.
        identity.split('_').next().unwrap().to_owned()
    }

    /// Kills a replica.
    pub async fn kill(&self, replica: &str) {
        self.cluster.stop_program(replica, 0).await.unwrap();
    }

    pub fn logs(&self) -> String {
        REPLICAS.iter().map(|replica| self.cluster.log(replica)).collect()
    }
}
