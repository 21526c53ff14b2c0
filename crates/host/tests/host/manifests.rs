//! Of the manifests in the settings, a new Pod gets those that may match it, through the built module.
//!
//! The module reads only a part of the others. So its answer must be that of the same rules on whole manifests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pillion_admission::request::Request;
use pillion_admission::settings::Settings;
use pillion_host::{NoCluster, Operation, ValidationResponse};
use pillion_kubernetes::authorizer::{Authorizer, Question};
use pillion_kubernetes::lookup::{Answer, Lookup, ObjectRef};
use pillion_kubernetes::outcome::{Code, Outcome, Reason, Refusal, Verdict};
use pillion_kubernetes::time::Timestamp;
use pillion_kubernetes::world::World;
use pillion_sidecarset::sidecar_set::decode::decode;
use pillion_testkit::strategies::{damaged, pod, sidecar_sets};
use pillion_testkit::{FakeCluster, module};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{create_pod, create_set, decision, settings_verdict, unstamped};

/// The Namespace of the Pods.
fn namespace() -> Value {
    let labels = json!({"env": "prod", "kubernetes.io/metadata.name": "default"});
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": labels}})
}

/// Evaluates a request with settings whose `sidecarSets` are this text.
fn ask(request: &Value, mut settings: Value, list: &str) -> ValidationResponse {
    settings["sidecarSets"] = json!("HERE");
    let settings = settings.to_string().replace("\"HERE\"", list);
    let payload = format!("{{\"request\":{request},\"settings\":{settings}}}");
    let cluster = Arc::new(FakeCluster::with([namespace()]));
    decision(module().evaluate(Operation::Validate, payload.as_bytes(), cluster))
}

/// A cluster in which only the Namespace exists.
struct Cluster;

impl Lookup for Cluster {
    fn get(&self, object: &ObjectRef) -> Answer {
        Ok(Some(namespace()).filter(|_| (object.kind, object.name.as_str()) == ("Namespace", "default")))
    }
}

impl Authorizer for Cluster {
    fn allows(&self, _: &Question) -> Result<bool, String> {
        Err("try again".to_owned())
    }
}

/// Returns the answer of the rules if they decode every manifest.
fn ask_rules(request: &Value, mut settings: Value, list: &str) -> ValidationResponse {
    settings["sidecarSets"] = serde_json::from_str(list).unwrap();
    let mut request = Request::decode(request.clone()).unwrap();
    let world = World { lookup: &Cluster, authorizer: &Cluster, now: Timestamp(0), elapsed: &Duration::default };
    let Outcome { verdict, warnings, audit } = match Settings::decode(settings) {
        Ok(settings) => pillion_admission::admit(&mut request, &settings, world),
        Err(errors) => {
            let errors = errors.into_iter().map(|error| error.below("settings"));
            Refusal::from_reasons(errors.map(|error| Reason::of_field(Code::Undecodable, error))).unwrap().into()
        }
    };
    let (mutated_object, refusal) = match verdict {
        Verdict::Unchanged => (None, None),
        Verdict::Mutated(object) => (Some(object), None),
        Verdict::Refused(refusal) => (None, Some(refusal)),
    };
    let audit: BTreeMap<_, _> = audit.into_iter().map(|(name, text)| (name.to_owned(), text)).collect();
    ValidationResponse {
        accepted: refusal.is_none(),
        message: refusal.as_ref().map(Refusal::message),
        code: refusal.as_ref().map(|refusal| refusal.code().as_u16()),
        mutated_object,
        audit_annotations: Some(audit).filter(|audit| !audit.is_empty()),
        warnings: Some(warnings).filter(|warnings| !warnings.is_empty()),
    }
}

/// Returns the answers of the module, and of the rules on whole manifests.
fn answers(request: &Value, settings: &Value, list: &str) -> [ValidationResponse; 2] {
    [ask(request, settings.clone(), list), ask_rules(request, settings.clone(), list)].map(|mut answer| {
        answer.mutated_object = unstamped(answer.mutated_object);
        answer
    })
}

fn web() -> Value {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1.25"}]},
    });
    create_pod(&pod, "11111111-0000-4000-8000-000000000001")
}

fn set(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": app}},
            "containers": [{"name": format!("{name}-agent"), "image": "agent:1"}],
        },
    })
}

/// Returns a SidecarSet for the Pod of [`web`] with another value at a place.
fn with(pointer: &str, value: Value) -> Value {
    let mut set = set("a", "web");
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    set.pointer_mut(parent).unwrap()[key] = value;
    set
}

/// Returns a `spec` that matches the Pod of [`web`], with more containers than its length allows.
fn short_containers() -> Value {
    let containers = vec![json!({}); 1_000];
    json!({"selector": {"matchLabels": {"app": "web"}}, "containers": containers, "initContainers": containers})
}

/// Returns the SidecarSet for the Pod of [`web`] as v1alpha1, with these fields.
fn alpha(edit: &Value) -> Value {
    let mut set = set("a", "web");
    set["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    for (key, value) in edit.as_object().unwrap() {
        set["spec"][key] = value.clone();
    }
    set
}

/// Returns the names of the containers that an answer adds.
fn added(answer: &ValidationResponse) -> Vec<&str> {
    let containers =
        answer.mutated_object.as_ref().map_or(&[][..], |pod| pod["spec"]["containers"].as_array().unwrap());
    containers.iter().filter_map(|container| container["name"].as_str()).filter(|name| *name != "main").collect()
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pods_get_the_same_answer_from_manifests_in_parts_and_from_whole_ones(
        pod in pod(), sets in sidecar_sets(), split in 0_usize..4, asserts: bool
    ) {
        let request = create_pod(&pod, "11111111-0000-4000-8000-000000000001");
        let (some, others) = sets.split_at(split.min(sets.len()));
        let some: Vec<_> = some.iter().map(|set| decode(set.clone()).unwrap().into_sidecar_set()).collect();
        let role = if asserts { "Assert" } else { "Inject" };
        let all = json!({"role": role, "featureGates": {"SidecarSetServiceAccountInjection": asserts}});
        let mut beside_a_bundle = all.clone();
        beside_a_bundle["bundle"] = json!(pillion_bundle::write(&some));
        for (settings, list) in [(all, json!(sets)), (beside_a_bundle, json!(others))] {
            let [parts, whole] = answers(&request, &settings, &list.to_string());
            prop_assert_eq!(parts, whole);
        }
    }

    /// If a new Pod does not hear of damage, its answer is that of the other SidecarSets.
    #[test]
    fn damage_is_told_or_does_not_matter(pod in pod(), list in damaged(sidecar_sets().prop_map(Value::Array))) {
        let request = create_pod(&pod, "11111111-0000-4000-8000-000000000001");
        let [parts, mut whole] = answers(&request, &json!({}), &list.to_string());
        if parts.code != Some(400) && whole.code == Some(400) {
            let sound: Vec<&Value> =
                list.as_array().unwrap().iter().filter(|set| decode((*set).clone()).is_ok()).collect();
            [_, whole] = answers(&request, &json!({}), &json!(sound).to_string());
        }
        prop_assert_eq!(parts, whole);
    }
}

/// A manifest in which `spec` appears twice. The last one counts, and it selects the Pod.
const OTHERS_FIRST: &str = r#"{"apiVersion":"apps.kruise.io/v1beta1","kind":"SidecarSet","metadata":{"name":"a"},
    "spec":{"selector":{"matchLabels":{"app":"shop"}},"initContainers":[{"name":"b-agent","image":"agent:1"}]},
    "spec":{"selector":{"matchLabels":{"app":"web"}},"containers":[{"name":"a-agent","image":"agent:1"}]}}"#;
/// A manifest in which `spec.selector` appears twice. The last one counts, and it selects another Pod.
const OTHERS_LAST: &str = r#"{"apiVersion":"apps.kruise.io/v1beta1","kind":"SidecarSet","metadata":{"name":"a"},
    "spec":{"selector":{"matchLabels":{"app":"web"}},"containers":[{"name":"a-agent","image":"agent:1"}],
    "selector":{"matchLabels":{"app":"shop"}}}}"#;
const CONTAINERS_TWICE: &str = r#"{"apiVersion":"apps.kruise.io/v1beta1","kind":"SidecarSet","metadata":{"name":"a"},
    "spec":{"containers":[{"name":"b-agent","image":"agent:1"}],"selector":{"matchLabels":{"app":"web"}},
    "containers":[{"name":"a-agent","image":"agent:1"}]}}"#;

#[rstest]
#[case::null("null".to_owned(), &[])]
#[case::none("[]".to_owned(), &[])]
#[case::one_of_three(json!([set("b", "shop"), set("a", "web"), set("c", "web-shop")]).to_string(), &["a-agent"])]
#[case::two(json!([set("b", "web"), set("a", "web")]).to_string(), &["a-agent", "b-agent"])]
#[case::without_a_spec(json!([set("a", "web"), with("/spec", Value::Null), set("c", "web")]).to_string().replacen("\"a\"", "\"b\"", 1), &["a-agent", "c-agent"])]
#[case::without_a_name(json!([with("/metadata", json!({}))]).to_string(), &["a-agent"])]
#[case::paused(json!([with("/spec/injectionStrategy", json!({"paused": true}))]).to_string(), &[])]
#[case::not_paused(json!([with("/spec/injectionStrategy", json!({"paused": null}))]).to_string(), &["a-agent"])]
#[case::of_its_namespace(json!([with("/spec/namespaceSelector", json!({"matchLabels": {"env": "prod"}}))]).to_string(), &["a-agent"])]
#[case::of_another_namespace(json!([with("/spec/namespaceSelector", json!({"matchLabels": {"env": "dev"}}))]).to_string(), &[])]
#[case::of_v1alpha1(json!([alpha(&json!({"namespace": "default"}))]).to_string(), &["a-agent"])]
#[case::of_v1alpha1_and_another_namespace(json!([alpha(&json!({"namespace": "shop"}))]).to_string(), &[])]
#[case::of_v1alpha1_whose_namespace_replaces_the_selector(
    json!([alpha(&json!({
        "namespace": "default", "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}
    }))]).to_string(),
    &["a-agent"]
)]
#[case::of_v1alpha1_and_null(json!([alpha(&json!({"namespace": null, "namespaceSelector": null}))]).to_string(), &["a-agent"])]
#[case::the_last_spec_counts(format!("[{OTHERS_FIRST}]"), &["a-agent"])]
#[case::the_last_selector_counts(format!("[{OTHERS_LAST}]"), &[])]
#[case::the_last_containers_count(format!("[{CONTAINERS_TWICE}]"), &["a-agent"])]
fn a_new_pod_gets_those_that_match(#[case] list: String, #[case] expected: &[&str]) {
    let [parts, whole] = answers(&web(), &json!({}), &list);
    assert_eq!(parts, whole);
    assert!(parts.accepted, "{parts:?}");
    assert_eq!(added(&parts), expected);
}

#[rstest]
#[case::no_list(json!({}), "settings.sidecarSets: Invalid value: must be a list, found an object")]
#[case::a_null_item(json!([set("a", "web"), null]), "settings.sidecarSets[1].kind: Required value: must be SidecarSet")]
#[case::another_kind(json!([set("b", "shop"), with("/kind", json!("Pod"))]), "settings.sidecarSets[1].kind: Unsupported value: \"Pod\"")]
#[case::one_name_twice(json!([set("a", "web"), set("b", "shop"), set("b", "shop")]), "settings.sidecarSets[2].metadata.name: Duplicate value: \"b\"")]
#[case::no_name_twice(
    json!([with("/metadata", json!({})), with("/metadata", Value::Null)]), "settings.sidecarSets[1].metadata.name: Duplicate value: \"\""
)]
#[case::metadata_that_is_a_list(json!([with("/metadata", json!([]))]), "settings.sidecarSets[0].metadata: Invalid value: must be an object, found a list")]
#[case::a_selector_of_another_type(json!([set("b", "shop"), with("/spec/selector", json!("app"))]), "settings.sidecarSets[1].spec.selector: Invalid value")]
#[case::a_namespace_of_another_type(json!([alpha(&json!({"namespace": 1}))]), "settings.sidecarSets[0].spec.namespace: Invalid value")]
#[case::paused_of_another_type(json!([with("/spec/injectionStrategy", json!({"paused": "no"}))]), "settings.sidecarSets[0].spec.injectionStrategy.paused: Invalid value")]
#[case::containers_of_a_match(
    json!([set("b", "shop"), with("/spec/containers", json!({}))]), "settings.sidecarSets[1].spec.containers: Invalid value: must be a list, found an object"
)]
#[case::a_match_of_too_many_volumes(
    json!([set("b", "shop"), with("/spec/volumes", json!(vec![json!({}); 4_001]))]),
    "settings.sidecarSets[1].spec.volumes: Too many"
)]
#[case::a_match_of_short_containers(
    json!([set("b", "shop"), with("/spec", short_containers())]),
    "settings.sidecarSets: Too many: too many short containers and volumes"
)]
fn what_is_wrong_with_a_head_or_a_match_is_found(#[case] list: Value, #[case] expected: &str) {
    let [parts, whole] = answers(&web(), &json!({"bogus": 1}), &list.to_string());
    assert_eq!(parts, whole);
    assert!(!parts.accepted && parts.message.as_ref().unwrap().contains(expected), "{parts:?}");
}

#[test]
fn a_match_of_small_values_costs_too_much() {
    let list = json!([set("b", "shop"), with("/spec/unknown", json!(vec![0; 40_000]))]).to_string();
    let answer = ask(&web(), json!({}), &list);
    assert_eq!(answer.code, Some(400), "{answer:?}");
    assert!(answer.message.unwrap().starts_with("the payload costs too much to read; shorten its lists and objects"));
}

#[rstest]
#[case::an_invalid_selector(with("/spec/selector", json!({"matchExpressions": [{"key": "app", "operator": "Is"}]})))]
#[case::short_containers_beside_a_long_set(with("/spec", short_containers()))]
fn what_decoding_accepts_is_refused_as_a_sidecar_set(#[case] refused: Value) {
    let mut long = set("b", "shop");
    long["metadata"]["annotations"] = json!({"notes": "a".repeat(800_000)});
    let [parts, whole] = answers(&web(), &json!({}), &json!([refused, long]).to_string());
    assert_eq!(parts, whole);
    assert_eq!(parts.code, Some(403), "{parts:?}");
    assert!(parts.message.as_ref().unwrap().contains("SidecarSet \"a\""), "{parts:?}");
}

#[rstest]
#[case::other_labels(set("a", "shop"))]
#[case::paused(with("/spec/injectionStrategy", json!({"paused": true})))]
#[case::another_namespace(
    with("/spec/namespaceSelector", json!({"matchLabels": {"kubernetes.io/metadata.name": "shop"}}))
)]
#[case::another_namespace_of_v1alpha1(alpha(&json!({"namespace": "shop"})))]
fn set2_what_is_wrong_with_the_rest_of_another_is_found_by_everyone_else(#[case] mut other: Value) {
    other["spec"]["containers"] = json!([{"name": "a-agent", "image": 1}]);
    let list = json!([set("b", "web"), other]).to_string();
    let problem = "sidecarSets[1].spec.containers[0].image: Invalid value: must be a string, found a number";

    let answer = ask(&web(), json!({}), &list);
    assert!(answer.accepted, "{answer:?}");
    assert_eq!(added(&answer), ["b-agent"]);

    let verdict = settings_verdict(format!("{{\"sidecarSets\":{list}}}").as_bytes()).unwrap();
    assert!(verdict.message.unwrap().contains(problem));
    let answer = ask(&create_set(&set("c", "x")), json!({}), &list);
    assert_eq!((answer.accepted, answer.code), (false, Some(400)));
    assert!(answer.message.as_ref().unwrap().contains(problem), "{answer:?}");
}

#[test]
fn the_order_of_request_and_settings_does_not_matter() {
    let list = json!([set("b", "shop"), set("a", "web")]);
    let payload = format!("{{\"settings\":{{\"sidecarSets\":{list}}},\"request\":{}}}", web());
    let answer = decision(module().evaluate(Operation::Validate, payload.as_bytes(), Arc::new(NoCluster)));
    assert_eq!(added(&answer), ["a-agent"]);
}

#[test]
fn of_two_requests_the_last_one_counts() {
    let settings = json!({"sidecarSets": [with("/spec/containers/0/image", json!(1))]});
    let shop = create_pod(&json!({"metadata": {"labels": {"app": "shop"}}, "spec": {}}), "u");
    let payload = format!("{{\"request\":{shop},\"settings\":{settings},\"request\":{}}}", create_set(&set("c", "x")));
    let answer = decision(module().evaluate(Operation::Validate, payload.as_bytes(), Arc::new(NoCluster)));
    assert_eq!(answer.code, Some(400), "{answer:?}");
    assert!(answer.message.unwrap().contains("sidecarSets[0].spec.containers[0].image: Invalid value"));
}
