//! Policies that Kubewarden and the API server refuse.

use rstest::rstest;
use serde_json::{Value, json};

use super::support::found;

fn policy(kind: &str) -> Value {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]});
    json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": kind, "metadata": {"name": "p", "namespace": "n"},
        "spec": {
            "module": "registry://registry.example.com/pillion:v1", "mutating": true, "rules": [rule],
            "settings": {"sidecarSets": []},
        },
    })
}

fn with(pointer: &str, value: Value) -> Value {
    let mut policy = policy("ClusterAdmissionPolicy");
    set(&mut policy, pointer, value);
    policy
}

fn set(policy: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match policy.pointer_mut(parent).unwrap() {
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
        object => object[key] = value,
    }
}

/// Returns the errors in a policy, without their places.
fn errors(policy: &Value) -> Vec<String> {
    let found = found(&policy.to_string());
    found.iter().filter_map(|line| Some(line.strip_prefix("error ")?.split_once(' ')?.1.to_owned())).collect()
}

#[rstest]
#[case::settings("/spec/setings", json!({}), "spec.setings: Unknown field \"setings\" -> did you mean \"settings\"?")]
#[case::top("/speck", json!({}), "speck: Unknown field \"speck\" -> did you mean \"spec\"?")]
#[case::a_setting_in_the_wrong_place(
    "/spec/sidecarSets", json!([]),
    "spec.sidecarSets: Unknown field \"sidecarSets\" -> sidecarSets is a setting; write it below spec.settings"
)]
#[case::in_a_rule(
    "/spec/rules/0/apiGroup", json!([]), "spec.rules[0].apiGroup: Unknown field \"apiGroup\" -> did you mean \"apiGroups\"?"
)]
#[case::in_a_selector(
    "/spec/namespaceSelector", json!({"matchLabel": {}}),
    "spec.namespaceSelector.matchLabel: Unknown field \"matchLabel\" -> did you mean \"matchLabels\"?"
)]
#[case::of_a_group("/spec/policies", json!({}), "spec.policies: Unknown field \"policies\" -> only a policy group has this field")]
#[case::mode("/spec/mode", json!("enforce"), "spec.mode: Unsupported value: \"enforce\" -> use one of \"protect\", \"monitor\"")]
#[case::failure_policy(
    "/spec/failurePolicy", json!("fail"),
    "spec.failurePolicy: Unsupported value: \"fail\" -> did you mean \"Fail\"? Supported are \"Fail\", \"Ignore\""
)]
#[case::match_policy(
    "/spec/matchPolicy", json!("Equal"), "spec.matchPolicy: Unsupported value: \"Equal\" -> use one of \"Exact\", \"Equivalent\""
)]
#[case::side_effects(
    "/spec/sideEffects", json!("Some"), "spec.sideEffects: Unsupported value: \"Some\" -> use one of \"None\", \"NoneOnDryRun\""
)]
#[case::operation(
    "/spec/rules/0/operations/0", json!("create"),
    "spec.rules[0].operations[0]: Unsupported value: \"create\" -> did you mean \"CREATE\"? Supported are \"CREATE\", \
     \"UPDATE\", \"DELETE\", \"CONNECT\", \"*\""
)]
#[case::scope(
    "/spec/rules/0/scope", json!("Namespace"),
    "spec.rules[0].scope: Unsupported value: \"Namespace\" -> did you mean \"Namespaced\"? Supported are \"Cluster\", \
     \"Namespaced\", \"*\""
)]
#[case::operator(
    "/spec/objectSelector", json!({"matchExpressions": [{"key": "a", "operator": "Equals", "values": []}]}),
    "spec.objectSelector.matchExpressions[0].operator: Unsupported value: \"Equals\" -> use one of \"In\", \"NotIn\", \
     \"Exists\", \"DoesNotExist\""
)]
#[case::timeout_too_long(
    "/spec/timeoutSeconds", json!(31), "spec.timeoutSeconds: Invalid value: \"31\": must be from 2 to 30 seconds"
)]
#[case::timeout_too_short(
    "/spec/timeoutSeconds", json!(1), "spec.timeoutSeconds: Invalid value: \"1\": must be from 2 to 30 seconds"
)]
#[case::evaluation(
    "/spec/timeoutEvalSeconds", json!(50), "spec.timeoutEvalSeconds: Invalid value: \"50\": must be from 2 to 30 seconds"
)]
#[case::evaluation_longer_than_the_default(
    "/spec/timeoutEvalSeconds", json!(20),
    "spec.timeoutEvalSeconds: Invalid value: \"20\": is more than timeoutSeconds, which is 10 -> lower it, or raise timeoutSeconds"
)]
#[case::seconds_in_quotes(
    "/spec/timeoutSeconds", json!("10"),
    "spec.timeoutSeconds: Invalid value: must be a whole number of seconds, found a string"
)]
#[case::a_flag_in_quotes("/spec/mutating", json!("true"), "spec.mutating: Invalid value: must be true or false, found a string")]
#[case::rules("/spec/rules", json!({}), "spec.rules: Invalid value: must be a list, found an object")]
#[case::label("/spec/objectSelector", json!({"matchLabels": {"a": 1}}), "spec.objectSelector.matchLabels[a]: Invalid value: must be a string, found a number")]
#[case::conditions(
    "/spec/matchConditions", json!([{"name": "a", "expression": "true"}, {"name": "a", "expression": "false"}]),
    "spec.matchConditions[1].name: Duplicate value: \"a\""
)]
#[case::version(
    "/apiVersion", json!("policies.kubewarden.io/v2"),
    "apiVersion: Unsupported value: \"policies.kubewarden.io/v2\" -> did you mean \"policies.kubewarden.io/v1\"? Supported \
     are \"policies.kubewarden.io/v1\", \"policies.kubewarden.io/v1alpha2\""
)]
#[case::kind(
    "/kind", json!("ClusterAdmisionPolicy"),
    "kind: Unsupported value: \"ClusterAdmisionPolicy\" -> did you mean \"ClusterAdmissionPolicy\"? Supported are \
     \"ClusterAdmissionPolicy\", \"AdmissionPolicy\", \"ClusterAdmissionPolicyGroup\", \"AdmissionPolicyGroup\""
)]
fn what_the_api_server_refuses_is_an_error(#[case] pointer: &str, #[case] value: Value, #[case] expected: &str) {
    assert_eq!(errors(&with(pointer, value)), [expected]);
}

#[rstest]
#[case::nothing_more("/spec/message", json!("no"))]
#[case::nothing_set("/spec/failurePolicy", Value::Null)]
#[case::longest("/spec/timeoutSeconds", json!(30))]
#[case::shortest("/spec/timeoutEvalSeconds", json!(2))]
#[case::conditions("/spec/matchConditions", json!([{"name": "a", "expression": "true"}]))]
#[case::inside("/spec/allowInsideAdmissionControllerNamespace", json!(true))]
#[case::status("/status", json!({"policyStatus": "active"}))]
#[case::old_version("/apiVersion", json!("policies.kubewarden.io/v1alpha2"))]
fn what_the_api_server_takes_is_none(#[case] pointer: &str, #[case] value: Value) {
    assert_eq!(errors(&with(pointer, value)), [""; 0]);
}

#[test]
fn too_many_conditions_are_an_error() {
    let condition = |index: usize| json!({"name": format!("c{index}"), "expression": "true"});
    let of = |count: usize| with("/spec/matchConditions", (0..count).map(condition).collect());
    assert_eq!(errors(&of(64)), [""; 0]);
    assert_eq!(
        errors(&of(65)),
        ["spec.matchConditions: Invalid value: \"65\": at most 64 conditions -> join some of them with &&"]
    );
}

#[test]
fn misspelt_settings_are_judged_all_the_same() {
    let found = errors(&with("/spec/setings", json!({"systemNamespace": 5})));
    // Next to `settings`, the field is just another unknown one.
    assert_eq!(found.len(), 1, "{found:#?}");
    let mut alone = with("/spec/setings", json!({"systemNamespace": 5}));
    alone["spec"].as_object_mut().unwrap().remove("settings");
    let found = errors(&alone);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found[1].starts_with("spec.setings.systemNamespace: Invalid value: must be a string"), "{found:#?}");
}

#[test]
fn a_policy_of_one_namespace_has_fewer_fields() {
    let mut policy = policy("AdmissionPolicy");
    for field in ["namespaceSelector", "contextAwareResources", "allowInsideAdmissionControllerNamespace"] {
        set(&mut policy, &format!("/spec/{field}"), json!(null));
    }
    let found = errors(&policy);
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(found.iter().all(|line| line.contains(" -> only a ClusterAdmissionPolicy")), "{found:#?}");
}

#[test]
fn members_of_groups_have_fields_of_their_own() {
    let module = "registry://registry.example.com/pillion:v1";
    let group = json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicyGroup", "metadata": {"name": "g"},
        "spec": {
            "timeoutSeconds": 5, "expression": "a()", "message": "no", "mutating": true,
            "policies": {
                "a": {"module": module, "settings": {"role": "Assert"}, "timeoutEvalSeconds": 8},
                "b": {"module": module, "setings": {}, "contextAwareResources": []},
            },
        },
    });
    assert_eq!(
        errors(&group),
        [
            "spec.mutating: Unknown field \"mutating\" -> only a policy with one module, and a member of a policy group, \
             has this field",
            "spec.policies.a.timeoutEvalSeconds: Invalid value: \"8\": is more than timeoutSeconds, which is 5 -> lower \
             it, or raise timeoutSeconds",
            "spec.policies.b.setings: Unknown field \"setings\" -> did you mean \"settings\"?",
        ]
    );
}
