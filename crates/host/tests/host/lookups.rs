//! The policy's look-ups and its use of the answers, through the built module.

use std::sync::Arc;

use pillion_host::{ClusterError, ValidationResponse};
use pillion_testkit::{FakeCluster, module};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{
    self, asking_set, asking_settings, create_pod, create_set, looked_up, namespace, revision, whitelist,
};

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "main", "image": "nginx:1.25"}]},
    })
}

/// Admits the Pod with settings whose SidecarSet needs look-ups. Also returns the look-ups.
fn admit_pod(cluster: FakeCluster) -> (ValidationResponse, Vec<String>) {
    let cluster = Arc::new(cluster);
    let answer = module().validate(&create_pod(&pod(), "u"), &asking_settings(), cluster.clone()).unwrap();
    assert!(support::is_sound(&answer), "{answer:?}");
    (answer, cluster.asked())
}

fn admit_set(cluster: FakeCluster) -> (ValidationResponse, Vec<String>) {
    let cluster = Arc::new(cluster);
    let answer = module().validate(&create_set(&asking_set()), &json!({}), cluster.clone()).unwrap();
    assert!(support::is_sound(&answer), "{answer:?}");
    (answer, cluster.asked())
}

fn failing(text: &str) -> Result<Vec<u8>, ClusterError> {
    Err(ClusterError::Failed(text.to_owned()))
}

#[test]
fn look1_a_pod_asks_for_its_namespace_then_for_the_revision_once_each() {
    let (answer, asked) = admit_pod(FakeCluster::with(looked_up()));
    assert!(answer.accepted, "{:?}", answer.message);
    assert_eq!(asked, ["v1/Namespace default", "apps/v1/ControllerRevision kruise-system/asking-1"]);
    let containers = answer.mutated_object.unwrap()["spec"]["containers"].clone();
    let names: Vec<&str> =
        containers.as_array().unwrap().iter().filter_map(|container| container["name"].as_str()).collect();
    assert_eq!(names, ["main", "old"], "M-6, M-25");
}

#[test]
fn several_sets_share_one_look_up() {
    let mut sets = vec![asking_set(), asking_set(), asking_set()];
    for (index, set) in sets.iter_mut().enumerate() {
        set["metadata"]["name"] = json!(format!("asking-{index}"));
        set["spec"]["containers"][0]["name"] = json!(format!("new-{index}"));
        set["spec"]["injectionStrategy"] = json!({});
    }
    let cluster = Arc::new(FakeCluster::with(looked_up()));
    let answer = module().validate(&create_pod(&pod(), "u"), &json!({ "sidecarSets": sets }), cluster.clone()).unwrap();
    assert!(answer.accepted, "{:?}", answer.message);
    assert_eq!(cluster.asked(), ["v1/Namespace default"]);
}

#[test]
fn nothing_is_asked_where_no_set_needs_it() {
    let mut set = asking_set();
    set["spec"]["selector"] = json!({"matchLabels": {"no-such": "label"}});
    let cluster = Arc::new(FakeCluster::default());
    let answer =
        module().validate(&create_pod(&pod(), "u"), &json!({ "sidecarSets": [set] }), cluster.clone()).unwrap();
    assert!(answer.accepted && answer.mutated_object.is_none());
    assert_eq!(cluster.asked(), Vec::<String>::new());
}

#[test]
fn match6_a_namespace_that_is_gone_is_no_match() {
    let (answer, asked) = admit_pod(FakeCluster::default());
    assert!(answer.accepted && answer.mutated_object.is_none(), "{answer:?}");
    assert_eq!(asked, ["v1/Namespace default"]);
}

#[rstest]
#[case::forbidden(
    failing("ApiError: namespaces \"default\" is forbidden: User \"secret-user\" cannot get"),
    "contextAwareResources"
)]
#[case::not_granted(Err(ClusterError::NotGranted), "contextAwareResources")]
#[case::timeout(failing("deadline has elapsed; secret-user"), "try again")]
#[case::no_connection(failing("client error (Connect); secret-user"), "try again")]
#[case::kind_not_served(failing("Cannot find resource v1/Namespace; secret-user"), "try again")]
#[case::no_json(Ok(b"secret-user {".to_vec()), "try again")]
#[case::no_object(Ok(b"[\"secret-user\"]".to_vec()), "try again")]
fn match6_a_namespace_that_cannot_be_read_is_503_with_a_remedy(
    #[case] answer: Result<Vec<u8>, ClusterError>,
    #[case] remedy: &str,
) {
    let (answer, _) = admit_pod(FakeCluster::with(looked_up()).answering(&namespace(), answer));
    assert_eq!((answer.accepted, answer.code), (false, Some(503)));
    let message = answer.message.unwrap();
    assert!(message.contains("SidecarSet \"asking\": spec.namespaceSelector: "), "{message}");
    assert!(message.contains(remedy), "{message}");
    assert!(!message.contains("secret-user"), "the host's words are not the user's: {message}");
    let audit = answer.audit_annotations.unwrap();
    assert_eq!(audit.get("refused-because").map(String::as_str), Some("unavailable"));
    assert_eq!(audit.get("refused-by").map(String::as_str), Some("asking"));
}

#[test]
fn inj2_a_revision_that_is_gone_is_no_matter_of_trying_again() {
    let cluster = FakeCluster::with(looked_up()).answering(&revision(), Err(ClusterError::NotFound));
    let (answer, _) = admit_pod(cluster);
    assert!(!answer.accepted);
    assert_ne!(answer.code, Some(503), "{:?}", answer.message);
    assert!(answer.message.unwrap().contains("asking-1"));
}

#[test]
fn inj2_a_revision_that_cannot_be_read_is_503() {
    let (answer, _) = admit_pod(FakeCluster::with(looked_up()).answering(&revision(), failing("boom")));
    assert_eq!((answer.accepted, answer.code), (false, Some(503)));
}

#[test]
fn diff11_a_revision_of_another_set_is_refused() {
    let mut foreign = revision();
    foreign["metadata"]["labels"]["kruise.io/sidecarset-name"] = json!("another");
    let (answer, _) = admit_pod(FakeCluster::with([namespace(), foreign]));
    assert!(!answer.accepted);
    assert!(answer.message.unwrap().contains("spec.injectionStrategy.revision.revisionName"));
}

#[test]
fn a_revision_of_the_settings_is_not_asked_for() {
    let mut settings = asking_settings();
    settings["controllerRevisions"] = json!([revision()]);
    let cluster = Arc::new(FakeCluster::with([namespace()]));
    let answer = module().validate(&create_pod(&pod(), "u"), &settings, cluster.clone()).unwrap();
    assert!(answer.accepted, "{:?}", answer.message);
    assert_eq!(cluster.asked(), ["v1/Namespace default"]);
}

#[test]
fn a_sidecar_set_asks_for_its_revision_then_for_the_whitelist_once_each() {
    let (answer, asked) = admit_set(FakeCluster::with(looked_up()));
    assert!(answer.accepted, "{:?}", answer.message);
    let expected =
        ["apps/v1/ControllerRevision kruise-system/asking-1", "v1/ConfigMap kruise-system/kruise-configuration"];
    assert_eq!(asked, expected);
}

#[test]
fn val21_without_a_whitelist_patches_are_refused() {
    let (answer, _) = admit_set(FakeCluster::with([revision()]));
    assert_eq!((answer.accepted, answer.code), (false, Some(422)));
    assert!(answer.message.unwrap().contains("spec.patchPodMetadata"));
}

#[test]
fn val22_keys_that_the_whitelist_does_not_allow_are_refused() {
    let rules = json!({"rules": [{"allowedAnnotationKeyExprs": ["^other$"]}]});
    let (answer, _) = admit_set(FakeCluster::with([revision(), whitelist(&rules)]));
    assert_eq!((answer.accepted, answer.code), (false, Some(422)));
}

#[test]
fn a_whitelist_that_cannot_be_read_is_503() {
    let cluster = FakeCluster::with(looked_up()).answering(&whitelist(&json!({})), failing("boom"));
    let (answer, _) = admit_set(cluster);
    assert_eq!((answer.accepted, answer.code), (false, Some(503)));
}

#[test]
fn the_whitelist_of_the_settings_wins_over_the_config_map() {
    let settings = json!({"patchPodMetadataWhitelist": {"rules": [{"allowedAnnotationKeyExprs": ["^key$"]}]}});
    let cluster = Arc::new(FakeCluster::with([revision()]));
    let answer = module().validate(&create_set(&asking_set()), &settings, cluster.clone()).unwrap();
    assert!(answer.accepted, "{:?}", answer.message);
    assert_eq!(cluster.asked(), ["apps/v1/ControllerRevision kruise-system/asking-1"]);
}

#[test]
fn the_system_namespace_is_the_settings() {
    let mut settings = asking_settings();
    settings["systemNamespace"] = json!("elsewhere");
    let cluster = Arc::new(FakeCluster::with([namespace()]));
    module().validate(&create_pod(&pod(), "u"), &settings, cluster.clone()).unwrap();
    assert_eq!(cluster.asked(), ["v1/Namespace default", "apps/v1/ControllerRevision elsewhere/asking-1"]);
}
