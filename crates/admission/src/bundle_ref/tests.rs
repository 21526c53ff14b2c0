#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]
#![allow(clippy::unnecessary_wraps, reason = "they are answers to look-ups")]

use std::cell::RefCell;
use std::time::Duration;

use pillion_bundle::config_map::{TEXT_MAX, TIME, write};
use pillion_bundle::source::ConfigMapName;
use pillion_kubernetes::authorizer::{Authorizer, Question};
use pillion_kubernetes::lookup::{Answer, Failure, Lookup, ObjectRef};
use pillion_kubernetes::outcome::Verdict;
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::sidecar_set::decode::decode;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::admit;
use crate::request::Request;
use crate::settings::Settings;

const NOW: Timestamp = Timestamp(1_800_000_000);

/// A cluster with this answer for the ConfigMap and no other objects.
struct Cluster {
    config_map: Answer,
    asked: RefCell<Vec<String>>,
}

impl Lookup for Cluster {
    fn get(&self, object: &ObjectRef) -> Answer {
        self.asked.borrow_mut().push(format!("{}/{}", object.kind, object.name));
        let is_it = object.kind == "ConfigMap" && object.name == "sets";
        if is_it { self.config_map.clone() } else { Ok(None) }
    }
}

impl Authorizer for Cluster {
    fn allows(&self, _: &Question) -> Result<bool, String> {
        Ok(true)
    }
}

fn set(name: &str, container: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": container, "image": "i:1"}]}
    })
}

fn kept(sets: &[Value]) -> Answer {
    let at = ConfigMapName { namespace: "pillion".to_owned(), name: "sets".to_owned() };
    let sets: Vec<SidecarSet> = sets.iter().map(|set| decode(set.clone()).unwrap().into_sidecar_set()).collect();
    Ok(Some(write(&at, &sets, NOW, TEXT_MAX).unwrap().pop().unwrap()))
}

fn settings(more: Value) -> Value {
    let mut settings = json!({"bundleRef": {"namespace": "pillion", "name": "sets"}});
    for (key, value) in more.as_object().unwrap() {
        settings[key] = value.clone();
    }
    settings
}

fn request(kind: &str, namespace: &str, object: Value) -> Value {
    let (group, version) = if kind == "SidecarSet" { ("apps.kruise.io", "v1beta1") } else { ("", "v1") };
    let operation = if kind == "ServiceAccount" { "DELETE" } else { "CREATE" };
    let (new, old) = if operation == "DELETE" { (Value::Null, object) } else { (object, Value::Null) };
    json!({
        "uid": "u", "operation": operation, "namespace": namespace, "object": new, "oldObject": old,
        "kind": {"group": group, "version": version, "kind": kind}, "userInfo": {"username": "ann"},
    })
}

fn pod() -> Value {
    json!({"metadata": {"name": "p", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": "a"}]}})
}

fn asked(request: Value, settings: Value, config_map: Answer) -> (Outcome, Vec<String>) {
    let cluster = Cluster { config_map, asked: RefCell::default() };
    let world = World { lookup: &cluster, authorizer: &cluster, now: NOW, elapsed: &Duration::default };
    let mut request = Request::decode(request).unwrap();
    let outcome = admit(&mut request, &Settings::decode(settings).unwrap(), world);
    (outcome, cluster.asked.into_inner())
}

fn answer(request: Value, settings: Value, config_map: Answer) -> Outcome {
    asked(request, settings, config_map).0
}

/// Returns `accepted`, the names of the containers of a changed Pod, or the code and the message of a refusal.
fn shown(outcome: &Outcome) -> String {
    match &outcome.verdict {
        Verdict::Unchanged => "accepted".to_owned(),
        Verdict::Mutated(object) => {
            let containers = pillion_kubernetes::json::items(object, &["spec", "containers"]).iter();
            containers
                .map(|container| pillion_kubernetes::json::text(container, &["name"]))
                .collect::<Vec<_>>()
                .join(" ")
        }
        Verdict::Refused(refusal) => format!("{} {}", refusal.code().as_u16(), refusal.message()),
    }
}

#[test]
fn a_pod_gets_what_the_controller_keeps_beside_what_the_settings_have() {
    let more = settings(json!({"sidecarSets": [set("own", "own")]}));
    let (outcome, asked) = asked(request("Pod", "shop", pod()), more, kept(&[set("kept", "kept")]));
    assert_eq!(shown(&outcome), "own kept app");
    assert_eq!(asked, ["ConfigMap/sets"]);
    assert_eq!(outcome.warnings, [""; 0]);
    assert_eq!(outcome.audit.get("bundle-unavailable"), None);
}

#[test]
fn the_config_map_is_asked_for_first_and_not_at_all_where_no_rule_needs_it() {
    let mut bound = set("kept", "kept");
    bound["spec"]["namespaceSelector"] = json!({"matchLabels": {"x": "y"}});
    let (_, order) = asked(request("Pod", "shop", pod()), settings(json!({})), kept(&[bound]));
    assert_eq!(order, ["ConfigMap/sets", "Namespace/shop"]);
    for (kind, object) in [("ServiceAccount", json!({"metadata": {"name": "x"}})), ("Node", json!({}))] {
        let (outcome, order) = asked(request(kind, "shop", object), settings(json!({})), Ok(None));
        assert_eq!((shown(&outcome).as_str(), order.len()), ("accepted", 0), "{kind}");
    }
    let (_, order) = asked(request("Pod", "shop", pod()), json!({"bundleMaxAge": "1s"}), Ok(None));
    assert_eq!(order, [""; 0]);
}

#[test]
fn trust3_of_one_name_in_both_places_the_settings_count() {
    let more = settings(json!({"sidecarSets": [set("twin", "a")]}));
    let outcome = answer(request("Pod", "shop", pod()), more, kept(&[set("twin", "b")]));
    assert_eq!(shown(&outcome), "a app");
    assert_eq!(
        outcome.warnings,
        [
            "SidecarSet \"twin\" of the cluster is left out: the policy's settings have a SidecarSet of this name; rename or \
          delete it"
        ]
    );
    let mut elsewhere = set("twin", "b");
    elsewhere["spec"]["selector"] = json!({"matchLabels": {"app": "other"}});
    let more = settings(json!({"sidecarSets": [set("twin", "a")]}));
    assert_eq!(shown(&answer(request("Pod", "shop", pod()), more, kept(&[elsewhere]))), "a app");
}

fn dated(time: Value) -> Answer {
    let Ok(Some(mut config_map)) = kept(&[set("kept", "kept")]) else { panic!("it is there") };
    config_map["metadata"]["annotations"][TIME] = time;
    Ok(Some(config_map))
}

fn holding(text: &str) -> Answer {
    let Ok(Some(mut config_map)) = kept(&[]) else { panic!("it is there") };
    config_map["data"]["bundle"] = json!(text);
    Ok(Some(config_map))
}

const RUNNING: &str = "check that Pillion's controller is running";

#[rstest]
#[case::missing(Ok(None), "does not exist", RUNNING)]
#[case::forbidden(
    Err(Failure::Forbidden),
    "may not be read",
    "the policy server's ServiceAccount needs \"get\" on it, and under Kubewarden contextAwareResources must list v1 \
     ConfigMap and hostCapabilities kubernetes/get_resource"
)]
#[case::slow(Err(Failure::Timeout), "could not be read in time", "try again")]
#[case::silent(Err(Failure::Unavailable), "could not be read", "try again")]
#[case::no_object(Ok(Some(json!([]))), "has no data.bundle", RUNNING)]
#[case::no_bundle(holding(""), "has no data.bundle", RUNNING)]
#[case::damaged(holding("pillion-bundle-3:0:AAAA"), "is damaged", RUNNING)]
#[case::newer(
    holding("pillion-bundle-7:0:AAAA"),
    "has a bundle of another format",
    "use a policy and a controller of one version"
)]
#[case::old(dated(json!("2027-01-15T07:00:00Z")), "is older than bundleMaxAge", RUNNING)]
#[case::ahead(dated(json!("2027-01-15T09:00:00Z")), "has a time further ahead than bundleMaxAge", RUNNING)]
#[case::undated(dated(Value::Null), "has no time in its annotation pillion.dev/bundle-time", RUNNING)]
fn set10_a_bundle_that_cannot_be_had_is_503_or_waived(
    #[case] config_map: Answer,
    #[case] wrong: &str,
    #[case] remedy: &str,
) {
    let said = format!("ConfigMap \"pillion/sets\" {wrong}");
    let own = json!([set("own", "own")]);
    let denying = settings(json!({"sidecarSets": own}));
    let waiving = settings(json!({"sidecarSets": own, "onBundleUnavailable": "UseSettings"}));
    let outcome = answer(request("Pod", "shop", pod()), denying.clone(), config_map.clone());
    assert_eq!(
        shown(&outcome),
        format!("503 settings.bundleRef: {said}; {remedy}, or set onBundleUnavailable to UseSettings")
    );
    assert_eq!(outcome.audit.get("bundle-unavailable").map(String::as_str), Some(wrong));
    assert_eq!(outcome.audit.get("refused-because").map(String::as_str), Some("unavailable"));
    for (namespace, settings) in [("shop", waiving), ("pillion", denying)] {
        let outcome = answer(request("Pod", namespace, pod()), settings, config_map.clone());
        assert_eq!(shown(&outcome), "own app");
        assert_eq!(outcome.warnings, [format!("{said}; judged by the SidecarSets of the settings")]);
        assert_eq!(outcome.audit.get("bundle-unavailable").map(String::as_str), Some(wrong));
    }
}

#[test]
fn the_age_that_a_bundle_may_have_is_a_setting() {
    let hour = settings(json!({"bundleMaxAge": "1h"}));
    assert_eq!(shown(&answer(request("Pod", "shop", pod()), hour, dated(json!("2027-01-15T07:00:00Z")))), "kept app");
}

#[test]
fn e9_nothing_is_asked_for_a_mirror_pod() {
    let mut mirror = pod();
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    let (outcome, asked) = asked(request("Pod", "kube-system", mirror), settings(json!({})), Ok(None));
    assert_eq!((shown(&outcome).as_str(), asked.len()), ("accepted", 0));
    assert_eq!(outcome.warnings, [""; 0]);
}

#[test]
fn set9_the_asserting_twin_needs_the_bundle_too() {
    let outcome = answer(request("Pod", "shop", pod()), settings(json!({"role": "Assert"})), Ok(None));
    assert!(shown(&outcome).starts_with("503 "), "{outcome:?}");
}

#[test]
fn a_set_that_is_written_meets_those_that_are_kept() {
    let outcome = answer(
        request("SidecarSet", "", set("new", "agent")),
        settings(json!({})),
        kept(&[set("kept", "agent"), set("new", "agent")]),
    );
    let refused = shown(&outcome);
    assert!(refused.starts_with("422 ") && refused.contains("SidecarSet \"kept\""), "{refused}");
    let outcome = answer(request("SidecarSet", "", set("new", "agent")), settings(json!({})), kept(&[]));
    assert_eq!(outcome.warnings, [""; 0], "the controller will bring it");
    let refused = answer(request("SidecarSet", "", set("new", "agent")), settings(json!({})), Ok(None));
    assert!(shown(&refused).starts_with("503 "), "{refused:?}");
}

#[test]
fn a_set_that_is_being_deleted_does_not_wait_for_a_bundle() {
    let mut going = set("new", "agent");
    going["metadata"]["deletionTimestamp"] = json!("2027-01-15T07:00:00Z");
    let outcome = answer(request("SidecarSet", "", going), settings(json!({})), Ok(None));
    assert!(matches!(outcome.verdict, Verdict::Mutated(_)), "{outcome:?}");
}

/// Adds the Namespace: in a missing namespace, all deletions are allowed.
struct Shop(Cluster);

impl Lookup for Shop {
    fn get(&self, object: &ObjectRef) -> Answer {
        if object.kind == "Namespace" { Ok(Some(json!({"metadata": {"name": "shop"}}))) } else { self.0.get(object) }
    }
}

#[rstest]
#[case::kept(true, json!({}), "403 metadata.name: ServiceAccount \"agent\" is in use by the SidecarSets \"kept\"; name another account there first")]
#[case::unavailable(
    false,
    json!({}),
    "503 settings.bundleRef: ConfigMap \"pillion/sets\" does not exist; check that Pillion's controller is running, or set \
     onBundleUnavailable to UseSettings"
)]
#[case::waived(false, json!({"onBundleUnavailable": "UseSettings"}), "accepted")]
#[case::not_guarded(false, json!({"serviceAccounts": {}}), "accepted")]
fn mrg8_accounts_that_kept_sets_name_are_in_use(#[case] is_kept: bool, #[case] more: Value, #[case] expected: &str) {
    let mut using = set("kept", "kept");
    using["spec"]["serviceAccountName"] = json!("agent");
    let mut settings = settings(json!({
        "featureGates": {"SidecarSetServiceAccountInjection": true}, "serviceAccounts": {"protectInUse": true}
    }));
    for (key, value) in more.as_object().unwrap() {
        settings[key] = value.clone();
    }
    let config_map = if is_kept { kept(&[using]) } else { Ok(None) };
    let account = json!({"metadata": {"name": "agent", "namespace": "shop"}});
    let shop = Shop(Cluster { config_map, asked: RefCell::default() });
    let world = World { lookup: &shop, authorizer: &shop.0, now: NOW, elapsed: &Duration::default };
    let mut request = Request::decode(request("ServiceAccount", "shop", account)).unwrap();
    let outcome = admit(&mut request, &Settings::decode(settings).unwrap(), world);
    assert_eq!(shown(&outcome), expected);
}
