use rstest::rstest;
use serde_json::{Value, json};

use super::super::Values;
use super::*;
use crate::expression::{Aggregate, ResourcesPolicy};

const KEY: &str = "overrides.pillion.dev/agent";

/// Returns a SidecarSet that lets `agent` be overridden in several ways, with further fields of its rules.
fn set(more: &Value) -> SidecarSet {
    let mut rules = json!({"containers": {"agent": {
        "cpu": {"min": "50m", "max": "1"}, "memory": {"max": "1Gi"}, "env": {"LEVEL": "debug|info", "ANY": ".*"},
        "imageTags": ["1.2", format!("1.3@sha256:{}", "a".repeat(64))],
    }}});
    json_patch_merge(&mut rules, more);
    SidecarSet::from_decoded(json!({
        "metadata": {"name": "s", "annotations": {OVERRIDES: rules.to_string()}},
        "spec": {"containers": [
            {"name": "agent", "image": "example.com:5000/agent:1.1", "env": [
                {"name": "LEVEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "KEPT", "value": "x"},
            ], "resources": {"limits": {"memory": "256Mi"}}},
            {"name": "other", "image": "other:1"},
        ]},
    }))
}

/// RFC 7396, as far as these tests need it.
fn json_patch_merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                json_patch_merge(target.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch.clone(),
    }
}

fn judged(set: &SidecarSet, pod: &Value, namespace: &Value) -> Judged {
    let [pod, namespace] = [pod, namespace].map(|all| move |key: &str| all.get(key).and_then(Value::as_str));
    let rules = Rules::from_sidecar_set(set).unwrap();
    judge(set, rules.as_ref(), &Annotations::new(&pod, &namespace))
}

fn of_pod(more: &Value, asked: &Value) -> Judged {
    judged(&set(more), &json!({KEY: asked.to_string()}), &json!({}))
}

/// Returns each field with its value, or with the problem.
fn shown(judged: &Judged) -> Vec<String> {
    let shown = |one: &Override| match (&one.field, one.value(), one.problem()) {
        (Some(field), Some(value), None) => format!("{field}={value}"),
        (_, Some(value), Some(problem)) => format!("{problem} -> {value}"),
        (_, None, Some(problem)) => problem,
        other => format!("{other:?}"),
    };
    judged.overrides.iter().map(shown).collect()
}

#[rstest]
#[case::amounts(
    json!({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "50m", "memory": "0"}}}),
    &["resources.limits.cpu=1", "resources.limits.memory=1Gi", "resources.requests.cpu=50m", "resources.requests.memory=0"]
)]
#[case::the_same_amount_in_another_form(json!({"resources": {"limits": {"memory": "1024Mi"}}}), &["resources.limits.memory=1Gi"])]
#[case::variables(json!({"env": {"LEVEL": "info", "ANY": ""}}), &["env[ANY]=", "env[LEVEL]=info"])]
#[case::a_tag(json!({"imageTag": "1.2"}), &["imageTag=1.2"])]
#[case::above(
    json!({"resources": {"limits": {"memory": "2Gi"}}}),
    &["of the Pod: resources.limits.memory is 2Gi, the SidecarSet allows up to 1Gi -> 1Gi"]
)]
#[case::below(
    json!({"resources": {"requests": {"cpu": "10m"}}}),
    &["of the Pod: resources.requests.cpu is 10m, the SidecarSet allows 50m to 1 -> 50m"]
)]
#[case::no_limit(
    json!({"resources": {"limits": {"memory": "0"}}}),
    &["of the Pod: resources.limits.memory is no limit, the SidecarSet allows up to 1Gi -> 1Gi"]
)]
#[case::a_request_above_the_limit(
    json!({"resources": {"limits": {"memory": "64Mi"}, "requests": {"memory": "96Mi"}}}),
    &["resources.limits.memory=64Mi", "of the Pod: resources.requests.memory is 96Mi, above the limit 64Mi -> 64Mi"]
)]
#[case::another_value(
    json!({"env": {"LEVEL": "trace"}}),
    &[r#"of the Pod: env[LEVEL] is "trace", which is not of the allowed form debug|info"#]
)]
#[case::a_part_of_the_value(
    json!({"env": {"LEVEL": "info or more"}}),
    &[r#"of the Pod: env[LEVEL] is "info or more", which is not of the allowed form debug|info"#]
)]
#[case::the_value_of_another_variable(
    json!({"env": {"ANY": "x$(SECRET)"}}),
    &["of the Pod: env[ANY] is not allowed, its value must not refer to another variable"]
)]
#[case::another_line(
    json!({"env": {"LEVEL": "info\n"}}),
    &[r#"of the Pod: env[LEVEL] is "info\n", which is not of the allowed form debug|info"#]
)]
#[case::another_variable(
    json!({"env": {"OTHER": "info"}}), &["of the Pod: env[OTHER] is not allowed, the SidecarSet lets nobody change it"]
)]
#[case::another_tag(
    json!({"imageTag": "1.4"}), &[r#"of the Pod: imageTag is "1.4", which is not one of the allowed 1.2, 1.3"#]
)]
#[case::another_image(
    json!({"imageTag": "1.2@sha256:b"}),
    &[r#"of the Pod: imageTag is "1.2@sha256:b", which is not one of the allowed 1.2, 1.3"#]
)]
fn ovr5_what_a_pod_asks_for_is_compared_with_the_bounds(#[case] asked: Value, #[case] expected: &[&str]) {
    assert_eq!(shown(&of_pod(&json!({}), &asked)), expected);
}

#[test]
fn ovr5_a_long_value_is_of_no_form() {
    let found = shown(&of_pod(&json!({}), &json!({"env": {"ANY": "x".repeat(1000)}})));
    assert!(found.len() == 1 && found[0].contains("not of the allowed form"), "{found:?}");
}

#[test]
fn ovr6_the_author_says_what_happens_out_of_bounds() {
    let asked = json!({"resources": {"limits": {"memory": "2Gi"}}, "env": {"LEVEL": "trace"}});
    for (word, expected) in [("Refuse", true), ("Clamp", false)] {
        let judged = of_pod(&json!({"outOfBounds": word}), &asked);
        assert!(judged.overrides.iter().all(|one| one.refuses(judged.out_of_bounds) == expected), "{judged:?}");
    }
    let unreadable = judged(&set(&json!({"outOfBounds": "Clamp"})), &json!({KEY: "1Gi of memory"}), &json!({}));
    assert_eq!(shown(&unreadable), ["of the Pod is no JSON"]);
    assert!(unreadable.overrides[0].refuses(unreadable.out_of_bounds));
}

#[test]
fn ovr4_the_pod_counts_before_istio_and_its_namespace() {
    let istio = json!({"containers": {"agent": {"istioAnnotations": true}}});
    let limit = |amount: &str| json!({"resources": {"limits": {"memory": amount}}}).to_string();
    let pod =
        json!({KEY: limit("64Mi"), "sidecar.istio.io/proxyMemoryLimit": "96Mi", "sidecar.istio.io/proxyCPU": "70m"});
    let namespace = json!({
        KEY: json!({"resources": {"limits": {"memory": "128Mi", "cpu": "90m"}, "requests": {"cpu": "55m"}}}).to_string(),
    });
    let all = judged(&set(&istio), &pod, &namespace);
    let found: Vec<_> = all.overrides.iter().map(|it| (it.by, it.value().unwrap(), it.annotation())).collect();
    assert_eq!(
        found,
        [
            (By::Namespace, "90m", KEY.to_owned()),
            (By::Pod, "64Mi", KEY.to_owned()),
            (By::Istio("sidecar.istio.io/proxyCPU"), "70m", "sidecar.istio.io/proxyCPU".to_owned()),
        ]
    );
    // Without the author's word, Istio's annotations are Istio's alone.
    let found = judged(&set(&json!({})), &json!({"sidecar.istio.io/proxyMemoryLimit": "96Mi"}), &json!({}));
    assert_eq!(found.overrides, []);
}

#[test]
fn ovr4_only_those_count_whom_the_author_names() {
    let asked = json!({KEY: r#"{"env":{"LEVEL":"info"}}"#});
    let found = judged(&set(&json!({"from": ["Pod"]})), &json!({}), &asked);
    assert_eq!(found.overrides, []);
    let found = judged(&set(&json!({"from": ["Namespace"]})), &asked, &json!({}));
    let problem = "of the Pod: env[LEVEL] is not allowed, the SidecarSet lets Namespaces change it, but not Pods";
    assert_eq!(shown(&found), [problem]);
    let found = judged(&set(&json!({"from": ["Namespace"]})), &json!({}), &asked);
    assert_eq!(shown(&found), ["env[LEVEL]=info"]);
    // A Pod that must not ask does not undo what its Namespace asks for.
    let of_pod = json!({KEY: r#"{"env":{"LEVEL":"debug"}}"#});
    let mut set = set(&json!({"from": ["Namespace"], "outOfBounds": "Clamp"}));
    Values::from(&judged(&set, &of_pod, &asked)).apply_to(&mut set);
    assert_eq!(set.as_value()["spec"]["containers"][0]["env"][0], json!({"name": "LEVEL", "value": "info"}));
}

#[test]
fn ovr7_a_set_without_rules_ignores_overrides() {
    let mut plain = set(&json!({}));
    plain.as_value_mut()["metadata"]["annotations"] = json!({});
    let asked = json!({KEY: "anything"});
    let found = judged(&plain, &asked, &asked);
    assert_eq!(shown(&found), ["of the Pod has no effect, the SidecarSet allows no overrides"]);
    assert!(!found.overrides[0].refuses(found.out_of_bounds));
}

#[test]
fn ovr5_a_container_without_rules_is_not_overridden() {
    let found = judged(&set(&json!({})), &json!({"overrides.pillion.dev/other": r#"{"imageTag":"1.2"}"#}), &json!({}));
    assert_eq!(shown(&found), ["of the Pod: imageTag is not allowed, the SidecarSet lets nobody change it"]);
    // A container of another SidecarSet, or of the Pod, is none of its business.
    let found = judged(&set(&json!({})), &json!({"overrides.pillion.dev/app": "{}"}), &json!({}));
    assert_eq!(found.overrides, []);
}

#[test]
fn ovr8_overrides_change_nothing_else() {
    let original = set(&json!({}));
    let asked = json!({
        "resources": {"limits": {"memory": "512Mi"}, "requests": {"cpu": "100m"}}, "env": {"LEVEL": "debug", "ANY": "y"},
        "imageTag": "1.3",
    });
    let mut overridden = original.clone();
    Values::from(&of_pod(&json!({}), &asked)).apply_to(&mut overridden);
    let mut expected = original.as_value().clone();
    expected["spec"]["containers"][0] = json!({
        "name": "agent", "image": format!("example.com:5000/agent:1.3@sha256:{}", "a".repeat(64)),
        "env": [{"name": "LEVEL", "value": "debug"}, {"name": "KEPT", "value": "x"}, {"name": "ANY", "value": "y"}],
        "resources": {"limits": {"memory": "512Mi"}, "requests": {"cpu": "100m"}},
    });
    assert_eq!(*overridden.as_value(), expected);
    let mut same = original.clone();
    Values::from(&of_pod(&json!({}), &json!({"env": {"LEVEL": "trace"}}))).apply_to(&mut same);
    assert_eq!(same.as_value(), original.as_value());
}

#[test]
fn ovr8_an_amount_takes_the_place_of_an_expression() {
    let mut original = set(&json!({}));
    let policy =
        json!({"targetContainersMode": "sum", "resourcesExpr": {"limits": {"cpu": "cpu*2", "memory": "memory"}}});
    original.as_value_mut()["spec"]["containers"][0]["resourcesPolicy"] = policy;
    let asked = json!({KEY: r#"{"resources":{"limits":{"cpu":"0.25"},"requests":{"memory":"64Mi"}}}"#});
    let judged = judged(&original, &asked, &json!({}));
    Values::from(&judged).apply_to(&mut original);
    assert_eq!(
        original.as_value()["spec"]["containers"][0]["resourcesPolicy"]["resourcesExpr"],
        json!({"limits": {"cpu": "250m", "memory": "max(memory, 64Mi)"}, "requests": {"memory": "64Mi"}})
    );
}

#[rstest]
#[case::a_lower_limit("limits", "32Mi", ["32Mi", "32Mi"])]
#[case::a_limit_above_the_request("limits", "512Mi", ["512Mi", "64Mi"])]
#[case::a_higher_request("requests", "512Mi", ["512Mi", "512Mi"])]
#[case::a_request_below_the_limit("requests", "96Mi", ["256Mi", "96Mi"])]
fn ovr8_a_limit_takes_its_request_along_and_the_other_way_round(
    #[case] section: &str,
    #[case] amount: &str,
    #[case] expected: [&str; 2],
    #[values(false, true)] is_computed: bool,
) {
    let mut original = set(&json!({}));
    let container = &mut original.as_value_mut()["spec"]["containers"][0];
    let amounts = json!({"limits": {"memory": "256Mi"}, "requests": {"memory": "64Mi"}});
    let path = if is_computed {
        container["resourcesPolicy"] = json!({"targetContainersMode": "sum", "resourcesExpr": amounts});
        "resourcesPolicy"
    } else {
        container["resources"] = amounts;
        "resources"
    };
    let asked = json!({KEY: json!({"resources": {section: {"memory": amount}}}).to_string()});
    Values::from(&judged(&original, &asked, &json!({}))).apply_to(&mut original);
    let value = &original.as_value()["spec"]["containers"][0][path];
    let resources = if is_computed {
        ResourcesPolicy::from_json(value).unwrap().evaluate(&Aggregate::default()).unwrap()
    } else {
        value.clone()
    };
    assert_eq!(["limits", "requests"].map(|section| resources[section]["memory"].as_str().unwrap()), expected);
}

#[test]
fn e18_many_overrides_are_too_much_work() {
    let names: Vec<String> = (0..40).map(|number| format!("V{number}")).collect();
    let env: Value = names.iter().map(|name| (name.clone(), Value::from("(a|b|c){0,200}c"))).collect();
    let asked: Value = names.iter().map(|name| (name.clone(), Value::from("abc".repeat(20)))).collect();
    let judged = of_pod(&json!({"containers": {"agent": {"env": env}}}), &json!({"env": asked}));
    assert_eq!(judged.overrides.len(), 40);
    assert!(shown(&judged).iter().any(|text| text.contains("too much work")));
}
