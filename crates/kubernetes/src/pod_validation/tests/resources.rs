use rstest::rstest;
use serde_json::{Value, json};

use super::{assert_paths, of_container, under};

fn check(resources: &Value, expected: &str) {
    assert_paths(&of_container(&json!({"resources": resources})), &under("resources", expected), resources);
}

#[rstest]
#[case("cpu", "")]
#[case("memory", "")]
#[case("ephemeral-storage", "")]
#[case("example.com/gpu", "")]
#[case("kubernetes.io/x", "")]
#[case("storage", "limits[storage]")]
#[case("pods", "limits[pods]")]
#[case("requests.cpu", "limits[requests.cpu]")]
#[case("attachable-volumes-x", "limits[attachable-volumes-x]")]
#[case("gpu", "limits[gpu]")]
#[case("/a", "limits[/a]")]
#[case("a/b/c", "limits[a/b/c]")]
#[case("requests.a/b", "limits[requests.a/b]")]
#[case("Ex.com/a", "limits[Ex.com/a]")]
#[case("hugepages-2Mi", ".")]
#[case("hugepages-", ". limits[hugepages-]")]
fn val12_names_of_resources(#[case] name: &str, #[case] expected: &str) {
    check(&json!({"limits": {name: "2"}}), expected);
}

#[test]
fn val12_the_name_of_a_resource_leaves_room_for_the_quota_prefix() {
    let label = "a".repeat(60);
    let fine = format!("{}.{}/x", [label.as_str(); 3].join("."), "a".repeat(61));
    let long = format!("{}.{}/x", [label.as_str(); 3].join("."), "a".repeat(62));
    check(&json!({"limits": {fine: "2"}}), "");
    check(&json!({"limits": {long.clone(): "2"}}), &format!("limits[{long}]"));
}

#[rstest]
#[case(json!({"limits": {"cpu": "-1"}}), "limits[cpu]")]
#[case(json!({"requests": {"cpu": "-1m"}}), "requests[cpu]")]
#[case(json!({"limits": {"cpu": "500m", "memory": "1.5"}}), "")]
#[case(json!({"limits": {"example.com/gpu": "500m"}}), "limits[example.com/gpu]")]
#[case(json!({"limits": {"example.com/gpu": "1000m"}}), "")]
#[case(json!({"limits": {"example.com/gpu": "1.9999"}}), "")]
#[case(json!({"limits": {"example.com/gpu": "0.0001"}}), "limits[example.com/gpu]")]
#[case(json!({"limits": {"example.com/gpu": "9E"}}), "")]
#[case(json!({"requests": {"cpu": 1}, "limits": {"cpu": 2}}), "")]
#[case(json!({"requests": {"cpu": "2"}, "limits": {"cpu": "2000m"}}), "")]
#[case(json!({"requests": {"cpu": "3"}, "limits": {"cpu": "2"}}), "requests")]
#[case(json!({"requests": {"memory": "1Gi"}, "limits": {"memory": "1G"}}), "requests")]
#[case(json!({"requests": {"cpu": "3"}, "limits": {"memory": "2"}}), "")]
#[case(json!({"requests": {"example.com/gpu": "1"}}), "limits")]
#[case(json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}), "")]
#[case(json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "2"}}), "requests")]
#[case(json!({"requests": {"hugepages-2Mi": "2Mi", "cpu": "1"}}), "limits")]
#[case(json!({"requests": {"hugepages-2Mi": "2Mi", "cpu": "1"}, "limits": {"hugepages-2Mi": "2Mi"}}), "")]
#[case(json!({"requests": {"cpu": "1"}, "limits": {"hugepages-2Mi": "3"}}), "")]
#[case(json!({"limits": {"hugepages-2Mi": "2Mi"}}), ".")]
#[case(json!({"limits": {"hugepages-2Mi": "2Mi", "ephemeral-storage": "1"}}), ".")]
fn val12_amounts(#[case] resources: Value, #[case] expected: &str) {
    check(&resources, expected);
}

#[rstest]
#[case(json!([{"name": "a"}]), "claims[0]")]
#[case(json!([{}]), "claims[0]")]
#[case(json!([{"name": "a", "request": "A"}]), "claims[0] claims[0].request")]
#[case(json!([{"name": "a"}, {"name": "a", "request": "A"}]), "claims[0] claims[1]")]
fn val12_a_sidecar_has_nothing_to_claim(#[case] claims: Value, #[case] expected: &str) {
    check(&json!({"claims": claims}), expected);
}

#[rstest]
#[case(&["a", "a"], 1)]
#[case(&["a/x", "a/y"], 0)]
#[case(&["a/x", "a/x"], 1)]
#[case(&["a/x", "a"], 1)]
#[case(&["a", "a/x"], 1)]
#[case(&["a", "b"], 0)]
fn val12_claims_do_not_overlap(#[case] claims: &[&str], #[case] duplicates: usize) {
    let claims: Vec<Value> = claims
        .iter()
        .map(|claim| match claim.split_once('/') {
            Some((name, request)) => json!({"name": name, "request": request}),
            None => json!({"name": claim}),
        })
        .collect();
    let container = super::with("c", &json!({"resources": {"claims": claims}}));
    let errors = super::super::validate(&[], &[container], &[]);
    assert_eq!(errors.iter().filter(|error| error.cause == crate::field::Cause::Duplicate).count(), duplicates);
}

#[rstest]
#[case(json!([{"resourceName": "cpu", "restartPolicy": "NotRequired"}]), "")]
#[case(json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]), "")]
#[case(json!([{"resourceName": "x", "restartPolicy": "NotRequired"}]), "resizePolicy")]
#[case(json!([{"resourceName": "cpu", "restartPolicy": "x"}]), "resizePolicy")]
#[case(json!([{}]), "resizePolicy")]
#[case(
    json!([
        {"resourceName": "cpu", "restartPolicy": "NotRequired"},
        {"resourceName": "cpu", "restartPolicy": "NotRequired"},
    ]),
    "resizePolicy[1]"
)]
fn val12_resize_policies(#[case] policies: Value, #[case] expected: &str) {
    assert_paths(&of_container(&json!({"resizePolicy": policies})), expected, &policies);
}
