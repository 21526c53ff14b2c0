//! Pods and Namespaces that leave a SidecarSet out, through the built module (docs/spec/opt-out.md).

use rstest::rstest;
use serde_json::{Value, json};

use crate::support::identity::{admit_in as admit, web_pod as pod};

const OPT_OUT_OF: &str = "pillion.dev/opt-out-of";

/// Two SidecarSets with a ServiceAccount. Pods may leave out `log`, and not `scan`.
fn sets() -> [Value; 2] {
    let set = |name: &str, annotations: Value| {
        json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}}, "serviceAccountName": "agent",
                "containers": [{"name": name, "image": "agent:1", "podInjectPolicy": "AfterAppContainer"}],
            },
        })
    };
    [set("log", json!({"pillion.dev/opt-out": "Allowed"})), set("scan", json!({}))]
}

fn containers(pod: &Value) -> Vec<&str> {
    pod["spec"]["containers"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
}

#[rstest]
#[case::nobody_asks(json!({}), json!({}), &["app", "log", "scan"], None)]
#[case::the_pod(json!({OPT_OUT_OF: "log"}), json!({}), &["app", "scan"], Some("Pod"))]
#[case::the_namespace(json!({}), json!({OPT_OUT_OF: "log"}), &["app", "scan"], Some("Namespace"))]
fn opt2_opt4_a_set_is_left_out_and_the_answer_says_so(
    #[case] annotations: Value,
    #[case] namespace: Value,
    #[case] expected: &[&str],
    #[case] by: Option<&str>,
) {
    let answer = admit(&pod(&annotations), &namespace, &sets(), "Inject");
    let injected = answer.mutated_object.unwrap();
    assert_eq!(containers(&injected), expected);
    let audit = answer.audit_annotations.unwrap();
    assert_eq!(audit.get("opted-out-sidecarsets").map(String::as_str), by.map(|_| "log"));
    let told = by.map(|by| format!("SidecarSet \"log\" is left out: the annotation {OPT_OUT_OF} of the {by} names it"));
    let warnings = answer.warnings.unwrap_or_default();
    assert_eq!(warnings.iter().find(|warning| warning.contains("opt-out")), told.as_ref());
    // The twin asks the same.
    let twin = admit(&injected, &namespace, &sets(), "Assert");
    assert!(twin.accepted, "{:?}", twin.message);
    assert!(twin.warnings.is_none_or(|all| all.is_empty()));
}

#[rstest]
#[case::of_the_pod(json!({OPT_OUT_OF: "scan, log"}), json!({}), true)]
#[case::of_the_namespace(json!({OPT_OUT_OF: "log"}), json!({OPT_OUT_OF: "scan"}), false)]
fn opt2_an_opt_out_of_a_mandatory_set_is_in_vain(
    #[case] annotations: Value,
    #[case] namespace: Value,
    #[case] is_told: bool,
) {
    let answer = admit(&pod(&annotations), &namespace, &sets(), "Inject");
    let injected = answer.mutated_object.unwrap();
    assert_eq!(containers(&injected), ["app", "scan"]);
    let told = "SidecarSet \"scan\" is injected although the annotation pillion.dev/opt-out-of of the Pod names it: it \
                does not allow that; ask its author for the annotation pillion.dev/opt-out: Allowed, or remove the name";
    assert_eq!(answer.warnings.unwrap().iter().any(|warning| warning == told), is_told);
}

#[test]
fn opt4_a_pod_without_any_sidecar_is_in_the_audit_event_too() {
    let [log, _] = sets();
    let answer = admit(&pod(&json!({OPT_OUT_OF: "log"})), &json!({}), &[log], "Inject");
    assert!(answer.accepted && answer.mutated_object.is_none(), "{answer:?}");
    assert_eq!(answer.audit_annotations.unwrap()["opted-out-sidecarsets"], "log");
    assert_eq!(answer.warnings.unwrap().len(), 1);
}

/// Attack: a Pod leaves the set out and brings the set's container itself, to get its identity unseen or to run another
/// image in its name.
#[rstest]
#[case::a_container_with_its_name(json!({}), true)]
#[case::the_token_secret(json!({"volumes": [{"name": "t", "secret": {"secretName": "sidecarset-token-0123456789abcdef"}}]}), false)]
fn opt5_who_leaves_a_set_out_gets_nothing_of_it(#[case] parts: Value, #[case] is_accepted: bool) {
    let mut pod = pod(&json!({OPT_OUT_OF: "log"}));
    pod["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "log", "image": "evil:1"}));
    for (key, value) in parts.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    let [log, _] = sets();
    let answer = admit(&pod, &json!({}), &[log], "Inject");
    assert_eq!(answer.accepted, is_accepted, "{answer:?}");
    assert!(answer.mutated_object.is_none());
}
