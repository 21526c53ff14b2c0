use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, ServiceAccount};
use kube::api::{DeleteParams, DynamicObject, EvictParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, ResourceExt as _};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

mod serving;

const NOW: Timestamp = Timestamp(1_800_000_000);

fn situation(manifests: &[Value]) -> Situation {
    Situation { manifests: manifests.to_vec(), namespace: "default".to_owned(), ..Situation::default() }
}

async fn simulated(situation: &Situation) -> Simulation {
    Simulation::new(situation, None, || NOW).await.expect("a simulation")
}

fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}, "data": data})
}

fn deployment(namespace: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": namespace},
        "spec": {"template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}}
    })
}

fn maps(simulation: &Simulation) -> Api<ConfigMap> {
    Api::namespaced(simulation.client(), "shop")
}

/// Returns the code and the reason of a refusal.
fn refused<T>(result: Result<T, kube::Error>) -> (u16, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.reason.clone()),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was accepted"),
    }
}

fn verbs(simulation: &Simulation) -> Vec<Verb> {
    simulation.take_writes().into_iter().map(|write| write.verb).collect()
}

#[tokio::test]
async fn what_is_created_is_there_and_recorded() {
    let simulation = simulated(&situation(&[])).await;
    let wanted: ConfigMap = serde_json::from_value(map("a", &json!({"x": "1"}))).expect("a ConfigMap");
    let made = maps(&simulation).create(&PostParams::default(), &wanted).await.expect("it is created");
    assert!(made.uid().is_some() && made.resource_version().is_some() && made.creation_timestamp().is_some());
    assert_eq!(maps(&simulation).get("a").await.expect("it is there"), made);
    let writes = simulation.take_writes();
    assert_eq!(writes.len(), 1);
    assert_eq!((writes[0].verb, writes[0].object.kind, &writes[0].before), (Verb::Create, "ConfigMap", &None));
    assert_eq!(writes[0].after.as_ref().expect("the object")["data"], json!({"x": "1"}));
    let again = maps(&simulation).create(&PostParams::default(), &wanted).await;
    assert_eq!(refused(again), (409, "AlreadyExists".to_owned()));
    assert_eq!(verbs(&simulation), []);
}

#[tokio::test]
async fn a_namespace_that_is_being_deleted_takes_nothing_new() {
    let going = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "shop", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    });
    let simulation = simulated(&situation(&[going])).await;
    let wanted: ConfigMap = serde_json::from_value(map("a", &json!({}))).expect("a ConfigMap");
    let refused = maps(&simulation).create(&PostParams::default(), &wanted).await;
    let Err(kube::Error::Api(status)) = refused else { panic!("{refused:?}") };
    let causes: Vec<_> =
        status.details.iter().flat_map(|details| &details.causes).map(|cause| cause.reason.as_str()).collect();
    assert_eq!((status.code, causes), (403, vec!["NamespaceTerminating"]));
}

#[rstest]
#[case::merge(Patch::Merge(json!({"data": {"x": "2", "y": null}})), Some(json!({"x": "2"})))]
#[case::merge_of_this_object(Patch::Merge(json!({"metadata": {"uid": "configmaps/shop/a"}, "data": {"x": "2"}})), Some(json!({"x": "2", "y": "1"})))]
#[case::merge_of_another_object(Patch::Merge(json!({"metadata": {"uid": "other"}, "data": {"x": "2"}})), None)]
#[case::merge_of_another_version(Patch::Merge(json!({"metadata": {"resourceVersion": "7"}, "data": {"x": "2"}})), None)]
#[case::apply(Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"z": "3"}})), Some(json!({"x": "1", "y": "1", "z": "3"})))]
#[tokio::test]
async fn patches_change_what_they_name(#[case] patch: Patch<Value>, #[case] expected: Option<Value>) {
    let simulation = simulated(&situation(&[map("a", &json!({"x": "1", "y": "1"}))])).await;
    let params = PatchParams { force: matches!(patch, Patch::Apply(_)), ..PatchParams::apply("me") };
    match (maps(&simulation).patch("a", &params, &patch).await, expected) {
        (Ok(map), Some(expected)) => {
            assert_eq!(json!(map.data), expected);
            assert_ne!(map.resource_version().as_deref(), Some("1"));
            assert_eq!(simulation.take_writes().len(), 1);
        }
        (result, None) => assert_eq!(refused(result), (409, "Conflict".to_owned())),
        (Err(error), Some(_)) => panic!("{error}"),
    }
}

#[rstest]
#[case::holds(json!([{"op": "test", "path": "/data/x", "value": "1"}, {"op": "replace", "path": "/data/x", "value": "2"}]), None)]
#[case::does_not_hold(json!([{"op": "test", "path": "/data/x", "value": "9"}, {"op": "remove", "path": "/data/x"}]), Some((422, "Invalid")))]
#[tokio::test]
async fn a_json_patch_is_written_only_if_its_tests_hold(#[case] patch: Value, #[case] refusal: Option<(u16, &str)>) {
    let simulation = simulated(&situation(&[map("a", &json!({"x": "1"}))])).await;
    let patch = Patch::<Value>::Json(serde_json::from_value(patch).expect("a patch"));
    let result = maps(&simulation).patch("a", &PatchParams::default(), &patch).await;
    match refusal {
        None => assert_eq!(json!(result.expect("it is written").data), json!({"x": "2"})),
        Some((code, reason)) => assert_eq!(refused(result), (code, reason.to_owned())),
    }
    assert_eq!(simulation.take_writes().len(), usize::from(refusal.is_none()));
}

#[tokio::test]
async fn a_status_is_written_alone_and_not_with_the_rest() {
    let set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "a", "generation": 3},
        "spec": {"paused": false}, "status": {"matchedPods": 1}
    });
    let simulation = simulated(&situation(&[set])).await;
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "SidecarSet"));
    let sets: Api<DynamicObject> = Api::all_with(simulation.client(), &kind);
    let both = Patch::Merge(json!({"spec": {"paused": true}, "status": {"matchedPods": 2}}));
    let after = sets.patch_status("a", &PatchParams::default(), &both).await.expect("the status");
    assert_eq!((&after.data["spec"]["paused"], &after.data["status"]["matchedPods"]), (&json!(false), &json!(2)));
    assert_eq!(after.metadata.generation, Some(3));
    let both = Patch::Merge(json!({"spec": {"paused": true}, "status": {"matchedPods": 3}}));
    let after = sets.patch("a", &PatchParams::default(), &both).await.expect("the rest");
    assert_eq!((&after.data["spec"]["paused"], &after.data["status"]["matchedPods"]), (&json!(true), &json!(2)));
    assert_eq!(after.metadata.generation, Some(4));
    let parts: Vec<_> = simulation.take_writes().into_iter().map(|write| write.subresource).collect();
    assert_eq!(parts, [Some("status".to_owned()), None]);
}

#[tokio::test]
async fn a_write_that_changes_nothing_leaves_the_version() {
    let simulation = simulated(&situation(&[map("a", &json!({"x": "1"}))])).await;
    let patch = Patch::Merge(json!({"data": {"x": "1"}}));
    let after = maps(&simulation).patch("a", &PatchParams::default(), &patch).await.expect("it is written");
    assert_eq!(after.resource_version().as_deref(), Some("999"));
    let writes = simulation.take_writes();
    assert_eq!(writes[0].before, writes[0].after);
}

#[tokio::test]
async fn what_is_deleted_is_gone_unless_a_finalizer_keeps_it() {
    let mut kept = map("kept", &json!({}));
    kept["metadata"]["finalizers"] = json!(["me/it"]);
    let simulation = simulated(&situation(&[map("a", &json!({})), kept])).await;
    let preconditions = Preconditions { uid: Some("other".to_owned()), resource_version: None };
    let other = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    assert_eq!(refused(maps(&simulation).delete("a", &other).await), (409, "Conflict".to_owned()));
    assert!(maps(&simulation).delete("a", &DeleteParams::default()).await.expect("it goes").is_right());
    assert_eq!(maps(&simulation).get_opt("a").await.expect("an answer"), None);
    assert!(maps(&simulation).delete("kept", &DeleteParams::default()).await.expect("it is marked").is_left());
    let names: Vec<_> = maps(&simulation).list(&ListParams::default()).await.expect("a list").into_iter().collect();
    assert_eq!(
        names.iter().map(|map| (map.name_any(), map.metadata.deletion_timestamp.is_some())).collect::<Vec<_>>(),
        [("kept".to_owned(), true)]
    );
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps(&simulation).patch("kept", &PatchParams::default(), &free).await.expect("it is released");
    assert_eq!(maps(&simulation).get_opt("kept").await.expect("an answer"), None);
    assert_eq!(verbs(&simulation), [Verb::Delete, Verb::Delete, Verb::Patch]);
}

#[tokio::test]
async fn an_evicted_pod_is_gone() {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"containers": []}
    });
    let simulation = simulated(&situation(&[pod])).await;
    let pods: Api<Pod> = Api::namespaced(simulation.client(), "shop");
    pods.evict("web", &EvictParams::default()).await.expect("it is evicted");
    assert!(pods.get_opt("web").await.expect("an answer").is_none());
    assert_eq!(verbs(&simulation), [Verb::Evict]);
}

#[tokio::test]
async fn a_token_has_the_claims_of_a_real_one_and_changes_nothing() {
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot", "namespace": "shop"}});
    let simulation = simulated(&situation(&[account])).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(simulation.client(), "shop");
    let request =
        json!({"spec": {"audiences": [], "expirationSeconds": 600, "boundObjectRef": {"name": "s", "uid": "u"}}});
    let request = serde_json::from_value(request).expect("a TokenRequest");
    let answer = accounts.create_token_request("bot", &PostParams::default(), &request).await.expect("a token");
    let status = answer.status.expect("a status");
    assert_eq!(status.expiration_timestamp.expect("a time").0.as_second(), NOW.0 + 600);
    assert_eq!(status.token.expect("a token").split('.').count(), 3);
    assert_eq!(verbs(&simulation), [Verb::TokenRequest]);
    let missing = accounts.create_token_request("none", &PostParams::default(), &request).await;
    assert_eq!(refused(missing), (404, "NotFound".to_owned()));
}

#[tokio::test]
async fn a_cluster_below_is_read_and_never_written() {
    let below = simulated(&situation(&[map("old", &json!({"x": "1"})), map("gone", &json!({}))])).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let above = situation(&[namespace, map("new", &json!({}))]);
    let simulation = Simulation::new(&above, Some(below.client()), || NOW).await.expect("a simulation");
    let patch = Patch::Merge(json!({"data": {"x": "2"}}));
    maps(&simulation).patch("old", &PatchParams::default(), &patch).await.expect("it is written");
    maps(&simulation).delete("gone", &DeleteParams::default()).await.expect("it goes");
    let all = |list: kube::core::ObjectList<ConfigMap>| -> BTreeMap<String, Value> {
        list.into_iter().map(|map| (map.name_any(), json!(map.data.unwrap_or_default()))).collect()
    };
    let seen = all(maps(&simulation).list(&ListParams::default()).await.expect("a list"));
    assert_eq!(seen, [("new".to_owned(), json!({})), ("old".to_owned(), json!({"x": "2"}))].into());
    let seen = all(maps(&below).list(&ListParams::default()).await.expect("a list"));
    assert_eq!(seen, [("gone".to_owned(), json!({})), ("old".to_owned(), json!({"x": "1"}))].into());
    assert_eq!(below.take_writes(), []);
}

#[tokio::test]
async fn a_kind_that_nobody_knows_is_refused() {
    let simulation = simulated(&situation(&[])).await;
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Thing"));
    let things: Api<DynamicObject> = Api::namespaced_with(simulation.client(), "shop", &kind);
    let made = things.create(&PostParams::default(), &DynamicObject::new("a", &kind)).await;
    assert_eq!(refused(made), (405, "MethodNotAllowed".to_owned()));
}

#[rstest]
#[case::all(ListParams::default(), &["one", "two"])]
#[case::label(ListParams::default().labels("a=b"), &["one"])]
#[case::another_value(ListParams::default().labels("a=c"), &[])]
#[case::key(ListParams::default().labels("a"), &["one"])]
#[case::name(ListParams::default().fields("metadata.name=two"), &["two"])]
#[case::another_name(ListParams::default().fields("metadata.name!=two"), &["one"])]
#[case::kind_of_secret(ListParams::default().fields("type=x"), &["two"])]
#[tokio::test]
async fn lists_are_selected(#[case] params: ListParams, #[case] expected: &[&str]) {
    let secret = |name: &str, labels: Value, type_: &str| {
        let metadata = json!({"name": name, "namespace": "shop", "labels": labels});
        json!({"apiVersion": "v1", "kind": "Secret", "type": type_, "metadata": metadata})
    };
    let manifests = [secret("one", json!({"a": "b"}), ""), secret("two", json!({}), "x")];
    let client = simulated(&situation(&manifests)).await.client();
    let found = Api::<Secret>::all(client).list(&params).await.expect("a list");
    assert_eq!(found.iter().map(kube::ResourceExt::name_any).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn namespaces_that_are_only_named_exist() {
    let labels = [("team".to_owned(), "a".to_owned())].into();
    let mut there = deployment("shop");
    there["metadata"]["namespace"] = Value::Null;
    let situation = Situation { namespace_labels: labels, ..situation(&[there, deployment("web")]) };
    let client = simulated(&situation).await.client();
    let found = Api::<Namespace>::all(client).list(&ListParams::default()).await.expect("a list");
    let found: Vec<_> = found.iter().map(|found| (found.name_any(), found.labels()["team"].as_str())).collect();
    assert_eq!(found, [("default".to_owned(), "a"), ("web".to_owned(), "a")]);
}

/// One write of a random sequence.
#[derive(Clone, Debug)]
enum Any {
    Create(u8, u8),
    Merge(u8, u8),
    Apply(u8, u8),
    Delete(u8),
}

fn any_write() -> impl Strategy<Value = Any> {
    prop_oneof![
        (0..3_u8, any::<u8>()).prop_map(|(name, value)| Any::Create(name, value)),
        (0..3_u8, any::<u8>()).prop_map(|(name, value)| Any::Merge(name, value)),
        (0..3_u8, any::<u8>()).prop_map(|(name, value)| Any::Apply(name, value)),
        (0..3_u8).prop_map(Any::Delete),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// The recorded writes say everything that happened.
    #[test]
    fn what_is_there_follows_from_the_writes(all in prop::collection::vec(any_write(), 0..20)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (there, recorded) = runtime.block_on(async {
            let simulation = simulated(&situation(&[])).await;
            let api = maps(&simulation);
            for write in all {
                let of = |name: u8, value: u8| map(&name.to_string(), &json!({value.to_string(): "x"}));
                // Some are refused, and then nothing is recorded.
                match write {
                    Any::Create(name, value) => {
                        let object = serde_json::from_value(of(name, value)).expect("a ConfigMap");
                        drop(api.create(&PostParams::default(), &object).await);
                    }
                    Any::Merge(name, value) => {
                        let patch = Patch::Merge(json!({"data": {value.to_string(): "y"}}));
                        drop(api.patch(&name.to_string(), &PatchParams::default(), &patch).await);
                    }
                    Any::Apply(name, value) => {
                        let params = PatchParams::apply("me").force();
                        drop(api.patch(&name.to_string(), &params, &Patch::Apply(of(name, value))).await);
                    }
                    Any::Delete(name) => drop(api.delete(&name.to_string(), &DeleteParams::default()).await),
                }
            }
            let mut recorded = BTreeMap::new();
            for write in simulation.take_writes() {
                match write.after {
                    Some(after) => drop(recorded.insert(write.object.name, after["data"].clone())),
                    None => drop(recorded.remove(&write.object.name)),
                }
            }
            let there = api.list(&ListParams::default()).await.expect("a list");
            let there: BTreeMap<_, _> = there.into_iter().map(|map| (map.name_any(), json!(map.data))).collect();
            (there, recorded)
        });
        prop_assert_eq!(there, recorded);
    }
}
