//! A controller of merged accounts, and a namespace for it.

mod rights;
mod tests;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, Config};
use pillion_admission::settings::Settings;
use pillion_controllers::merged::{MergedAccounts, Options as MergedOptions};
use pillion_identity::decision::Asking;
use pillion_identity::merged::ready;
use pillion_identity::names;
use pillion_kubernetes::lookup::{Answer, Lookup, ObjectRef};
use pillion_plan::demand::{Demands, PreparedSets};
use pillion_runtime::Context;
use pillion_runtime::queue::run;
use pillion_testenv::faults::Faults;
use pillion_testenv::{Cluster, Options, until};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};
use tokio::task::JoinHandle;

use crate::support::clock::Ahead;
use crate::support::namespace::TestNamespace;
use crate::support::{SOON, create, pod};

/// The name of the merged account of the sets `a` and `b`.
pub const NAME: &str = "sidecarset-merged-7e18f737311b2dc3";

/// Returns a cluster for one test at a time: each test has a controller that handles all namespaces.
pub async fn cluster() -> (&'static Cluster, MutexGuard<'static, ()>) {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static TURN: Mutex<()> = Mutex::const_new(());
    let turn = TURN.lock().await;
    (CLUSTER.get_or_init(async || Cluster::start(Options::new().controller_manager()).await.unwrap()).await, turn)
}

/// Returns the SidecarSet `a` or `b`, which merges its account with the other's, with this verb on Pods.
pub fn set(name: &str, verb: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [{"name": name, "image": "agent:1"}],
            "updateStrategy": {"type": "NotUpdate"},
            "serviceAccountName": format!("{name}-account"), "behaviorWhenServiceAccountInjection": "Merge",
            "serviceAccountPermissions": [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}],
            "serviceAccountPartners": [if name == "a" { "b" } else { "a" }],
        },
    })
}

pub fn settings(sets: &[Value]) -> Arc<Settings> {
    let gates = json!({"SidecarSetServiceAccountInjection": true});
    Arc::new(Settings::decode(json!({"sidecarSets": sets, "featureGates": gates})).unwrap())
}

/// Returns settings with the sets `a` and `b`.
pub fn both() -> Arc<Settings> {
    settings(&[set("a", "get"), set("b", "list")])
}

/// A controller that runs until it is dropped.
pub struct Controller {
    task: JoinHandle<()>,
    ahead: Ahead,
    pub faults: Faults,
    pub settings: tokio::sync::watch::Sender<Arc<Settings>>,
}

impl Controller {
    pub fn start(config: Config, faults: Faults, settings: Arc<Settings>, ahead: i64) -> Self {
        let client = faults.client(config).unwrap();
        let (ahead, clock) = Ahead::by(ahead);
        let (sender, settings) = tokio::sync::watch::channel(settings);
        let context = Context { clock, ..Context::new(client, settings) };
        let task = tokio::spawn(run::<MergedAccounts>(context, MergedOptions::default()));
        Self { task, ahead, faults, settings: sender }
    }

    pub async fn admin(cluster: &Cluster, faults: Faults) -> Self {
        Self::start(cluster.as_admin().config().await.unwrap(), faults, both(), 0)
    }

    /// Advances its clock by this many seconds.
    pub fn advance(&self, seconds: i64) {
        self.ahead.add(seconds);
    }

    /// Kills it, whatever it is doing.
    pub async fn kill(mut self) {
        self.task.abort();
        assert!((&mut self.task).await.unwrap_err().is_cancelled());
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The three objects as they were read.
struct Stored([Option<Value>; 3]);

impl Lookup for Stored {
    fn get(&self, object: &ObjectRef) -> Answer {
        Ok(self.0.iter().flatten().find(|stored| stored["kind"] == object.kind).cloned())
    }
}

impl TestNamespace {
    /// Creates a Pod in the form that the policy would give it.
    pub async fn pod(&self, name: &str) {
        let pod = pod(&json!({
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"serviceAccountName": NAME, "automountServiceAccountToken": false},
        }));
        create(&self.api::<Pod>(), &pod).await.unwrap();
    }

    pub async fn delete_pod(&self, name: &str) {
        self.api::<Pod>().delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
    }

    /// Returns ServiceAccount, Role and RoleBinding.
    pub async fn objects(&self) -> [Option<Value>; 3] {
        [
            object(&self.api::<ServiceAccount>()).await,
            object(&self.api::<Role>()).await,
            object(&self.api::<RoleBinding>()).await,
        ]
    }

    /// Checks whether the policy would now give a Pod the account.
    pub async fn is_ready(&self, settings: &Settings) -> Result<(), String> {
        let namespace = json!({"metadata": {"name": self.name}});
        let prepared = PreparedSets::from_sets(&settings.sidecar_sets);
        let demands = Demands::new(&prepared, settings, &namespace);
        let sets: Vec<&Asking> = ["a", "b"].iter().filter_map(|name| demands.merging(name)).collect();
        ready(NAME, &sets, &self.name, &Stored(self.objects().await)).map_err(|reason| reason.to_string())
    }

    pub async fn ready(&self, settings: &Settings) {
        let is_ready = async || self.is_ready(settings).await.ok();
        if let Err(error) = until("the merged account being ready", SOON, is_ready).await {
            panic!("{error}: {:?} {:#?}", self.is_ready(settings).await, self.objects().await);
        }
    }

    pub async fn objects_that(&self, what: &str, is: impl Fn(&[Option<Value>; 3]) -> bool) -> [Option<Value>; 3] {
        match until(what, SOON, async || Some(self.objects().await).filter(|objects| is(objects))).await {
            Ok(objects) => objects,
            Err(error) => panic!("{error}: {:#?}", self.objects().await),
        }
    }

    pub async fn gone(&self) {
        self.objects_that("all being gone", |objects| objects.iter().all(Option::is_none)).await;
    }

    /// Returns the notes of Events about cluster-wide objects that have this reason and mention this namespace.
    pub async fn notes(&self, reason: &str) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let events = events.list(&ListParams::default()).await.unwrap();
        let of_reason = events.items.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
        of_reason.filter_map(|event| event.note).filter(|note| note.contains(&self.name)).collect()
    }

    pub async fn noted(&self, reason: &str) -> String {
        let first = async || self.notes(reason).await.into_iter().next();
        until(&format!("an Event {reason}"), SOON, first).await.unwrap()
    }
}

async fn object<K>(api: &Api<K>) -> Option<Value>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    Some(serde_json::to_value(api.get_opt(NAME).await.unwrap()?).unwrap())
}

pub fn is_marked(object: Option<&Value>) -> bool {
    object.is_some_and(|object| object["metadata"]["annotations"][names::GC_PENDING].is_string())
}

pub fn uid(object: Option<&Value>) -> String {
    object.unwrap()["metadata"]["uid"].as_str().unwrap().to_owned()
}

pub fn finalizers(object: Option<&Value>) -> Value {
    object.unwrap()["metadata"]["finalizers"].clone()
}

/// Returns the context of an uninstallation.
pub fn uninstalling(client: &Client) -> Context {
    Context::new(client.clone(), tokio::sync::watch::channel(Arc::default()).1)
}
