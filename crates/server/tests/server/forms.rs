//! A server compiles its settings when it loads them. Every form of the settings gives the answers that the module gives
//! to the settings as they are written.

use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use pillion_bundle::config_map;
use pillion_bundle::source::ConfigMapName;
use pillion_host::admission::AdmissionResponse;
use pillion_host::{AccessRequest, Cluster, ClusterError, ListRequest, NoCluster, ResourceRequest, paths};
use pillion_kubernetes::time::Timestamp;
use pillion_server::ServedSettings;
use pillion_server::client::Client;
use pillion_sidecarset::sidecar_set::decode::decode;
use pillion_testkit::strategies::{pod, sidecar_sets};
use pillion_testkit::{FakeCluster, conformance, module};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{Setup, Started, patch, policy, response, review};

/// A cluster that is exchanged between two requests.
#[derive(Default)]
struct Exchanged(Mutex<Option<Arc<FakeCluster>>>);

impl Exchanged {
    fn now(&self) -> Arc<dyn Cluster> {
        self.0.lock().clone().map_or_else(|| Arc::new(NoCluster) as _, |cluster| cluster as _)
    }
}

impl Cluster for Exchanged {
    fn get(&self, resource: &ResourceRequest) -> Result<Vec<u8>, ClusterError> {
        self.now().get(resource)
    }

    fn list(&self, request: &ListRequest) -> Result<Vec<u8>, ClusterError> {
        self.now().list(request)
    }

    fn can_i(&self, request: &AccessRequest) -> Result<Vec<u8>, ClusterError> {
        self.now().can_i(request)
    }
}

struct Compared {
    server: Started,
    client: Client,
    cluster: Arc<Exchanged>,
}

impl Compared {
    async fn start() -> Self {
        let cluster = Arc::new(Exchanged::default());
        let server = Setup { cluster: Arc::clone(&cluster) as _, ..Setup::default() }.start().await;
        let client = server.client().await;
        Self { server, client, cluster }
    }

    /// Uses settings and a cluster; returns whether the policy accepts the settings.
    fn load(&self, settings: &Value, cluster: FakeCluster) -> bool {
        *self.cluster.0.lock() = Some(Arc::new(cluster));
        let Ok(checked) = ServedSettings::check(&policy(), settings.clone()) else { return false };
        self.server.settings.send_replace(Arc::new(checked));
        true
    }

    /// Returns the server's answer, and the module's to the settings as they are written.
    async fn ask(&mut self, request: &Value, settings: &Value) -> (Value, Value) {
        let answer = self.client.post(paths::MUTATE, review(request).to_string()).await.unwrap();
        let object = request.get("object").filter(|object| !object.is_null());
        let decision = module().validate(request, settings, self.cluster.now()).unwrap();
        let uid = request["uid"].as_str().unwrap();
        let expected = serde_json::to_value(AdmissionResponse::new(uid, object, decision)).unwrap();
        (readable(response(&answer)), readable(expected))
    }
}

/// Returns a response with its patch decoded, and without times: two evaluations may run in different seconds.
fn readable(mut response: Value) -> Value {
    const TIME: &str = r#"updateTimestamp\":\""#;
    response["patch"] = patch(&response);
    let text = response.to_string();
    let (first, rest) = text.split_once(TIME).unwrap_or((&text, ""));
    let rest = rest.split(TIME).map(|part| part.trim_start_matches(|letter| letter != '\\'));
    serde_json::from_str(&rest.fold(first.to_owned(), |text, part| text + part)).unwrap_or_else(|error| {
        panic!("{error}: {text}");
    })
}

fn create_pod(pod: &Value) -> Value {
    json!({
        "uid": "11111111-0000-4000-8000-000000000001", "operation": "CREATE", "namespace": "default", "name": "p",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "userInfo": {"username": "dev"}, "object": pod, "dryRun": false,
    })
}

fn bundle(sets: &[Value]) -> String {
    pillion_bundle::write(&decoded(sets))
}

fn decoded(sets: &[Value]) -> Vec<pillion_sidecarset::sidecar_set::SidecarSet> {
    sets.iter().map(|set| decode(set.clone()).unwrap().into_sidecar_set()).collect()
}

fn set(name: &str, app: &str, namespace: Option<&str>) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": app}},
            "containers": [{"name": name, "image": format!("agent:{name}")}],
        },
    });
    if let Some(namespace) = namespace {
        set["spec"]["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    }
    set
}

fn web(labels: &Value) -> Value {
    json!({"metadata": {"name": "p", "labels": labels}, "spec": {"containers": [{"name": "app", "image": "a"}]}})
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_admissions_get_the_same_answers() {
    let mut compared = Compared::start().await;
    let mut count = 0;
    for case in conformance::cases(&conformance::own_file()) {
        let settings = case.settings();
        if !compared.load(&settings, conformance::cluster(&case)) {
            continue;
        }
        let mut request = case.request().clone();
        if request["userInfo"].is_null() {
            request["userInfo"] = json!({});
        }
        let (answer, expected) = compared.ask(&request, &settings).await;
        assert_eq!(answer, expected, "{}", case.id());
        count += usize::from(!expected["patch"].is_null());
    }
    assert!(count > 40, "{count}");
}

#[test]
fn any_pods_and_sets_get_the_same_answers_in_every_form() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let compared = Mutex::new(runtime.block_on(Compared::start()));
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() });
    runner
        .run(&(pod(), sidecar_sets(), 0_usize..4), |(pod, sets, split)| {
            let (some, others) = sets.split_at(split.min(sets.len()));
            let as_written = json!({ "sidecarSets": sets });
            let mut compared = compared.lock();
            for settings in [as_written.clone(), json!({"bundle": bundle(some), "sidecarSets": others})] {
                if !compared.load(&settings, FakeCluster::default()) {
                    continue;
                }
                let (answer, expected) = runtime.block_on(compared.ask(&create_pod(&pod), &as_written));
                prop_assert_eq!(answer, expected);
            }
            Ok(())
        })
        .unwrap();
}

/// Requests that are not about new Pods see all SidecarSets.
#[rstest]
#[case::manifests(json!({"sidecarSets": [set("a", "web", None), set("b", "shop", None)]}))]
#[case::a_bundle(json!({"bundle": bundle(&[set("a", "web", None), set("b", "shop", None)])}))]
#[tokio::test]
async fn a_sidecar_set_is_compared_with_all_others(#[case] settings: Value) {
    let mut compared = Compared::start().await;
    assert!(compared.load(&settings, FakeCluster::default()));
    let mut sent = set("c", "shop", None);
    sent["spec"]["containers"][0]["name"] = json!("b");
    let request = json!({
        "uid": "u", "operation": "CREATE", "userInfo": {"username": "dev"}, "object": sent,
        "kind": {"group": "apps.kruise.io", "version": "v1beta1", "kind": "SidecarSet"},
        "resource": {"group": "apps.kruise.io", "version": "v1beta1", "resource": "sidecarsets"},
    });
    let (answer, expected) = compared.ask(&request, &settings).await;
    assert_eq!(answer, expected);
    assert_eq!(answer["allowed"], false, "{answer}");
    assert!(answer["status"]["message"].as_str().unwrap().contains("\"b\""), "{answer}");
}

/// Returns the ConfigMaps of `bundleRef`, in shards, and the settings for them.
fn in_config_maps(sets: &[Value], at: SystemTime) -> (Vec<Value>, Value) {
    let seconds = at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let time = Timestamp(i64::try_from(seconds).unwrap());
    let name = ConfigMapName { namespace: "pillion-system".to_owned(), name: "sets".to_owned() };
    let whole = bundle(sets).len();
    let maps = config_map::write(&name, &decoded(sets), time, whole - 1).unwrap();
    assert!(maps.len() > 2);
    (maps, json!({"bundleRef": {"namespace": "pillion-system", "name": "sets"}}))
}

#[rstest]
#[case::both(json!({"app": "web"}), 2)]
#[case::only_of_the_index(json!({"app": "shop"}), 1)]
#[case::none(json!({"app": "x"}), 0)]
#[tokio::test(flavor = "multi_thread")]
async fn the_bundles_of_config_maps_give_the_same_answers(#[case] labels: Value, #[case] added: usize) {
    let mut compared = Compared::start().await;
    let sets = [
        set("everywhere", "web", None),
        set("shop", "shop", None),
        set("here", "web", Some("default")),
        set("there", "web", Some("shop")),
        set("away", "web", Some("x")),
    ];
    let (maps, settings) = in_config_maps(&sets, SystemTime::now());
    let labelled = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "default", "labels": {"kubernetes.io/metadata.name": "default"}},
    });
    let request = create_pod(&web(&labels));
    assert!(compared.load(&settings, FakeCluster::with(maps.iter().cloned().chain([labelled.clone()]))));
    // The second answer comes from what the server knows.
    for _ in 0..2 {
        let (answer, expected) = compared.ask(&request, &settings).await;
        assert_eq!(answer, expected);
        let operations = answer["patch"].as_array().map_or(0, Vec::len);
        assert_eq!(operations > 0, added > 0, "{answer}");
        let names = ["everywhere", "here", "shop", "there", "away"];
        let found =
            names.iter().filter(|name| answer["patch"].to_string().contains(&format!("\"agent:{name}\""))).count();
        assert_eq!(found, added, "{answer}");
    }
    // A new version of the ConfigMaps is read anew.
    let (maps, _) = in_config_maps(&sets[1..], SystemTime::now());
    assert!(compared.load(&settings, FakeCluster::with(maps.into_iter().chain([labelled]))));
    let (answer, expected) = compared.ask(&request, &settings).await;
    assert_eq!(answer, expected);
    assert!(!answer.to_string().contains("agent:everywhere"), "{answer}");
}

/// The module decides whether a ConfigMap can be used, also if the server has shortened it before.
#[rstest]
#[case::too_old("/metadata/annotations/pillion.dev~1bundle-time", json!("2020-01-02T03:04:05Z"), "is older than bundleMaxAge")]
#[case::with_a_shard_that_is_gone("/data/shards", json!("0123456789abcdef0123456789abcdef"), "does not exist")]
#[case::damaged("/data/bundle", json!("pillion-bundle-3:x:y"), "is damaged")]
#[case::without_a_bundle("/data/bundle", json!(""), "has no data.bundle")]
#[tokio::test(flavor = "multi_thread")]
async fn config_maps_that_cannot_be_used_are_told_apart(#[case] at: &str, #[case] value: Value, #[case] problem: &str) {
    let mut compared = Compared::start().await;
    let sets = [set("everywhere", "web", None), set("here", "web", Some("default")), set("there", "web", Some("x"))];
    let (mut maps, settings) = in_config_maps(&sets, SystemTime::now());
    let request = create_pod(&web(&json!({"app": "web"})));
    assert!(compared.load(&settings, FakeCluster::with(maps.iter().cloned())));
    compared.ask(&request, &settings).await;
    *maps.last_mut().unwrap().pointer_mut(at).unwrap() = value;
    *compared.cluster.0.lock() = Some(Arc::new(FakeCluster::with(maps)));
    let (answer, expected) = compared.ask(&request, &settings).await;
    assert_eq!(answer, expected);
    assert!(answer["status"]["message"].as_str().unwrap().contains(problem), "{answer}");
}
