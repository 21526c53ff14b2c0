//! Regular expressions at the limit of the allowed cost (E18), on the released module.

use pillion_bench::objects::Objects;
use pillion_fuzz::cost::judge;
use rstest::rstest;
use serde_json::{Value, json};

use super::surveyed;

/// Returns a Pod whose containers the policy has to compare with the expression of a sidecar.
fn payload(expression: &str, containers: usize) -> Value {
    let name = |index: usize| format!("{}{index:02}", "a".repeat(61));
    let containers: Vec<Value> = (0..containers).map(|index| json!({"name": name(index), "image": "i:1"})).collect();
    json!({
        "settings": {"sidecarSets": [{
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "s"},
            "spec": {
                "selector": {"matchLabels": {"app": "a"}},
                "containers": [{"name": "c", "image": "i:1", "resourcesPolicy": {
                    "targetContainersMode": "sum", "targetContainersNameRegex": expression,
                    "resourcesExpr": {"limits": {"cpu": "cpu*50%"}},
                }}],
            },
        }]},
        "request": {
            "uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "name": "p", "namespace": "n", "operation": "CREATE", "userInfo": {"username": "u"},
            "object": {
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "p", "namespace": "n", "labels": {"app": "a"}},
                "spec": {"containers": containers},
            },
        },
    })
}

/// The largest expressions, with as many names as one request may compare: no answer costs more than the limit of any
/// input.
#[rstest]
#[case::optional_letters("^(?:a?a?){1000}b$")]
#[case::letters_in_any_case("(?i)^(?:a?a?){1000}b$")]
#[case::classes("(?:[a-cx-z0-9]{1,500}){2}b")]
#[case::nested_stars("(?:(?:(?:a*)*b?){1000}(?:a*)*)*$c")]
#[case::alternatives("(?:(?:a|b|aa|ab|a|b){1,250}){1,2}c")]
#[case::boundaries("(?:\\b?\\B?a?){900}c")]
fn e18_expressions_take_no_more_than_any_input_may(#[case] expression: &str) {
    let Some((counter, _)) = surveyed() else { return };
    let (mut most, mut refused) = (0, false);
    for containers in [1, 2, 4, 8, 16, 32] {
        let text = payload(expression, containers).to_string();
        let counts = counter.count("validate", text.as_bytes(), &Objects::default()).unwrap();
        let answer = String::from_utf8(counts.answer).unwrap();
        assert!(!answer.contains("too large"), "{answer}");
        refused |= answer.contains("too much work");
        most = most.max(counts.call);
    }
    assert!(refused, "the limit was not reached");
    assert!(most < judge::BOUNDS.instructions, "{most} instructions");
}
