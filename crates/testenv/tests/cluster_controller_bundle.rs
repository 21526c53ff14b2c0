//! SidecarSets as custom resources reach the policy through the bundle that `pillion controller` keeps.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

mod support;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use pillion::rendering::crd;
use pillion_controller::Context;
use pillion_controller::bundle::{Health, Options, run};
use pillion_controller::metrics::Metrics;
use pillion_controller::watch::Wanted;
use pillion_core::bundle::config_map::TEXT_MAX;
use pillion_core::settings::Settings;
use pillion_testenv::faults::{Fault, Faults};
use pillion_testenv::{Cluster, apply, until};
use pillion_testkit::{FakeCluster, module};
use serde_json::{Value, json};
use support::clock::Ahead;
use tokio::sync::{Mutex, MutexGuard, OnceCell};
use tokio::task::JoinHandle;

const SOON: Duration = Duration::from_mins(1);
/// Long enough for a controller that looks at the clock every 50 ms to do what it should not.
const A_WHILE: Duration = Duration::from_secs(1);
const NEW: &str = "apps.kruise.io/v1beta1";
const OLD: &str = "apps.kruise.io/v1alpha1";
const NAME: &str = "sidecarsets";

/// A cluster with the definition of SidecarSets, which belong to no namespace: one test after the other.
struct Stage<'a> {
    cluster: &'a Cluster,
    client: Client,
    /// Where the bundle is, and ControllerRevisions.
    namespace: String,
    /// Seconds that the controllers' clocks are ahead.
    ahead: Ahead,
    _turn: MutexGuard<'a, ()>,
}

impl Stage<'_> {
    async fn new() -> Stage<'static> {
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

    fn sets(&self, version: &str) -> Api<DynamicObject> {
        let (group, version) = version.split_once('/').unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, "SidecarSet"));
        Api::all_with(self.client.clone(), &resource)
    }

    async fn put(&self, set: &Value) {
        apply(&self.client, &set.to_string(), "author").await.unwrap();
    }

    async fn delete(&self, name: &str) {
        self.sets(NEW).delete(name, &DeleteParams::default()).await.unwrap();
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The ConfigMaps of the bundle.
    async fn stored(&self) -> Vec<Value> {
        let found = self.config_maps().list(&ListParams::default()).await.unwrap();
        let of_bundle = found.into_iter().filter(|map| map.name_any().starts_with(NAME));
        of_bundle.map(|map| serde_json::to_value(map).unwrap()).collect()
    }

    fn settings(&self) -> Value {
        let whitelist = json!({"rules": []});
        json!({
            "bundleRef": {"namespace": self.namespace, "name": NAME}, "systemNamespace": self.namespace,
            "patchPodMetadataWhitelist": whitelist,
        })
    }

    async fn start(&self) -> Controller {
        self.start_with(&self.settings(), TEXT_MAX, Faults::none()).await
    }

    async fn start_with(&self, settings: &Value, max: usize, faults: Faults) -> Controller {
        let client = faults.client(self.cluster.as_admin().config().await.unwrap()).unwrap();
        let settings = Arc::new(Settings::decode(settings.clone()).unwrap());
        let (sender, receiver) = tokio::sync::watch::channel(settings);
        let context = Context { clock: self.ahead.clock(), ..Context::new(client, Wanted::ALL, receiver) };
        let (metrics, health) = (Arc::clone(&context.metrics), Health::default());
        let options = Options {
            max,
            debounce: Duration::from_millis(20),
            tick: Duration::from_millis(50),
            health: health.clone(),
        };
        let task = tokio::spawn(run(context, options));
        Controller { task, faults, metrics, health, _settings: sender }
    }

    /// The containers that a Pod gets, and what the policy asked for that.
    async fn inject(&self) -> (Vec<String>, Vec<String>) {
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
    async fn injects(&self, images: &[&str]) {
        let what = format!("a Pod getting {images:?}");
        let last = std::sync::Mutex::new(Vec::new());
        let gets = async || {
            let (found, _) = self.inject().await;
            let is_it = found == images;
            *last.lock().unwrap() = found;
            is_it.then_some(())
        };
        if let Err(error) = until(&what, SOON, gets).await {
            panic!("{error}; it gets {:?}", last.lock().unwrap());
        }
    }

    /// Waits until the condition of a SidecarSet has this status and reason, and answers its message.
    async fn says(&self, name: &str, status: &str, reason: &str) -> String {
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

    /// A stored version of a SidecarSet whose container has this image.
    async fn revision(&self, name: &str, of: &str, number: i64, image: &str) {
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

    async fn patch(&self, name: &str, patch: Value) {
        self.config_maps().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}

fn condition(set: &DynamicObject) -> Option<Value> {
    let conditions = set.data["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == "InBundle").cloned()
}

/// A SidecarSet for the Pod, with one container, which is called like it.
fn set(version: &str, name: &str, image: &str) -> Value {
    json!({
        "apiVersion": version, "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": name, "image": image}]},
    })
}

fn with(mut set: Value, spec: &Value) -> Value {
    json_patch::merge(&mut set["spec"], spec);
    set
}

fn bound(name: &str, namespace: &str) -> Value {
    let labels = json!({"kubernetes.io/metadata.name": namespace});
    with(set(NEW, name, &format!("{name}:1")), &json!({"namespaceSelector": {"matchLabels": labels}}))
}

fn time(config_map: &Value) -> &str {
    config_map["metadata"]["annotations"]["pillion.dev/bundle-time"].as_str().unwrap()
}

/// A controller, until it is dropped.
struct Controller {
    task: JoinHandle<()>,
    faults: Faults,
    metrics: Arc<Metrics>,
    health: Health,
    _settings: tokio::sync::watch::Sender<Arc<Settings>>,
}

impl Controller {
    async fn kill(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }

    fn writes(&self) -> Vec<String> {
        self.faults.requests().into_iter().filter(|request| !request.starts_with("GET ")).collect()
    }

    /// Nothing is written any more.
    async fn assert_settled(&self) {
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

#[tokio::test]
async fn sidecar_sets_of_both_versions_are_injected_edited_and_deleted() {
    let stage = Stage::new().await;
    let controller = stage.start().await;
    stage.injects(&[]).await;

    stage.put(&set(NEW, "b", "b:1")).await;
    // v1beta1 has no such field, and the definition does not convert.
    stage.put(&with(set(OLD, "a", "a:1"), &json!({"namespace": "default"}))).await;
    stage.put(&with(set(OLD, "elsewhere", "e:1"), &json!({"namespace": "kube-public"}))).await;
    stage.injects(&["a:1", "b:1"]).await;
    stage.says("a", "True", "Current").await;
    controller.assert_settled().await;
    assert!(controller.writes().len() < 12, "{:?}", controller.writes());

    stage.put(&set(NEW, "b", "b:2")).await;
    stage.injects(&["a:1", "b:2"]).await;
    stage.says("b", "True", "Current").await;
    let metrics = controller.metrics.encoded();
    assert!(!metrics.contains("pillion_controller_bundle_delay_seconds_count 0"), "{metrics}");

    stage.delete("a").await;
    stage.injects(&["b:2"]).await;
    // Its status, counts of Pods for one, is no part of the bundle.
    controller.assert_settled().await;
    let before = stage.stored().await;
    let status = json!({"status": {"matchedPods": 3, "updatedPods": 2, "readyPods": 1}});
    stage.sets(NEW).patch_status("b", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    controller.assert_settled().await;
    assert_eq!(stage.stored().await, before);
    assert_eq!(controller.health.problem(), None);
}

#[tokio::test]
async fn a_set_that_is_not_valid_takes_nothing_out_of_the_bundle() {
    let stage = Stage::new().await;
    stage.put(&set(NEW, "a", "a:1")).await;
    stage
        .put(&with(set(NEW, "broken", "x:1"), &json!({"injectionStrategy": {"revision": {"revisionName": "none"}}})))
        .await;
    stage.put(&set(NEW, "z", "z:1")).await;
    let mut named = set(NEW, "own", "other:1");
    let mut settings = stage.settings();
    settings["sidecarSets"] = json!([named.clone()]);
    settings["sidecarSets"][0]["spec"]["selector"] = json!({"matchLabels": {"app": "own"}});
    stage.put(&named).await;
    let controller = stage.start_with(&settings, TEXT_MAX, Faults::none()).await;
    stage.injects(&["a:1", "z:1"]).await;
    assert!(stage.says("broken", "False", "Invalid").await.contains("ControllerRevision \"none\""));
    assert!(stage.says("own", "False", "InSettings").await.contains("settings"));
    assert!(stage.says("a", "True", "Current").await.contains("this version"));

    // It was good before, and stays what it was then.
    stage.put(&with(set(NEW, "a", "a:2"), &json!({"containers": [{"name": "a", "image": ""}]}))).await;
    let message = stage.says("a", "False", "Invalid").await;
    assert!(message.contains("spec.containers[0].image") && message.contains("the version before"), "{message}");
    stage.injects(&["a:1", "z:1"]).await;
    stage.put(&set(NEW, "z", "z:2")).await;
    stage.injects(&["a:1", "z:2"]).await;
    assert!(controller.metrics.encoded().contains("bundle_refused_sidecarsets 3"));
    let events: Api<Event> = Api::namespaced(stage.client.clone(), "default");
    let told = async || {
        let events = events.list(&ListParams::default()).await.ok()?;
        let is_it = |event: &Event| {
            let regarding = event.regarding.as_ref().and_then(|regarding| regarding.name.as_deref());
            regarding == Some("a") && event.reason.as_deref() == Some("Invalid")
        };
        events.iter().any(is_it).then_some(())
    };
    until("an Event about \"a\"", SOON, told).await.unwrap();

    // Two that are in each other's way: the one that is there stays.
    named = set(NEW, "rival", "rival:1");
    named["spec"]["containers"][0]["name"] = json!("z");
    stage.put(&named).await;
    assert!(stage.says("rival", "False", "Invalid").await.contains("SidecarSet \"z\""));
    // Another object of that name has nothing to do with what was there before.
    stage.delete("a").await;
    stage.put(&with(set(NEW, "a", ""), &json!({}))).await;
    stage.says("a", "False", "Invalid").await;
    stage.injects(&["z:2"]).await;
    stage.delete("z").await;
    stage.injects(&["rival:1"]).await;
    stage.put(&set(NEW, "a", "a:3")).await;
    stage.injects(&["a:3", "rival:1"]).await;
}

#[tokio::test]
async fn p4_a_set_that_asks_for_too_much_is_left_out() {
    let stage = Stage::new().await;
    let mut settings = stage.settings();
    settings["featureGates"] = json!({"SidecarSetServiceAccountInjection": true});
    let _controller = stage.start_with(&settings, TEXT_MAX, Faults::none()).await;
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    let asks = json!({
        "serviceAccountName": "agent", "behaviorWhenServiceAccountInjection": "Merge",
        "serviceAccountPermissions": rules, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
    });
    stage.put(&with(set(NEW, "greedy", "g:1"), &asks)).await;
    stage.put(&set(NEW, "plain", "p:1")).await;
    assert!(stage.says("greedy", "False", "Invalid").await.contains("secrets"));
    stage.injects(&["p:1"]).await;
}

#[tokio::test]
async fn r9_a_stored_version_is_in_the_bundle_so_that_the_policy_asks_for_nothing_else() {
    let stage = Stage::new().await;
    stage.revision("s-1", "s", 1, "s:old").await;
    let by = |revision: Value| with(set(NEW, "s", "s:new"), &json!({"injectionStrategy": {"revision": revision}}));
    stage.put(&by(json!({"revisionName": "s-1", "policy": "Always"}))).await;
    let controller = stage.start().await;
    stage.injects(&["s:old"]).await;
    assert_eq!(stage.inject().await.1, [format!("v1/ConfigMap {}/{NAME}", stage.namespace)]);
    controller.assert_settled().await;
    let reads = controller.faults.requests().iter().filter(|request| request.contains("/s-1")).count();
    assert_eq!(reads, 1, "{:?}", controller.faults.requests());

    stage.put(&by(json!({"customVersion": "v1", "policy": "Always", "revisionName": null}))).await;
    stage.says("s", "True", "Current").await;
    stage.revision("s-2", "s", 2, "s:newer").await;
    stage.injects(&["s:newer"]).await;
    // One that is gone is no reason to leave the set out.
    let revisions: Api<ControllerRevision> = Api::namespaced(stage.client.clone(), &stage.namespace);
    for name in ["s-1", "s-2"] {
        revisions.delete(name, &DeleteParams::default()).await.unwrap();
    }
    stage.says("s", "False", "Invalid").await;
    stage.injects(&["s:newer"]).await;
}

#[tokio::test]
async fn what_is_too_long_for_one_config_map_is_in_shards() {
    let stage = Stage::new().await;
    for namespace in ["default", "a", "b", "c"] {
        stage.put(&bound(&format!("in-{namespace}"), namespace)).await;
    }
    let max = 1100;
    let controller = stage.start_with(&stage.settings(), max, Faults::none()).await;
    stage.injects(&["in-default:1"]).await;
    let (_, asked) = stage.inject().await;
    assert_eq!(asked.iter().filter(|asked| asked.contains("ConfigMap")).count(), 2, "{asked:?}");
    controller.assert_settled().await;
    let count = stage.stored().await.len();
    assert!(count > 2, "{count}");

    // Killed when the first shard is new and the index is not.
    controller.kill().await;
    let faults = Faults::at(2, Fault::StopBefore);
    stage
        .put(&with(bound("in-default", "default"), &json!({"containers": [{"name": "in-default", "image": "new:1"}]})))
        .await;
    let halfway = stage.start_with(&stage.settings(), max, faults.clone()).await;
    faults.stopped().await;
    halfway.kill().await;
    assert!(faults.requests()[0].contains(&format!("{NAME}-")), "{:?}", faults.requests());
    let controller = stage.start_with(&stage.settings(), max, Faults::none()).await;
    stage.injects(&["new:1"]).await;

    // Nothing of the shards is left where one is enough.
    for namespace in ["a", "b", "c"] {
        stage.delete(&format!("in-{namespace}")).await;
    }
    let one = async || (stage.stored().await.len() == 1).then_some(());
    until("the shards being gone", SOON, one).await.unwrap();
    stage.injects(&["new:1"]).await;
    assert_eq!(stage.stored().await[0]["data"].get("shards"), None);

    // What has no room stays out, and the rest goes on.
    stage.put(&set(NEW, "wide", "wide:1")).await;
    stage.injects(&["new:1", "wide:1"]).await;
    let noise: Vec<String> = (0..200).map(|number| format!("{:x}", number * 7_919_u64 * 104_729)).collect();
    stage
        .put(&with(
            set(NEW, "wider", "wider:1"),
            &json!({"containers": [{"name": "wider", "image": "wider:1", "args": noise}]}),
        ))
        .await;
    assert!(stage.says("wider", "False", "TooLong").await.contains("bytes"));
    stage.put(&set(NEW, "wide", "wide:2")).await;
    stage.injects(&["new:1", "wide:2"]).await;
    assert_eq!(controller.health.problem(), None);
}

/// What is stored of the bundle, without what tells when and how often it was written.
async fn essence(stage: &Stage<'_>) -> Vec<(String, Value, Value)> {
    let of = |map: &Value| {
        let metadata = &map["metadata"];
        (metadata["name"].as_str().unwrap().to_owned(), metadata["labels"].clone(), map["data"].clone())
    };
    stage.stored().await.iter().map(of).collect()
}

/// A bundle of two shards and more, from nothing.
async fn is_right(stage: &Stage<'_>, expected: &[(String, Value, Value)]) {
    let right = async || (essence(stage).await == expected).then_some(());
    if let Err(error) = until("the bundle being right", SOON, right).await {
        panic!("{error}: {:#?}", essence(stage).await);
    }
}

#[tokio::test]
async fn whatever_fails_once_the_bundle_is_the_same_in_the_end() {
    let stage = Stage::new().await;
    for namespace in ["default", "a", "b", "c"] {
        stage.put(&bound(&format!("in-{namespace}"), namespace)).await;
    }
    let max = 1100;
    let controller = stage.start_with(&stage.settings(), max, Faults::none()).await;
    stage.says("in-c", "True", "Current").await;
    controller.assert_settled().await;
    let expected = essence(&stage).await;
    let count = controller.faults.count();
    controller.kill().await;
    let clear = async || {
        for map in stage.stored().await {
            let name = map["metadata"]["name"].as_str().unwrap();
            stage.config_maps().delete(name, &DeleteParams::default()).await.unwrap();
        }
    };
    for number in 1..=count {
        for fault in [Fault::Refused(500), Fault::AnswerLost, Fault::StopBefore, Fault::StopAfter] {
            clear().await;
            let faults = Faults::at(number, fault);
            let controller = stage.start_with(&stage.settings(), max, faults.clone()).await;
            if matches!(fault, Fault::StopBefore | Fault::StopAfter) {
                let stopped = tokio::time::timeout(Duration::from_secs(20), faults.stopped()).await;
                controller.kill().await;
                // Conditions are there already.
                if stopped.is_err() {
                    is_right(&stage, &expected).await;
                    return;
                }
                let _controller = stage.start_with(&stage.settings(), max, Faults::none()).await;
                is_right(&stage, &expected).await;
            } else {
                is_right(&stage, &expected).await;
                drop(controller);
            }
        }
    }
}

#[tokio::test]
async fn a_bundle_that_does_not_change_is_renewed_every_two_minutes_and_otherwise_left_alone() {
    let stage = Stage::new().await;
    stage.put(&set(NEW, "a", "a:1")).await;
    let controller = stage.start().await;
    stage.injects(&["a:1"]).await;
    stage.says("a", "True", "Current").await;
    controller.assert_settled().await;
    let (before, writes) = (stage.stored().await, controller.writes().len());

    stage.ahead.set(100);
    controller.assert_settled().await;
    assert_eq!(stage.stored().await, before);
    stage.ahead.set(125);
    let renewed = async || {
        let now = stage.stored().await;
        (time(&now[0]) != time(&before[0])).then_some(now)
    };
    let after = until("the time being renewed", SOON, renewed).await.unwrap();
    assert_eq!(after[0]["data"], before[0]["data"]);
    controller.assert_settled().await;
    assert_eq!(controller.writes().len(), writes + 1, "{:?}", controller.writes());
    let requests = controller.faults.count();
    controller.kill().await;

    // Whoever comes next finds everything as it should be.
    let next = stage.start().await;
    next.assert_settled().await;
    assert_eq!(next.faults.requests(), [""; 0]);
    assert!(requests > 0);

    // What somebody else does to it is undone.
    stage.patch(NAME, json!({"data": {"bundle": "pillion-bundle-1:0:AAAA", "shards": "2"}})).await;
    stage.injects(&["a:1"]).await;
    let right = async || (stage.stored().await[0]["data"] == before[0]["data"]).then_some(());
    until("the data being as before", SOON, right).await.unwrap();
    stage.config_maps().delete(NAME, &DeleteParams::default()).await.unwrap();
    stage.injects(&["a:1"]).await;
}

#[tokio::test]
async fn a_config_map_that_is_somebody_elses_is_left_alone() {
    let stage = Stage::new().await;
    stage.put(&set(NEW, "a", "a:1")).await;
    let foreign = json!({"metadata": {"name": NAME}, "data": {"fluent-bit.conf": "x"}});
    let foreign = serde_json::from_value(foreign).unwrap();
    stage.config_maps().create(&PostParams::default(), &foreign).await.unwrap();
    let controller = stage.start().await;
    let problem = async || controller.health.problem();
    let problem = until("the controller not being well", SOON, problem).await.unwrap();
    assert!(problem.contains("is not Pillion's"), "{problem}");
    assert_eq!(stage.stored().await[0]["data"], json!({"fluent-bit.conf": "x"}));
    assert!(controller.writes().iter().all(|write| write.contains("/events")), "{:?}", controller.writes());

    // One that `pillion bundle --config-map` made is as good as its own.
    let text = pillion_core::bundle::write(&[]);
    stage.patch(NAME, json!({"data": {"fluent-bit.conf": null, "bundle": text, "generation": "by hand"}})).await;
    stage.injects(&["a:1"]).await;
    let well = async || controller.health.problem().is_none().then_some(());
    until("the controller being well", SOON, well).await.unwrap();
    let one = async || (stage.stored().await[0]["data"].as_object().unwrap().len() == 1).then_some(());
    until("what was made by hand being gone", SOON, one).await.unwrap();
}
