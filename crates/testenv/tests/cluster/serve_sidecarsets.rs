//! SidecarSets as objects of a real API server: the webhook checks and defaults them, and `/convert` converts them.

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::client::Body;
use kube::core::{Request, Status};
use kube::{Api, ResourceExt as _};
use pillion_testenv::{Cluster, Options};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::support::{Installation, create, dry_run, dynamic, log_agent};

const NEW: &str = "apps.kruise.io/v1beta1";
const OLD: &str = "apps.kruise.io/v1alpha1";
const HASH: &str = "kruise.io/sidecarset-hash";

async fn installation() -> &'static Installation<'static> {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static INSTALLATION: OnceCell<Installation<'_>> = OnceCell::const_new();
    let cluster = CLUSTER.get_or_init(async || Cluster::start(Options::new()).await.unwrap()).await;
    INSTALLATION.get_or_init(async || Installation::start(cluster, &log_agent(), &[], &[]).await).await
}

/// Returns the API of SidecarSets in a version.
async fn sets(version: &str) -> Api<DynamicObject> {
    let client = installation().await.cluster.admin().await.unwrap();
    dynamic(&client, version, "SidecarSet", "sidecarsets")
}

/// Returns a SidecarSet for its own Pods, with these fields in its `spec`.
fn set(version: &str, name: &str, spec: &Value) -> Value {
    let mut set = json!({
        "apiVersion": version, "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"set": name}}, "containers": [{"name": "agent", "image": "agent:1"}]},
    });
    json_patch::merge(&mut set["spec"], spec);
    set
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, kube::Error>) -> Status {
    match answer {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("{other:?}"),
    }
}

/// Whichever version is written, both can be read and are equivalent.
#[rstest]
#[case::new(NEW)]
#[case::old(OLD)]
#[tokio::test]
async fn a_set_is_defaulted_and_stands_in_both_versions(#[case] version: &str) {
    let name = if version == NEW { "written-new" } else { "written-old" };
    let stored = create(&sets(version).await, &set(version, name, &json!({}))).await.unwrap();
    assert_eq!(stored["apiVersion"], version);
    assert!(!stored["metadata"]["annotations"][HASH].as_str().unwrap().is_empty());
    let container = &stored["spec"]["containers"][0];
    assert_eq!(container["podInjectPolicy"], "BeforeAppContainer");
    assert_eq!(container["imagePullPolicy"], "IfNotPresent");
    assert_eq!(stored["spec"]["updateStrategy"]["type"], "RollingUpdate");

    let new = sets(NEW).await.get(name).await.unwrap();
    let old = sets(OLD).await.get(name).await.unwrap();
    assert_eq!(new.types.unwrap().api_version, NEW);
    assert_eq!(old.types.unwrap().api_version, OLD);
    assert_eq!(new.data["spec"], old.data["spec"]);
    assert_eq!(new.data["spec"], stored["spec"]);
    assert_eq!(new.metadata.annotations, old.metadata.annotations);
}

/// `spec.namespace` of v1alpha1 is a `namespaceSelector` in v1beta1.
#[tokio::test]
async fn the_namespace_of_the_old_version_is_a_selector_in_the_new_one() {
    let old = set(OLD, "of-a-namespace", &json!({"namespace": "team-a"}));
    create(&sets(OLD).await, &old).await.unwrap();

    let new = sets(NEW).await.get("of-a-namespace").await.unwrap();

    assert_eq!(new.data["spec"].get("namespace"), None);
    let wanted = json!({"matchLabels": {"kubernetes.io/metadata.name": "team-a"}});
    assert_eq!(new.data["spec"]["namespaceSelector"], wanted);
}

/// The API server clears the namespace before webhooks are called, and makes the name afterwards.
#[tokio::test]
async fn val2_a_set_may_come_with_a_namespace_and_without_a_name() {
    let mut object = set(NEW, "to-be-named", &json!({}));
    object["metadata"] = json!({"generateName": "to-be-named-", "namespace": "default"});
    let stored = create(&sets(NEW).await, &object).await.unwrap();
    assert_eq!(stored["metadata"].get("namespace"), None);
    assert!(stored["metadata"]["name"].as_str().unwrap().starts_with("to-be-named-"), "{stored}");
    assert!(!stored["metadata"]["annotations"][HASH].as_str().unwrap().is_empty());
}

/// Applies a set twice in each version, like `kubectl apply --server-side`: nothing changes after the first time.
#[tokio::test]
async fn a_set_can_be_applied_again_in_both_versions() {
    let apply = PatchParams::apply("kubectl");
    let mut versions = Vec::new();
    for version in [NEW, NEW, OLD, OLD] {
        let object = set(version, "applied", &json!({}));
        let stored = sets(version).await.patch("applied", &apply, &Patch::Apply(&object)).await.unwrap();
        versions.push((stored.metadata.generation, stored.annotations()[HASH].clone()));
    }
    assert!(versions.iter().all(|version| *version == versions[0]), "{versions:?}");
}

/// An apply replaces the list of containers, so that a pull policy that nobody wrote gets its default anew. The author
/// is warned of it.
#[tokio::test]
async fn warn7_an_applied_image_that_changes_its_pull_policy_is_told() {
    let client = installation().await.cluster.admin().await.unwrap();
    let requests = Request::new("/apis/apps.kruise.io/v1beta1/sidecarsets");
    let mut warned = Vec::new();
    for image in ["agent", "agent:1", "agent:2"] {
        let object = set(NEW, "retagged", &json!({"containers": [{"name": "agent", "image": image}]}));
        let request = requests.patch("retagged", &PatchParams::apply("kubectl"), &Patch::Apply(&object)).unwrap();
        let answer = client.send(request.map(Body::from)).await.unwrap();
        assert!(answer.status().is_success(), "{answer:?}");
        let warnings = answer.headers().get_all("Warning").iter().map(|warning| warning.to_str().unwrap());
        let is_it = |warning: &str| warning.contains("changes from Always to IfNotPresent");
        let stored = sets(NEW).await.get("retagged").await.unwrap();
        let policy = stored.data["spec"]["containers"][0]["imagePullPolicy"].clone();
        warned.push((policy, warnings.filter(|warning| is_it(warning)).count()));
    }
    assert_eq!(warned, [(json!("Always"), 0), (json!("IfNotPresent"), 1), (json!("IfNotPresent"), 0)]);
}

/// 422 with every invalid field, as the API server shows it to a user.
#[rstest]
#[case::new(NEW)]
#[case::old(OLD)]
#[tokio::test]
async fn an_invalid_set_is_refused_with_every_field(#[case] version: &str) {
    let wrong = set(
        version,
        "wrong",
        &json!({
            "containers": [
                {"name": "Agent", "image": "agent:1"},
                {"name": "other", "image": "other:1", "volumeMounts": [{"name": "nowhere", "mountPath": "/a"}]},
            ],
        }),
    );

    let status = refusal(create(&sets(version).await, &wrong).await);

    assert_eq!(status.code, 422, "{status:?}");
    let wanted = "admission webhook \"sidecarsets.pillion.dev\" denied the request: SidecarSet \"wrong\": \
                  spec.containers[0].name: Invalid value: \"Agent\": a lowercase RFC 1123 label must consist of lower \
                  case alphanumeric characters or '-', and must start and end with an alphanumeric character; \
                  SidecarSet \"wrong\": spec.containers[1].volumeMounts[0].name: Not found: \"nowhere\": must be the \
                  name of a valid volume of this SidecarSet";
    assert_eq!(status.message, wanted);
    assert!(sets(version).await.get_opt("wrong").await.unwrap().is_none());
}

/// An update is checked as well, and a refused update changes nothing.
#[tokio::test]
async fn an_update_is_checked_and_has_another_hash() {
    let api = sets(NEW).await;
    let first = create(&api, &set(NEW, "updated", &json!({}))).await.unwrap();
    let image = json!({"spec": {"containers": [{"name": "agent", "image": "agent:2"}]}});
    let merge = async |patch: &Value| api.patch("updated", &PatchParams::default(), &Patch::Merge(patch)).await;

    let second = merge(&image).await.unwrap();
    assert_ne!(second.annotations()[HASH], first["metadata"]["annotations"][HASH].as_str().unwrap());

    let invalid = json!({"spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "a", "image": "b:1"}]}});
    let status = refusal(merge(&invalid).await);
    assert_eq!(status.code, 422, "{status:?}");
    assert!(status.message.contains("spec.containers[1].name: Duplicate value: \"a\""), "{}", status.message);
    let stored = api.get("updated").await.unwrap();
    assert_eq!((&stored.data["spec"], stored.annotations()), (&second.data["spec"], second.annotations()));
}

/// A controller writes the status without a call of the webhook, and the set can be deleted.
#[tokio::test]
async fn a_set_has_a_status_apart_and_can_be_deleted() {
    let api = sets(NEW).await;
    create(&api, &set(NEW, "deleted", &json!({}))).await.unwrap();
    let status = Patch::Merge(json!({"status": {"matchedPods": 1, "updatedPods": 1, "readyPods": 1}}));
    let stored = api.patch_status("deleted", &PatchParams::default(), &status).await.unwrap();
    assert_eq!(stored.data["status"]["matchedPods"], 1);
    api.delete("deleted", &DeleteParams::default()).await.unwrap();
    assert!(api.get_opt("deleted").await.unwrap().is_none());
}

/// A dry run is checked like any other request.
#[tokio::test]
async fn a_dry_run_is_checked_too() {
    let wrong = set(NEW, "dry", &json!({"containers": [{"name": "Agent", "image": "agent:1"}]}));
    let wrong = serde_json::from_value(wrong).unwrap();
    assert_eq!(refusal(sets(NEW).await.create(&dry_run(), &wrong).await).code, 422);
}
