//! A cluster with SidecarSets, and a controller that maintains their bundle.

mod identities;
mod tests;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use pillion_admission::settings::Settings;
use pillion_bundle::config_map::TEXT_MAX;
use pillion_controllers::bundle::{BundleKeeper, Options};
use pillion_install::rendering::crd;
use pillion_runtime::Context;
use pillion_runtime::metrics::Metrics;
use pillion_runtime::queue::run;
use pillion_runtime::store::Store;
use pillion_testenv::faults::Faults;
use pillion_testenv::{Cluster, apply, until};
use pillion_testkit::{FakeCluster, module};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};
use tokio::task::JoinHandle;

pub use crate::support::SOON;
use crate::support::clock::Ahead;

/// Long enough for a controller that checks the clock every 50 ms to do something wrong.
pub const A_WHILE: Duration = Duration::from_secs(1);
pub const NEW: &str = "apps.kruise.io/v1beta1";
pub const OLD: &str = "apps.kruise.io/v1alpha1";
pub const NAME: &str = "sidecarsets";

/// A cluster with the SidecarSet definition. SidecarSets are cluster-wide, so tests run one after the other.
pub struct Stage<'a> {
    pub cluster: &'a Cluster,
    pub client: Client,
    /// The namespace of the bundle and of ControllerRevisions.
    pub namespace: String,
    /// The number of seconds by which the controllers' clocks are ahead.
    pub ahead: Ahead,
    _turn: MutexGuard<'a, ()>,
}

impl Stage<'_> {
    pub async fn new() -> Stage<'static> {
        static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
        static TURN: Mutex<()> = Mutex::const_new(());
        let turn = TURN.lock().await;
        let cluster =
            CLUSTER.get_or_init(async || Cluster::start(pillion_testenv::Options::new()).await.unwrap()).await;
        let client = cluster.admin().await.unwrap();
        let definition = crd::document("pillion", &crd::Conversion::None, &Value::Null);
        apply(&client, &definition.to_yaml().unwrap(), "test").await.unwrap();
        let namespace = cluster.namespace("bundle").await.unwrap();
        let stage = Stage { cluster, client, namespace, ahead: Ahead::default(), _turn: turn };
        let sets = stage.sets(NEW);
        let served = async || sets.list(&ListParams::default()).await.ok();
        for left in until("the definition being served", SOON, served).await.unwrap() {
            sets.delete(&left.name_any(), &DeleteParams::default()).await.unwrap();
        }
        stage
    }

    pub fn sets(&self, version: &str) -> Api<DynamicObject> {
        let (group, version) = version.split_once('/').unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, "SidecarSet"));
        Api::all_with(self.client.clone(), &resource)
    }

    pub async fn put(&self, set: &Value) {
        apply(&self.client, &set.to_string(), "author").await.unwrap();
    }

    pub async fn delete(&self, name: &str) {
        self.sets(NEW).delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Returns the ConfigMaps of the bundle.
    pub async fn stored(&self) -> Vec<Value> {
        let found = self.config_maps().list(&ListParams::default()).await.unwrap();
        let of_bundle = found.into_iter().filter(|map| map.name_any().starts_with(NAME));
        of_bundle.map(|map| serde_json::to_value(map).unwrap()).collect()
    }

    pub fn settings(&self) -> Value {
        let whitelist = json!({"rules": []});
        json!({
            "bundleRef": {"namespace": self.namespace, "name": NAME}, "systemNamespace": self.namespace,
            "patchPodMetadataWhitelist": whitelist,
        })
    }

    pub async fn start(&self) -> Controller {
        self.start_with(&self.settings(), TEXT_MAX, Faults::none()).await
    }

    pub async fn start_with(&self, settings: &Value, max: usize, faults: Faults) -> Controller {
        let client = faults.client(self.cluster.as_admin().config().await.unwrap()).unwrap();
        let (sender, receiver) = tokio::sync::watch::channel(decoded(settings));
        let context = Context { clock: self.ahead.clock(), ..Context::new(client, receiver) };
        let (metrics, store) = (Arc::clone(&context.metrics), Arc::clone(&context.store));
        let task = tokio::spawn(run::<BundleKeeper>(context, Options { max, ..impatient() }));
        Controller { task, faults, metrics, store, _settings: sender }
    }

    /// Returns the containers that a Pod gets, and the policy's look-ups for that.
    pub async fn inject(&self) -> (Vec<String>, Vec<String>) {
        let mut namespace = serde_json::to_value(Namespace {
            metadata: ObjectMeta { name: Some("default".to_owned()), ..ObjectMeta::default() },
            ..Namespace::default()
        })
        .unwrap();
        namespace["metadata"]["labels"] = json!({"kubernetes.io/metadata.name": "default"});
        let cluster = Arc::new(FakeCluster::with(self.stored().await.into_iter().chain([namespace])));
        let request = json!({
            "uid": "u", "operation": "CREATE", "namespace": "default", "name": "p",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "object": {
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "web"}},
                "spec": {"containers": [{"name": "app", "image": "app:1"}]},
            },
        });
        let answer = module().validate(&request, &self.settings(), cluster.clone()).unwrap();
        if !answer.accepted {
            return (vec![answer.message.unwrap()], cluster.asked());
        }
        let pod = answer.mutated_object.unwrap_or_else(|| request["object"].clone());
        let containers = pod["spec"]["containers"].as_array().unwrap().iter();
        let images = containers.map(|container| container["image"].as_str().unwrap().to_owned());
        (images.filter(|image| image != "app:1").collect(), cluster.asked())
    }

    /// Waits until a Pod gets containers with these images.
    pub async fn injects(&self, images: &[&str]) {
        let what = format!("a Pod getting {images:?}");
        let last = parking_lot::Mutex::new(Vec::new());
        let gets = async || {
            let (found, _) = self.inject().await;
            let is_it = found == images;
            *last.lock() = found;
            is_it.then_some(())
        };
        if let Err(error) = until(&what, SOON, gets).await {
            panic!("{error}; it gets {:?}", last.lock());
        }
    }

    /// Waits until the condition of a SidecarSet has this status and reason, and returns its message.
    pub async fn says(&self, name: &str, status: &str, reason: &str) -> String {
        let sets = self.sets(NEW);
        let says = async || {
            let set = sets.get(name).await.ok()?;
            let condition = condition(&set)?;
            let is_new = condition["observedGeneration"] == json!(set.metadata.generation);
            (is_new && condition["status"] == status && condition["reason"] == reason)
                .then(|| condition["message"].as_str().unwrap().to_owned())
        };
        until(&format!("\"{name}\" saying {status}, {reason}"), SOON, says).await.unwrap()
    }

    /// Creates a stored version of a SidecarSet whose container has this image.
    pub async fn revision(&self, name: &str, of: &str, number: i64, image: &str) {
        let spec = json!({
            "$patch": "replace", "containers": [{"name": of, "image": image}], "initContainers": null, "volumes": null
        });
        let labels = json!({"kruise.io/sidecarset-name": of, "apps.kruise.io/sidecarset-custom-version": "v1"});
        let object = json!({
            "metadata": {"name": name, "labels": labels}, "revision": number, "data": {"spec": spec},
        });
        let revisions: Api<ControllerRevision> = Api::namespaced(self.client.clone(), &self.namespace);
        revisions.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    pub async fn patch(&self, name: &str, patch: Value) {
        self.config_maps().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}

pub fn decoded(settings: &Value) -> Arc<Settings> {
    Arc::new(Settings::decode(settings.clone()).unwrap())
}

/// Returns options with short delays.
pub fn impatient() -> Options {
    Options { gather: Duration::from_millis(20), tick: Duration::from_millis(50), ..Options::default() }
}

pub fn condition(set: &DynamicObject) -> Option<Value> {
    let conditions = set.data["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == "InBundle").cloned()
}

/// Returns a SidecarSet for the Pod, with one container of the same name.
pub fn set(version: &str, name: &str, image: &str) -> Value {
    json!({
        "apiVersion": version, "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": name, "image": image}]},
    })
}

pub fn with(mut set: Value, spec: &Value) -> Value {
    json_patch::merge(&mut set["spec"], spec);
    set
}

pub fn bound(name: &str, namespace: &str) -> Value {
    let labels = json!({"kubernetes.io/metadata.name": namespace});
    with(set(NEW, name, &format!("{name}:1")), &json!({"namespaceSelector": {"matchLabels": labels}}))
}

pub fn time(config_map: &Value) -> &str {
    config_map["metadata"]["annotations"]["pillion.dev/bundle-time"].as_str().unwrap()
}

/// A controller that runs until it is dropped.
pub struct Controller {
    task: JoinHandle<()>,
    pub faults: Faults,
    pub metrics: Arc<Metrics>,
    store: Arc<Store>,
    _settings: tokio::sync::watch::Sender<Arc<Settings>>,
}

impl Controller {
    /// Returns why the process is not ready, if so.
    pub fn problem(&self) -> Option<String> {
        self.store.report().problems.into_iter().next()
    }

    pub async fn kill(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }

    pub fn writes(&self) -> Vec<String> {
        self.faults.requests().into_iter().filter(|request| !request.starts_with("GET ")).collect()
    }

    /// Checks that no more requests are sent.
    pub async fn assert_settled(&self) {
        let settled = async || {
            let before = self.faults.count();
            tokio::time::sleep(A_WHILE).await;
            (self.faults.count() == before).then_some(before)
        };
        let count = until("nothing being sent any more", SOON, settled).await.unwrap();
        tokio::time::sleep(A_WHILE).await;
        assert_eq!(self.faults.count(), count, "{:?}", self.faults.requests());
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.task.abort();
    }
}
