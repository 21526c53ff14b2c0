use rstest::rstest;
use serde_json::{Value, json};

use super::{assert_paths, of_container, paths, under, with};

fn of_variable(variable: &Value, expected: &str) {
    let found = of_container(&json!({"env": [variable]}));
    assert_paths(&found, &under("env[0]", expected), variable);
}

#[rstest]
#[case("A", "")]
#[case("a.b-C_9", "")]
#[case("-x", "")]
#[case("", "name")]
#[case("9A", "name")]
#[case("A B", "name")]
#[case("A=B", "name")]
#[case("..A", "name")]
#[case("é", "name")]
fn val12_names_of_variables_follow_the_strict_rule(#[case] name: &str, #[case] expected: &str) {
    of_variable(&json!({"name": name, "value": "x"}), expected);
}

#[rstest]
#[case("metadata.name", "")]
#[case("metadata.uid", "")]
#[case("spec.host", "")]
#[case("spec.nodeName", "")]
#[case("spec.serviceAccountName", "")]
#[case("status.hostIPs", "")]
#[case("status.podIPs", "")]
#[case("metadata.labels['a']", "")]
#[case("metadata.annotations['Ex.com/A']", "")]
#[case("metadata.labels['Ex.com/A']", "valueFrom.fieldRef")]
#[case("metadata.labels['']", "valueFrom.fieldRef")]
#[case("metadata.annotations['a b']", "valueFrom.fieldRef")]
#[case("metadata.name['a']", "valueFrom.fieldRef.fieldPath")]
#[case("metadata.labels", "valueFrom.fieldRef.fieldPath")]
#[case("metadata.labels['a", "valueFrom.fieldRef.fieldPath")]
#[case("['a']", "valueFrom.fieldRef.fieldPath")]
#[case("spec.restartPolicy", "valueFrom.fieldRef.fieldPath")]
#[case("status.phase", "valueFrom.fieldRef.fieldPath")]
#[case("spec.x", "valueFrom.fieldRef.fieldPath")]
#[case("", "valueFrom.fieldRef.fieldPath")]
fn val12_fields_for_variables(#[case] field_path: &str, #[case] expected: &str) {
    let reference = json!({"apiVersion": "v1", "fieldPath": field_path});
    of_variable(&json!({"name": "A", "valueFrom": {"fieldRef": reference}}), expected);
}

#[rstest]
#[case(json!({"fieldPath": "metadata.name"}), "valueFrom.fieldRef.apiVersion")]
#[case(json!({"apiVersion": "v2", "fieldPath": "metadata.name"}), "valueFrom.fieldRef.fieldPath")]
#[case(json!({"apiVersion": "v1"}), "valueFrom.fieldRef.fieldPath")]
fn val12_versions_of_field_references(#[case] reference: Value, #[case] expected: &str) {
    of_variable(&json!({"name": "A", "valueFrom": {"fieldRef": reference}}), expected);
}

#[rstest]
#[case(json!({"volumeName": "v0", "path": "p", "key": "K"}), "valueFrom.fileKeyRef.volumeName")]
#[case(json!({"volumeName": "V", "path": "p", "key": "K"}), "valueFrom.fileKeyRef.volumeName")]
#[case(json!({"volumeName": "v0", "key": "-"}), "valueFrom.fileKeyRef.path valueFrom.fileKeyRef.volumeName")]
#[case(json!({}), "valueFrom.fileKeyRef.key valueFrom.fileKeyRef.path valueFrom.fileKeyRef.volumeName")]
fn val12_diff38_variables_from_files(#[case] reference: Value, #[case] expected: &str) {
    of_variable(&json!({"name": "A", "valueFrom": {"fileKeyRef": reference}}), expected);
}

#[test]
fn val12_diff38_the_volume_of_a_variable_from_a_file_is_there() {
    let reference = json!({"volumeName": "v", "path": "p", "key": "K", "optional": true});
    let container = with("a", &json!({"env": [{"name": "A", "valueFrom": {"fileKeyRef": reference}}]}));
    let volumes = [json!({"name": "v", "emptyDir": {}})];
    assert_eq!(paths(&[], &[container], &volumes), [""; 0]);
}

#[rstest]
#[case(json!({"resource": "limits.cpu"}), "")]
#[case(json!({"resource": "limits.cpu", "divisor": "0"}), "")]
#[case(json!({"resource": "limits.cpu", "divisor": "1m"}), "")]
#[case(json!({"resource": "limits.cpu", "divisor": "1000m"}), "")]
#[case(json!({"resource": "limits.cpu", "divisor": 1}), "")]
#[case(json!({"resource": "limits.cpu", "divisor": "10m"}), "divisor")]
#[case(json!({"resource": "requests.cpu", "divisor": "1k"}), "divisor")]
#[case(json!({"resource": "requests.memory", "divisor": "1Mi"}), "")]
#[case(json!({"resource": "requests.memory", "divisor": "1024Ki"}), "")]
#[case(json!({"resource": "requests.memory", "divisor": "1000"}), "")]
#[case(json!({"resource": "requests.memory", "divisor": "1024"}), "divisor")]
#[case(json!({"resource": "requests.memory", "divisor": "2Mi"}), "divisor")]
#[case(json!({"resource": "limits.ephemeral-storage", "divisor": "1m"}), "divisor")]
#[case(json!({"resource": "limits.hugepages-2Mi", "divisor": "1Gi"}), "")]
#[case(json!({"resource": "limits.hugepages-2Mi", "divisor": "3"}), "divisor")]
#[case(json!({"resource": "requests.hugepages-"}), "")]
#[case(json!({"resource": "cpu", "divisor": "3"}), "resource")]
#[case(json!({"resource": "limits.nvidia.com/gpu"}), "resource")]
#[case(json!({}), "resource")]
fn val12_resources_for_variables(#[case] reference: Value, #[case] expected: &str) {
    let expected = under("valueFrom.resourceFieldRef", expected);
    of_variable(&json!({"name": "A", "valueFrom": {"resourceFieldRef": reference}}), &expected);
}

#[rstest]
#[case(json!({"name": "a.b", "key": "..k"}), "key")]
#[case(json!({"name": "a.b", "key": "k_.-"}), "")]
#[case(json!({"name": "a.b", "key": "a/b"}), "key")]
#[case(json!({"name": "a.b"}), "key")]
#[case(json!({"key": "k"}), "name")]
#[case(json!({"name": "A", "key": "k"}), "name")]
#[case(json!({"name": "a-", "key": "k"}), "name")]
fn val12_keys_of_objects(#[case] reference: Value, #[case] expected: &str) {
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        let expected = under(&format!("valueFrom.{kind}"), expected);
        of_variable(&json!({"name": "A", "valueFrom": {kind: reference}}), &expected);
    }
}

#[rstest]
#[case(json!({"name": "A", "valueFrom": {}}), "valueFrom")]
#[case(json!({"name": "A", "value": "x", "valueFrom": {}}), "valueFrom")]
#[case(json!({"name": "A", "value": "", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}), "")]
#[case(json!({"name": "A", "value": "x", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}), "valueFrom")]
#[case(
    json!({"name": "A", "valueFrom": {
        "secretKeyRef": {"name": "s", "key": "k"},
        "configMapKeyRef": {"name": "s", "key": "k"},
    }}),
    "valueFrom"
)]
fn val12_a_variable_has_one_source(#[case] variable: Value, #[case] expected: &str) {
    of_variable(&variable, expected);
}

#[rstest]
#[case(json!({"configMapRef": {"name": "a"}}), "")]
#[case(json!({"secretRef": {"name": "a"}, "prefix": "P_"}), "")]
#[case(json!({"secretRef": {"name": "a"}, "prefix": "9"}), "envFrom[0].prefix")]
#[case(json!({"secretRef": {}}), "envFrom[0].secretRef.name")]
#[case(json!({"configMapRef": {"name": "A"}}), "envFrom[0].configMapRef.name")]
#[case(json!({"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}}), "envFrom")]
#[case(json!({"prefix": "P"}), "envFrom")]
// Kubernetes checks these names as prefixes.
#[case(json!({"configMapRef": {"name": "a-"}}), "")]
#[case(json!({"configMapRef": {"name": "a--"}}), "")]
#[case(json!({"configMapRef": {"name": "a_-"}}), "")]
#[case(json!({"configMapRef": {"name": "-"}}), "envFrom[0].configMapRef.name")]
#[case(json!({"configMapRef": {"name": "é-"}}), "envFrom[0].configMapRef.name")]
fn val12_env_from(#[case] source: Value, #[case] expected: &str) {
    assert_paths(&of_container(&json!({"envFrom": [source]})), expected, &source);
}
