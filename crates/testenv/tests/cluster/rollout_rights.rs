//! `sidecarset-rollout` on a real API server: what its ServiceAccount may change, and whole rollouts.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pillion_install::rendering::options::Controller;
use pillion_install::rendering::{controller, document};

use crate::support::options;
use futures_util::TryStreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, Config};
use pillion_testenv::{Cluster, Options, apply, until};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

const SOON: Duration = Duration::from_secs(30);

/// Returns the manifest of the rollout controller's ServiceAccount, its rights and its guard, in the `systemNamespace`
/// that the chart and the kustomizations have.
fn manifest() -> String {
    let options: Controller = options(&["--controllers", "sidecarset-rollout"]);
    let mut documents = controller::render(&json!({"systemNamespace": "pillion-system"}), &options).unwrap().documents;
    documents.retain(|document| {
        let kind = document.object["kind"].as_str().unwrap();
        kind.contains("Role") || kind.starts_with("Validating") || ["Namespace", "ServiceAccount"].contains(&kind)
    });
    document::to_yaml(&documents).unwrap()
}

/// A Pod with an injected sidecar.
fn pod() -> Value {
    json!({
        "metadata": {"name": "web", "annotations": {"kruise.io/sidecarset-injected-list": "logs", "team": "a"}},
        "spec": {
            "automountServiceAccountToken": false,
            "initContainers": [
                {"name": "init", "image": "init:1", "env": [{"name": "IS_INJECTED", "value": "true"}]},
                {
                    "name": "native", "image": "native:1", "restartPolicy": "Always",
                    "env": [{"name": "IS_INJECTED", "value": "true"}],
                },
                {"name": "own", "image": "own:1", "restartPolicy": "Always"},
            ],
            "containers": [
                {
                    "name": "agent", "image": "agent:v1", "env": [{"name": "IS_INJECTED", "value": "true"}],
                    "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "100m"}},
                },
                {"name": "main", "image": "app:1", "env": [{"name": "IS_INJECTED", "value": "false"}]},
            ],
        },
    })
}

struct Guarded {
    cluster: Cluster,
    limited: Config,
}

impl Guarded {
    async fn start() -> Self {
        let cluster = Cluster::start(Options::new()).await.unwrap();
        let admin = cluster.admin().await.unwrap();
        let namespaces = Api::<Namespace>::all(admin.clone());
        let namespace = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        let account = serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap();
        let accounts = Api::<ServiceAccount>::namespaced(admin.clone(), "shop");
        accounts.create(&PostParams::default(), &account).await.unwrap();
        apply(&admin, &manifest(), "test").await.unwrap();
        let identity = cluster.as_service_account("pillion-system", "pillion-controller-rollout").await.unwrap();
        let guarded = Self { cluster, limited: identity.config().await.unwrap() };
        let pod = serde_json::from_value(pod()).unwrap();
        pods(&admin).create(&PostParams::default(), &pod).await.unwrap();
        // The API server enforces a new policy after a moment.
        let tries = AtomicU32::new(0);
        let refused = async || {
            let labels = json!({"try": tries.fetch_add(1, Ordering::Relaxed).to_string()});
            guarded.patch(None, &operation("add", "/metadata/labels", &labels)).await.err()
        };
        until("the guard being enforced", SOON, refused).await.unwrap();
        guarded
    }

    /// Returns the Pods as the rollout controller reaches them. Each test has its own client: connections end with the
    /// runtime of the test that opened them.
    fn pods(&self) -> Api<Pod> {
        pods(&Client::try_from(self.limited.clone()).unwrap())
    }

    /// Patches the Pod as the rollout controller.
    async fn patch(&self, part: Option<&str>, operations: &Value) -> Result<Pod, String> {
        let (pods, params) = (self.pods(), PatchParams::default());
        let patch: Patch<()> = Patch::Json(serde_json::from_value(operations.clone()).unwrap());
        let answer = match part {
            Some(part) => pods.patch_subresource(part, "web", &params, &patch).await,
            None => pods.patch("web", &params, &patch).await,
        };
        answer.map_err(|error| error.to_string())
    }
}

fn pods(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), "shop")
}

async fn guarded() -> &'static Guarded {
    static GUARDED: OnceCell<Guarded> = OnceCell::const_new();
    let guarded = GUARDED.get_or_init(Guarded::start).await;
    assert!(!guarded.cluster.authority_certificate().is_empty());
    guarded
}

fn operation(op: &str, path: &str, value: &Value) -> Value {
    json!([{"op": op, "path": path, "value": value}])
}

#[tokio::test(flavor = "multi_thread")]
async fn e24_the_guard_lets_the_rollout_controller_change_only_what_it_must() {
    let guarded = guarded().await;
    let condition = json!([{"type": "SidecarSetUpgradable", "status": "True"}]);
    let more = json!({"limits": {"cpu": "2"}, "requests": {"cpu": "200m"}});
    for (part, operations) in [
        (None, operation("replace", "/spec/containers/0/image", &json!("agent:v2"))),
        (None, operation("replace", "/spec/initContainers/1/image", &json!("native:2"))),
        (Some("resize"), operation("add", "/spec/containers/0/resources", &more)),
        (Some("resize"), operation("add", "/spec/initContainers/1/resources", &more)),
        (None, operation("add", "/metadata/annotations/kruise.io~1sidecarset-hash", &json!("{}"))),
        (None, operation("add", "/metadata/annotations/version.sidecarset.kruise.io~1agent-1", &json!("1"))),
        (None, operation("remove", "/metadata/annotations/kruise.io~1sidecarset-hash", &json!(null))),
        (Some("status"), operation("add", "/status/conditions", &condition)),
    ] {
        guarded.patch(part, &operations).await.unwrap_or_else(|error| panic!("{operations}: {error}"));
    }
    let toleration = json!([{"key": "a", "operator": "Exists"}]);
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let statuses = json!([{"name": "main", "image": "x", "imageID": "x", "ready": true, "restartCount": 0}]);
    for (part, operations, expected) in [
        (
            None,
            operation("replace", "/spec/containers/1/image", &json!("app:2")),
            "images of containers that were injected",
        ),
        (None, operation("replace", "/spec/initContainers/0/image", &json!("init:2")), "images of containers"),
        (None, operation("replace", "/spec/initContainers/2/image", &json!("own:2")), "images of containers"),
        (
            Some("resize"),
            operation("add", "/spec/containers/1/resources", &more),
            "cpu and memory of containers that were injected",
        ),
        (
            Some("resize"),
            operation("add", "/spec/initContainers/2/resources", &more),
            "cpu and memory of containers that were injected",
        ),
        (None, operation("add", "/spec/tolerations", &toleration), "images of containers"),
        (None, operation("add", "/spec/activeDeadlineSeconds", &json!(5)), "images of containers"),
        (None, operation("add", "/metadata/labels", &json!({"app": "x"})), "labels, finalizers or owners"),
        (None, operation("add", "/metadata/finalizers", &json!(["a/b"])), "labels, finalizers or owners"),
        (None, operation("replace", "/metadata/annotations/team", &json!("b")), "annotations that record SidecarSets"),
        (None, operation("add", "/metadata/annotations/other", &json!("b")), "annotations that record SidecarSets"),
        (None, operation("remove", "/metadata/annotations/team", &json!(null)), "annotations that record SidecarSets"),
        (Some("status"), operation("add", "/status/phase", &json!("Succeeded")), "condition SidecarSetUpgradable"),
        (Some("status"), operation("add", "/status/conditions", &ready), "condition SidecarSetUpgradable"),
        (Some("status"), operation("add", "/status/containerStatuses", &statuses), "condition SidecarSetUpgradable"),
        (Some("status"), operation("add", "/metadata/annotations/other", &json!("b")), "annotations that record"),
        (
            Some("resize"),
            operation("add", "/spec/containers/1/resources", &json!({"requests": {"cpu": "1"}})),
            "forbidden",
        ),
        (Some("ephemeralcontainers"), operation("add", "/spec/ephemeralContainers", &json!([])), "forbidden"),
    ] {
        let error = guarded.patch(part, &operations).await.expect_err(&operations.to_string());
        assert!(error.contains(expected), "{operations}: {error}");
    }
}

/// A Pod that is only tried.
fn new_pod() -> Pod {
    let mut pod = pod();
    pod["metadata"]["name"] = json!("new");
    serde_json::from_value(pod).unwrap()
}

#[rstest]
#[case::delete("delete")]
#[case::create("create")]
#[tokio::test(flavor = "multi_thread")]
async fn e24_the_rollout_controller_neither_creates_nor_deletes_pods(#[case] verb: &str) {
    let guarded = guarded().await;
    let pods = guarded.pods();
    let answer = match verb {
        "delete" => pods.delete("web", &DeleteParams::default()).await.map(drop),
        _ => pods.create(&PostParams::default(), &new_pod()).await.map(drop),
    };
    let error = answer.expect_err(verb).to_string();
    assert!(error.contains("forbidden"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn e24_roll67_the_rollout_controller_may_try_to_create_a_pod() {
    let pods = guarded().await.pods();
    let tried = PostParams { dry_run: true, ..PostParams::default() };
    pods.create(&tried, &new_pod()).await.unwrap();
    assert!(pods.get_opt("new").await.unwrap().is_none());
}

/// Sends a request for a part of a Pod as the rollout controller.
async fn post(guarded: &Guarded, namespace: &str, part: &str, body: &Value) -> Result<Value, String> {
    let client = Client::try_from(guarded.limited.clone()).unwrap();
    let request = http::Request::post(format!("/api/v1/namespaces/{namespace}/pods/evicted/{part}"))
        .header("content-type", "application/json")
        .body(body.to_string().into_bytes())
        .unwrap();
    client.request::<Value>(request).await.map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn e24_roll66_the_rollout_controller_may_evict_pods_but_not_in_protected_namespaces() {
    let guarded = guarded().await;
    let admin = guarded.cluster.admin().await.unwrap();
    let mut evicted = pod();
    evicted["metadata"]["name"] = json!("evicted");
    pods(&admin).create(&PostParams::default(), &serde_json::from_value(evicted).unwrap()).await.unwrap();
    let eviction = |namespace: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "evicted", "namespace": namespace}});
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "evicted"}, "target": {"kind": "Node", "name": "n"},
    });
    let error = post(guarded, "kube-system", "eviction", &eviction("kube-system")).await.unwrap_err();
    assert!(error.contains("protectedNamespaces"), "{error}");
    let error = post(guarded, "shop", "binding", &binding).await.unwrap_err();
    assert!(error.contains("forbidden"), "{error}");
    post(guarded, "shop", "eviction", &eviction("shop")).await.unwrap();
    assert!(pods(&admin).get_opt("evicted").await.unwrap().is_none());
}

/// OpenKruise's namespace does not exist here. The controller has to know that, or it is never ready.
#[tokio::test(flavor = "multi_thread")]
async fn the_rollout_controller_reads_the_lease_of_openkruise_and_no_other_before_its_namespace_exists() {
    let guarded = guarded().await;
    let admin = guarded.cluster.admin().await.unwrap();
    assert!(Api::<Namespace>::all(admin).get_opt("kruise-system").await.unwrap().is_none());
    let leases = Api::<Lease>::namespaced(Client::try_from(guarded.limited.clone()).unwrap(), "kruise-system");
    let own = "metadata.name=kruise-manager";
    assert!(leases.list(&ListParams::default().fields(own)).await.unwrap().items.is_empty());
    let watch = leases.watch(&WatchParams::default().fields(own).timeout(1), "0").await.unwrap();
    let events: Vec<WatchEvent<Lease>> = watch.try_collect().await.unwrap();
    assert!(events.iter().all(|event| matches!(event, WatchEvent::Bookmark(_))), "{events:?}");
    for others in [ListParams::default(), ListParams::default().fields("metadata.name=other")] {
        let error = leases.list(&others).await.expect_err("the Leases of others").to_string();
        assert!(error.contains("forbidden"), "{error}");
    }
}
