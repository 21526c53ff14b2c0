//! Settings, through the built module. The core's tests cover each error; these tests check that both functions of the
//! policy decode alike and that only one of them validates.

use std::sync::Arc;

use pillion_host::{NoCluster, Operation};
use pillion_testkit::{FakeCluster, module};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{self, admit, create_pod, create_set, full_settings, settings_verdict};

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1.25"}]},
    })
}

fn set(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [{"name": format!("{name}-agent"), "image": image}],
        },
    })
}

fn verdict(settings: &Value) -> (bool, String) {
    let verdict = settings_verdict(settings.to_string().as_bytes()).unwrap();
    (verdict.valid, verdict.message.unwrap_or_default())
}

#[test]
fn the_policy_speaks_version_1() {
    assert_eq!(module().protocol_version().unwrap(), "v1");
}

#[rstest]
#[case::nothing(json!({}))]
#[case::null(Value::Null)]
#[case::everything(full_settings(&[set("a", "agent:1"), set("b", "agent:1")]))]
fn sound_settings_are_valid(#[case] settings: Value) {
    assert_eq!(verdict(&settings), (true, String::new()));
    assert!(admit(&create_pod(&pod(), "u"), &settings).accepted);
}

#[test]
fn what_cannot_be_decoded_is_refused_by_both_functions() {
    let settings = json!({"sidecarSets": [set("a", "agent:1"), set("a", "agent:1")], "sidecarsets": []});
    let (valid, message) = verdict(&settings);
    assert!(!valid);
    assert_eq!(
        message,
        "sidecarsets: Unknown field: did you mean \"sidecarSets\"?; \
         sidecarSets[1].metadata.name: Duplicate value: \"a\": names are unique; remove one"
    );
    for request in [create_pod(&pod(), "u"), create_set(&set("a", "agent:1"))] {
        let answer = admit(&request, &settings);
        assert_eq!((answer.accepted, answer.code), (false, Some(400)));
        let message = answer.message.unwrap();
        assert!(message.contains("settings.sidecarSets[1].metadata.name: Duplicate value: \"a\""), "{message}");
        assert!(message.contains("settings.sidecarsets: Unknown field"), "{message}");
    }
}

#[test]
fn set2_what_is_only_invalid_is_refused_by_validate_settings_alone() {
    let settings = json!({ "sidecarSets": [set("a", "")] });
    let (valid, message) = verdict(&settings);
    assert!(!valid);
    assert!(message.contains("sidecarSets[0].spec.containers[0].image: "), "{message}");
    assert!(message.contains("SidecarSet \"a\""), "{message}");
    let answer = admit(&create_pod(&pod(), "u"), &settings);
    assert!(answer.accepted, "a SidecarSet is injected as it stands: {:?}", answer.message);
    assert!(answer.mutated_object.is_some());
}

#[test]
fn val52_conflicts_between_the_sets_are_invalid() {
    let mut other = set("b", "agent:1");
    other["spec"]["containers"][0]["name"] = json!("a-agent");
    let (valid, message) = verdict(&json!({ "sidecarSets": [set("a", "agent:1"), other] }));
    assert!(!valid);
    assert!(message.contains("sidecarSets[1].spec.containers[0].name: "), "{message}");
}

#[test]
fn look3_validating_settings_asks_nothing() {
    let cluster = Arc::new(FakeCluster::default());
    let settings = support::asking_settings().to_string();
    module().evaluate(Operation::ValidateSettings, settings.as_bytes(), cluster.clone()).unwrap();
    assert_eq!(cluster.asked(), Vec::<String>::new());
}

#[rstest]
#[case::empty("")]
#[case::no_json("{")]
#[case::no_utf8("\u{0}\u{1}")]
#[case::a_list("[]")]
#[case::a_text("\"a\"")]
fn payloads_that_are_no_settings_are_invalid(#[case] payload: &str) {
    assert!(!settings_verdict(payload.as_bytes()).unwrap().valid);
}

#[test]
fn ans1_what_no_rule_speaks_of_is_accepted_whatever_the_settings_are() {
    let mut request = create_pod(&pod(), "u");
    request["operation"] = json!("DELETE");
    let answer = admit(&request, &json!({"bogus": [1, 2, 3]}));
    assert!(answer.accepted && answer.mutated_object.is_none());
}

#[rstest]
#[case::no_uid("uid")]
#[case::no_operation("operation")]
#[case::no_kind("kind")]
fn ans3_requests_without_a_required_field_are_refused(#[case] field: &str) {
    let mut request = create_pod(&pod(), "u");
    request.as_object_mut().unwrap().remove(field);
    let answer = admit(&request, &json!({}));
    assert_eq!((answer.accepted, answer.code), (false, Some(400)));
    assert!(answer.message.unwrap().contains(&format!("request.{field}: Required value")));
}

/// Inputs that would break a small stack, a small heap or a slow loop.
#[rstest]
#[case::nested_pod(deep("/object/spec/containers/0/fieldOfTomorrow", 100), json!({}))]
#[case::nested_beyond_the_parser(deep("/object/spec/containers/0/fieldOfTomorrow", 100_000), json!({}))]
#[case::parentheses(String::new(), expression(&format!("{}cpu{}", "(".repeat(10_000), ")".repeat(10_000))))]
#[case::signs(String::new(), expression(&format!("{}1", "-".repeat(100_000))))]
#[case::functions(String::new(), expression(&format!("{}1", "max(1,".repeat(10_000))))]
#[case::long_sum(String::new(), expression(&vec!["cpu"; 50_000].join("+")))]
#[case::nested_groups(String::new(), pattern(&format!("{}a{}", "(".repeat(5_000), ")".repeat(5_000))))]
#[case::repetitions(String::new(), pattern("((a{1000}){1000}){1000}"))]
#[case::backtracking(String::new(), pattern("(a*)*(a*)*(a*)*b"))]
#[case::many_variables(many_variables(), json!({ "sidecarSets": [set("a", "agent:1")] }))]
fn extremes_get_an_answer(#[case] request: String, #[case] settings: Value) {
    let request = if request.is_empty() { create_pod(&pod(), "u").to_string() } else { request };
    let payload = format!("{{\"request\":{request},\"settings\":{settings}}}");
    let bytes = module().evaluate(Operation::Validate, payload.as_bytes(), Arc::new(NoCluster));
    support::decision(bytes);
    settings_verdict(settings.to_string().as_bytes()).unwrap();
}

fn deep(pointer: &str, depth: usize) -> String {
    let mut request = create_pod(&pod(), "u");
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    request.pointer_mut(parent).unwrap()[key] = json!("HERE");
    request.to_string().replace("\"HERE\"", &format!("{}{}", "[".repeat(depth), "]".repeat(depth)))
}

fn with_policy(policy: &Value) -> Value {
    let mut set = set("a", "agent:1");
    set["spec"]["containers"][0]["resourcesPolicy"] = policy.clone();
    json!({ "sidecarSets": [set] })
}

fn expression(text: &str) -> Value {
    with_policy(&json!({
        "targetContainersMode": "sum", "targetContainersNameRegex": ".*", "resourcesExpr": {"requests": {"cpu": text}},
    }))
}

fn pattern(text: &str) -> Value {
    with_policy(&json!({
        "targetContainersMode": "sum", "targetContainersNameRegex": text, "resourcesExpr": {"requests": {"cpu": "cpu"}},
    }))
}

fn many_variables() -> String {
    let variables: Vec<Value> =
        (0..20_000).rev().map(|index| json!({"name": format!("V{index:05}"), "value": "x"})).collect();
    let mut request = create_pod(&pod(), "u");
    request["object"]["spec"]["containers"][0]["env"] = json!(variables);
    request.to_string()
}
