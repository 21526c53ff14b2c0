//! Pods and Namespaces that override parts of their sidecars, through the built module (docs/spec/overrides.md).

use rstest::rstest;
use serde_json::{Value, json};

use crate::support::identity::{admit_in as admit, web_pod as pod};

const AGENT: &str = "overrides.pillion.dev/agent";

/// `agent-set`, of which Pods and Namespaces may override the memory and a variable, with an identity of its own; and
/// `scan`, which allows nothing.
fn sets(out_of_bounds: &str) -> [Value; 2] {
    let set = |name: &str, annotations: Value, container: Value| {
        json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}}, "serviceAccountName": "agent",
                "containers": [container],
            },
        })
    };
    let rules = json!({
        "outOfBounds": out_of_bounds,
        "containers": {"agent": {"memory": {"min": "64Mi", "max": "1Gi"}, "env": {"LEVEL": "debug|info"}, "imageTags": ["2"]}},
    });
    let after = "AfterAppContainer";
    let agent = json!({
        "name": "agent", "image": "example.com/agent:1", "podInjectPolicy": after,
        "resources": {"limits": {"memory": "128Mi"}}, "env": [{"name": "LEVEL", "value": "info"}],
    });
    let scan = json!({"name": "scan", "image": "scan:1", "podInjectPolicy": after});
    [set("agent-set", json!({"pillion.dev/overrides": rules.to_string()}), agent), set("scan", json!({}), scan)]
}

/// Returns the memory, the level and the image of a container.
fn shown(pod: &Value, name: &str) -> [String; 3] {
    let containers = pod["spec"]["containers"].as_array().unwrap();
    let container = containers.iter().find(|one| one["name"] == name).unwrap();
    let level = container["env"].as_array().unwrap().iter().find(|one| one["name"] == "LEVEL");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    [
        text(&container["resources"]["limits"]["memory"]),
        level.map(|one| text(&one["value"])).unwrap_or_default(),
        text(&container["image"]),
    ]
}

#[rstest]
#[case::nobody(json!({}), json!({}), ["128Mi", "info", "example.com/agent:1"], None)]
#[case::the_pod(
    json!({AGENT: r#"{"resources":{"limits":{"memory":"512Mi"}},"env":{"LEVEL":"debug"},"imageTag":"2"}"#}), json!({}),
    ["512Mi", "debug", "example.com/agent:2"],
    Some("agent-set/agent:resources.limits.memory,agent-set/agent:env[LEVEL],agent-set/agent:imageTag")
)]
#[case::the_namespace(
    json!({}), json!({AGENT: r#"{"env":{"LEVEL":"debug"}}"#}),
    ["128Mi", "debug", "example.com/agent:1"], Some("agent-set/agent:env[LEVEL]")
)]
#[case::both(
    json!({AGENT: r#"{"env":{"LEVEL":"info"}}"#}), json!({AGENT: r#"{"env":{"LEVEL":"debug"},"imageTag":"2"}"#}),
    ["128Mi", "info", "example.com/agent:2"], Some("agent-set/agent:env[LEVEL],agent-set/agent:imageTag")
)]
fn ovr4_ovr8_a_sidecar_is_overridden_and_the_answer_says_so(
    #[case] annotations: Value,
    #[case] namespace: Value,
    #[case] expected: [&str; 3],
    #[case] audit: Option<&str>,
) {
    let answer = admit(&pod(&annotations), &namespace, &sets("Refuse"), "Inject");
    let injected = answer.mutated_object.unwrap();
    assert_eq!(shown(&injected, "agent"), expected);
    assert_eq!(shown(&injected, "scan"), ["", "", "scan:1"]);
    let found = answer.audit_annotations.unwrap();
    assert_eq!(found.get("overridden-sidecars").map(String::as_str), audit);
    assert!(answer.warnings.is_none_or(|all| all.is_empty()));
    // A second admission changes nothing, and the twin accepts.
    let again = admit(&injected, &namespace, &sets("Refuse"), "Inject");
    assert!(again.accepted && again.mutated_object.is_none(), "{again:?}");
    let twin = admit(&injected, &namespace, &sets("Refuse"), "Assert");
    assert!(twin.accepted, "{:?}", twin.message);
}

#[rstest]
#[case::too_much(
    r#"{"resources":{"limits":{"memory":"2Gi"}}}"#,
    "resources.limits.memory is 2Gi, the SidecarSet allows 64Mi to 1Gi"
)]
#[case::a_command(r#"{"command":["sh"]}"#, "cannot be read: command: unknown field `command`")]
#[case::an_account(r#"{"serviceAccountName":"admin"}"#, "cannot be read: serviceAccountName: unknown field")]
#[case::a_mount(r#"{"volumeMounts":[]}"#, "cannot be read: volumeMounts: unknown field")]
#[case::a_security_context(
    r#"{"securityContext":{"privileged":true}}"#,
    "cannot be read: securityContext: unknown field"
)]
#[case::a_whole_image(r#"{"imageTag":"2/../evil:1"}"#, "is not one of the allowed 2")]
#[case::another_variable(r#"{"env":{"LD_PRELOAD":"/evil.so"}}"#, "env[LD_PRELOAD] is not allowed")]
#[case::a_secret_in_a_variable(r#"{"env":{"LEVEL":"$(TOKEN)"}}"#, "must not refer to another variable")]
fn ovr6_what_the_author_does_not_allow_is_refused(#[case] asked: &str, #[case] problem: &str) {
    let answer = admit(&pod(&json!({AGENT: asked})), &json!({}), &sets("Refuse"), "Inject");
    let message = answer.message.unwrap_or_default();
    assert!(!answer.accepted && message.contains(problem), "{message}");
    assert!(message.contains("agent-set") && message.contains(AGENT), "{message}");
}

#[test]
fn ovr6_the_author_may_clamp_instead() {
    let asked = json!({AGENT: r#"{"resources":{"limits":{"memory":"2Gi"}},"env":{"LEVEL":"trace"}}"#});
    let answer = admit(&pod(&asked), &json!({}), &sets("Clamp"), "Inject");
    let injected = answer.mutated_object.unwrap();
    assert_eq!(shown(&injected, "agent"), ["1Gi", "info", "example.com/agent:1"]);
    assert_eq!(answer.warnings.unwrap().len(), 2);
    let twin = admit(&injected, &json!({}), &sets("Clamp"), "Assert");
    assert!(twin.accepted, "{:?}", twin.message);
    assert!(twin.warnings.is_none_or(|all| all.is_empty()));
}

/// Attack: an override for a container of a SidecarSet that allows nothing, and for one of the app.
#[test]
fn ovr7_an_override_reaches_no_other_container() {
    let asked = json!({
        "overrides.pillion.dev/scan": r#"{"imageTag":"2","env":{"LEVEL":"debug"}}"#,
        "overrides.pillion.dev/app": r#"{"imageTag":"2"}"#,
    });
    let answer = admit(&pod(&asked), &json!({}), &sets("Refuse"), "Inject");
    let injected = answer.mutated_object.unwrap();
    assert_eq!(shown(&injected, "scan"), ["", "", "scan:1"]);
    assert_eq!(injected["spec"]["containers"][0], json!({"name": "app", "image": "nginx:1"}));
    assert_eq!(answer.warnings.unwrap().len(), 2);
}

/// Attack: a webhook that runs later writes an annotation that admission would have refused.
#[rstest]
#[case::out_of_bounds(r#"{"imageTag":"3"}"#)]
#[case::unreadable(r#"{"command":["sh"]}"#)]
fn ovr6_the_twin_refuses_what_is_not_allowed(#[case] asked: &str) {
    let mut injected = admit(&pod(&json!({})), &json!({}), &sets("Refuse"), "Inject").mutated_object.unwrap();
    injected["metadata"]["annotations"][AGENT] = asked.into();
    let twin = admit(&injected, &json!({}), &sets("Refuse"), "Assert");
    assert!(!twin.accepted && twin.message.unwrap().contains(AGENT));
}

/// Attack: a manifest brings the sidecar with a value that its annotation does not ask for.
#[test]
fn ovr8_a_sidecar_that_a_manifest_brings_is_replaced() {
    let mut brought = admit(&pod(&json!({})), &json!({}), &sets("Refuse"), "Inject").mutated_object.unwrap();
    brought["spec"]["containers"][1]["image"] = "example.com/agent:2".into();
    let answer = admit(&brought, &json!({}), &sets("Refuse"), "Inject");
    assert_eq!(shown(&answer.mutated_object.unwrap(), "agent"), ["128Mi", "info", "example.com/agent:1"]);
}

/// Attack: another SidecarSet writes the annotation into the Pods that it matches.
#[test]
fn ovr9_a_sidecar_set_overrides_no_sidecar_of_another() {
    let [agent, mut scan] = sets("Refuse");
    scan["spec"]["patchPodMetadata"] =
        json!([{"patchPolicy": "Overwrite", "annotations": {AGENT: r#"{"imageTag":"2"}"#}}]);
    let answer = admit(&pod(&json!({})), &json!({}), &[agent, scan], "Inject");
    let message = answer.message.unwrap_or_default();
    assert!(!answer.accepted && message.contains("no SidecarSet overrides a sidecar"), "{message}");
}
