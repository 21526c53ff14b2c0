//! SidecarSets that a controller keeps in ConfigMaps, through the built module.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pillion_bundle::config_map::{self, TEXT_MAX};
use pillion_bundle::source::ConfigMapName;
use pillion_host::{ClusterError, ValidationResponse};
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::decode::decode;
use pillion_testkit::strategies::{pod, sidecar_sets};
use pillion_testkit::{FakeCluster, module};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{create_pod, create_set, is_sound, namespace, settings_verdict, unstamped};

fn now() -> Timestamp {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    Timestamp(i64::try_from(seconds).unwrap())
}

fn decoded(sets: &[Value]) -> Vec<SidecarSet> {
    sets.iter().map(|set| decode(set.clone()).unwrap().into_sidecar_set()).collect()
}

/// Returns the ConfigMaps of some sets, the index last. No bundle is longer than `max`.
fn kept(sets: &[Value], max: usize) -> Option<Vec<Value>> {
    let at = ConfigMapName { namespace: "pillion-system".to_owned(), name: "sets".to_owned() };
    config_map::write(&at, &decoded(sets), now(), max).ok()
}

fn settings() -> Value {
    json!({"bundleRef": {"namespace": "pillion-system", "name": "sets"}})
}

fn set(name: &str, namespaces: &[&str]) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [{"name": name, "image": "registry.example.com/agent:1"}]
        }
    });
    if !namespaces.is_empty() {
        let key = "kubernetes.io/metadata.name";
        set["spec"]["namespaceSelector"] =
            json!({"matchExpressions": [{"key": key, "operator": "In", "values": namespaces}]});
    }
    set
}

fn web() -> Value {
    json!({"metadata": {"name": "p", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": "a"}]}})
}

fn ask(request: &Value, settings: &Value, cluster: FakeCluster) -> (ValidationResponse, Vec<String>) {
    let cluster = Arc::new(cluster);
    let answer = module().validate(request, settings, cluster.clone()).unwrap();
    assert!(is_sound(&answer), "{answer:?}");
    (answer, cluster.asked())
}

fn containers(answer: &ValidationResponse) -> Vec<String> {
    let Some(pod) = &answer.mutated_object else { return Vec::new() };
    let containers = pod["spec"]["containers"].as_array().unwrap().iter();
    containers.map(|container| container["name"].as_str().unwrap().to_owned()).collect()
}

fn labelled_default() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "default", "labels": {"kubernetes.io/metadata.name": "default"}}
    })
}

#[test]
fn a_pod_gets_the_sets_of_the_index_and_of_its_shard() {
    let sets = [set("everywhere", &[]), set("here", &["default"]), set("there", &["shop"]), set("away", &["x"])];
    let whole = kept(&sets, TEXT_MAX).unwrap();
    let length = whole[0]["data"]["bundle"].as_str().unwrap().len();
    let parts = kept(&sets, length - 1).unwrap();
    assert!(parts.len() > 1);
    let shards = config_map::shards(parts.last().unwrap()).unwrap();
    let checksum = shards[config_map::shard_of("default", shards.len())].to_owned();
    let own = format!("v1/ConfigMap pillion-system/sets-{checksum}");
    for (objects, read) in [
        (whole, vec!["v1/ConfigMap pillion-system/sets".to_owned()]),
        (parts, vec!["v1/ConfigMap pillion-system/sets".to_owned(), own]),
    ] {
        let cluster = FakeCluster::with(objects.into_iter().chain([labelled_default()]));
        let (answer, asked) = ask(&create_pod(&web(), "u"), &settings(), cluster);
        assert_eq!(containers(&answer), ["here", "everywhere", "app"], "{answer:?}");
        assert_eq!(asked, read);
    }
}

fn failing(text: &str) -> Result<Vec<u8>, ClusterError> {
    Err(ClusterError::Failed(text.to_owned()))
}

#[rstest]
#[case::missing(Err(ClusterError::NotFound), "does not exist; check that Pillion's controller is running")]
#[case::not_granted(
    Err(ClusterError::NotGranted),
    "may not be read; the policy server's ServiceAccount needs \"get\" on it, and under Kubewarden contextAwareResources must list v1 ConfigMap and hostCapabilities kubernetes/get_resource"
)]
#[case::rbac(failing("configmaps \"sets\" is forbidden: secret-user"), "may not be read")]
#[case::slow(failing("deadline has elapsed; secret-user"), "could not be read in time; try again")]
#[case::closed(failing("client error (Connect); secret-user"), "could not be read; try again")]
#[case::no_json(Ok(b"secret-user {".to_vec()), "could not be read; try again")]
#[case::another_object(Ok(b"{\"data\": {\"bundle\": \"secret-user\"}}".to_vec()), "has no time")]
fn a_bundle_that_cannot_be_had_is_503_or_waived(#[case] says: Result<Vec<u8>, ClusterError>, #[case] wrong: &str) {
    let index = kept(&[], TEXT_MAX).unwrap().remove(0);
    let cluster = || FakeCluster::default().answering(&index, says.clone());
    let (answer, _) = ask(&create_pod(&web(), "u"), &settings(), cluster());
    assert_eq!((answer.accepted, answer.code), (false, Some(503)));
    let message = answer.message.unwrap();
    assert!(message.contains(&format!("ConfigMap \"pillion-system/sets\" {wrong}")), "{message}");
    assert!(message.contains("onBundleUnavailable to UseSettings") && !message.contains("secret-user"), "{message}");
    let mut waiving = settings();
    waiving["onBundleUnavailable"] = json!("UseSettings");
    waiving["sidecarSets"] = json!([set("own", &[])]);
    let (answer, _) = ask(&create_pod(&web(), "u"), &waiving, cluster());
    assert_eq!(containers(&answer), ["own", "app"]);
    assert!(answer.warnings.unwrap()[0].contains("judged by the SidecarSets of the settings"));
    assert!(answer.audit_annotations.unwrap().contains_key("bundle-unavailable"));
    let mut exempt = create_pod(&web(), "u");
    exempt["namespace"] = json!("pillion-system");
    assert!(ask(&exempt, &settings(), cluster()).0.accepted, "the controller has to start");
}

#[test]
fn an_old_bundle_is_as_good_as_none() {
    let mut index = kept(&[set("kept", &[])], TEXT_MAX).unwrap().remove(0);
    for (seconds, accepted) in [(-590, true), (590, true), (-660, false), (660, false)] {
        let time = Timestamp(now().0 + seconds).to_string();
        index["metadata"]["annotations"]["pillion.dev/bundle-time"] = json!(time);
        let cluster = FakeCluster::with([index.clone()]);
        let (answer, _) = ask(&create_pod(&web(), "u"), &settings(), cluster);
        assert_eq!(answer.accepted, accepted, "{seconds}: {answer:?}");
    }
}

#[test]
fn a_set_that_is_written_is_compared_with_those_of_its_namespace() {
    let sets = [set("everywhere", &[]), set("here", &["default"]), set("there", &["shop"])];
    let length = kept(&sets, TEXT_MAX).unwrap()[0]["data"]["bundle"].as_str().unwrap().len();
    let parts = kept(&sets, length - 1).unwrap();
    let ask = |namespaces: &[&str], container: &str| {
        let mut new = set("new", namespaces);
        new["spec"]["containers"][0]["name"] = json!(container);
        let mut answer = ask(&create_set(&new), &settings(), FakeCluster::with(parts.clone())).0;
        answer.message.take().unwrap_or_default()
    };
    assert!(ask(&["default"], "here").contains("SidecarSet \"here\""));
    assert!(ask(&["default"], "everywhere").contains("SidecarSet \"everywhere\""));
    assert!(ask(&[], "everywhere").contains("SidecarSet \"everywhere\""));
    assert_eq!(ask(&["default"], "new"), "");
}

/// An update of a SidecarSet.
fn update_set(new: &Value, old: &Value) -> Value {
    let mut request = create_set(new);
    request["operation"] = json!("UPDATE");
    request["oldObject"] = old.clone();
    request
}

/// Only a list finds revisions by this label. The controller lists them, and puts the revision for Pods into the
/// bundle.
#[test]
fn a_custom_version_is_written_as_it_is_injected() {
    let mut pinned = set("agent", &[]);
    pinned["spec"]["injectionStrategy"] = json!({"revision": {"customVersion": "v1", "policy": "Partial"}});
    pinned["spec"]["updateStrategy"] = json!({"partition": "100%"});
    let revision = ControllerRevision::decode(json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
        "metadata": {"name": "agent-1", "labels": {
            "kruise.io/sidecarset-name": "agent", "apps.kruise.io/sidecarset-custom-version": "v1"
        }},
        "data": {"spec": {"containers": [{"name": "agent", "image": "registry.example.com/agent:0"}]}},
    }))
    .unwrap();
    let bundled = decoded(std::slice::from_ref(&pinned)).remove(0).with_revision(&revision);
    let at = ConfigMapName { namespace: "pillion-system".to_owned(), name: "sets".to_owned() };
    let with = config_map::write(&at, &[bundled], now(), TEXT_MAX).unwrap();
    let without = kept(&[set("agent", &[])], TEXT_MAX).unwrap();
    let message_of = |request: &Value, objects: &[Value]| {
        let answer = ask(request, &settings(), FakeCluster::with(objects.to_vec())).0;
        (answer.accepted, answer.message.unwrap_or_default(), answer.warnings.unwrap_or_default())
    };
    let accepted = (true, String::new(), Vec::new());

    let (answer, _) = ask(&create_pod(&web(), "u"), &settings(), FakeCluster::with(with.clone()));
    let pod = answer.mutated_object.unwrap();
    let images: Vec<_> = pod["spec"]["containers"].as_array().unwrap().iter().map(|it| it["image"].clone()).collect();
    assert!(images.contains(&json!("registry.example.com/agent:0")), "{images:?}");
    let latest = set("agent", &[]);
    assert_eq!(message_of(&create_set(&pinned), &with), accepted);
    assert_eq!(message_of(&update_set(&pinned, &latest), &with), accepted);

    // The bundle does not contain it yet.
    for request in [create_set(&pinned), update_set(&pinned, &latest)] {
        let (is_accepted, message, warnings) = message_of(&request, &without);
        assert!(is_accepted, "{message}");
        assert!(warnings.iter().any(|text| text.contains("customVersion \"v1\"") && text.contains("InBundle")));
    }
    // A change of the partition requires no revision, with a bundle or without.
    let mut moved = pinned.clone();
    moved["spec"]["updateStrategy"]["partition"] = json!("50%");
    for objects in [&with, &without] {
        assert_eq!(message_of(&update_set(&moved, &pinned), objects), accepted);
    }
    let answer = ask(&update_set(&moved, &pinned), &json!({}), FakeCluster::default()).0;
    assert!(answer.accepted, "{answer:?}");
    // Without a controller, no Pod would get this revision.
    let answer = ask(&create_set(&pinned), &json!({}), FakeCluster::default()).0;
    assert_eq!(answer.code, Some(422), "{answer:?}");
    assert!(answer.message.unwrap().contains("add it to controllerRevisions, or use revisionName"));
}

#[test]
fn the_settings_are_judged_without_a_look_up() {
    let verdict = |settings: &Value| settings_verdict(settings.to_string().as_bytes()).unwrap();
    assert!(verdict(&settings()).valid);
    let without = |wrong: Value| {
        let mut settings = json!({"onBundleUnavailable": "No", "bundleMaxAge": "0"});
        settings["bundleRef"] = wrong;
        settings
    };
    for (bundle_ref, field) in
        [(json!({"name": "a"}), "bundleRef.namespace"), (json!({"name": "a", "namespace": "b", "x": 1}), "bundleRef.x")]
    {
        let message = verdict(&without(bundle_ref)).message.unwrap();
        for field in [field, "onBundleUnavailable", "bundleMaxAge"] {
            assert!(message.contains(field), "{message}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn pods_get_the_same_answer_from_manifests_and_from_config_maps(
        pod in pod(), mut sets in sidecar_sets(), bound in any::<[bool; 4]>(), cut in 0_usize..300,
    ) {
        for (set, bound) in sets.iter_mut().zip(bound) {
            if bound {
                set["spec"]["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": "default"}});
            }
        }
        let request = create_pod(&pod, "11111111-0000-4000-8000-000000000001");
        let manifests = ask(&request, &json!({ "sidecarSets": sets }), FakeCluster::with([labelled_default(), namespace()])).0;
        let length = kept(&sets, TEXT_MAX).unwrap()[0]["data"]["bundle"].as_str().unwrap().len();
        for max in [TEXT_MAX, length.saturating_sub(cut)] {
            let Some(objects) = kept(&sets, max) else { continue };
            let cluster = FakeCluster::with([labelled_default(), namespace()].into_iter().chain(objects));
            let answer = ask(&request, &settings(), cluster).0;
            prop_assert_eq!(&manifests.message, &answer.message);
            prop_assert_eq!(&manifests.warnings, &answer.warnings);
            prop_assert_eq!(unstamped(manifests.mutated_object.clone()), unstamped(answer.mutated_object));
        }
    }
}
