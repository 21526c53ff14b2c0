use pillion_kubernetes::field::{Cause, FieldError, FieldPath};
use pillion_kubernetes::json::MAX_DEPTH;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn decoded(mut value: Value) -> (Value, Vec<FieldError>) {
    let mut errors = Vec::new();
    decode(&mut value, &SIDECAR_SET_V1BETA1, &FieldPath::default(), &mut errors);
    (value, errors)
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn container(field: &str, value: &Value) -> Value {
    json!({"spec": {"containers": [{field: value}]}})
}

#[rstest]
#[case::text("image", json!("nginx"))]
#[case::bool("tty", json!(true))]
#[case::int_or_string_number("livenessProbe", json!({"httpGet": {"port": 80}}))]
#[case::int_or_string_text("livenessProbe", json!({"httpGet": {"port": "http"}}))]
#[case::int32("livenessProbe", json!({"periodSeconds": -2_147_483_648_i64}))]
#[case::int64("securityContext", json!({"runAsUser": i64::MAX}))]
#[case::quantity_text("resources", json!({"limits": {"cpu": "500m", "memory": " 1Gi "}}))]
#[case::quantity_number("resources", json!({"limits": {"cpu": 1.5}}))]
#[case::texts("command", json!(["sh", "-c"]))]
#[case::pointer_to_text("restartPolicy", json!("Never"))]
#[case::unknown_field("newField", json!({"a": [1.5, {"b": null}]}))]
#[case::key_in_another_case("Image", json!(5))]
fn decoding_accepts_what_go_accepts_and_leaves_it(#[case] field: &str, #[case] value: Value) {
    let object = container(field, &value);
    assert_eq!(decoded(object.clone()), (object, Vec::new()));
}

#[rstest]
#[case::number_for_text("image", "5", "image: Invalid value: must be a string, found a number; put it in quotes")]
#[case::bool_for_text("image", "true", "image: Invalid value: must be a string, found a boolean; put it in quotes")]
#[case::list_for_text("image", "[]", "image: Invalid value: must be a string, found a list")]
#[case::text_for_bool(
    "tty",
    r#""true""#,
    "tty: Invalid value: must be a boolean, found a string; write it without quotes"
)]
#[case::other_text_for_bool("tty", r#""yes""#, "tty: Invalid value: must be a boolean, found a string")]
#[case::object_for_list("env", "{}", "env: Invalid value: must be a list, found an object")]
#[case::text_for_list("command", r#""sh""#, "command: Invalid value: must be a list, found a string")]
#[case::number_in_texts(
    "args",
    r#"["a",8080]"#,
    "args[1]: Invalid value: must be a string, found a number; put it in quotes"
)]
#[case::list_for_object("resources", "[]", "resources: Invalid value: must be an object, found a list")]
#[case::text_in_objects("env", r#"["A=1"]"#, "env[0]: Invalid value: must be an object, found a string")]
#[case::text_for_int32(
    "ports",
    r#"[{"containerPort":"8080"}]"#,
    "ports[0].containerPort: Invalid value: must be an integer, found a string; write it without quotes"
)]
#[case::fraction_for_int32(
    "ports",
    r#"[{"containerPort":80.0}]"#,
    "ports[0].containerPort: Invalid value: \"80.0\": must be an integer between -2147483648 and 2147483647, without fraction or exponent"
)]
#[case::exponent_for_int64(
    "securityContext",
    r#"{"runAsUser":1e3}"#,
    "securityContext.runAsUser: Invalid value: \"1e+3\": must be an integer between -9223372036854775808 and 9223372036854775807, without fraction or exponent"
)]
#[case::int32_out_of_range(
    "livenessProbe",
    r#"{"periodSeconds":2147483648}"#,
    "livenessProbe.periodSeconds: Invalid value: \"2147483648\": must be an integer between -2147483648 and 2147483647, without fraction or exponent"
)]
#[case::int_or_string_out_of_range(
    "livenessProbe",
    r#"{"tcpSocket":{"port":-2147483649}}"#,
    "livenessProbe.tcpSocket.port: Invalid value: \"-2147483649\": must be an integer between -2147483648 and 2147483647, without fraction or exponent"
)]
#[case::bool_for_int_or_string(
    "livenessProbe",
    r#"{"tcpSocket":{"port":true}}"#,
    "livenessProbe.tcpSocket.port: Invalid value: must be an integer or a string, found a boolean"
)]
#[case::bool_for_quantity(
    "resources",
    r#"{"limits":{"cpu":true}}"#,
    "resources.limits[cpu]: Invalid value: must be a quantity, like \"500m\" or \"1Gi\", found a boolean"
)]
fn decoding_refuses_what_go_refuses(#[case] field: &str, #[case] value: &str, #[case] expected: &str) {
    let value: Value = serde_json::from_str(value).unwrap();
    let (_, errors) = decoded(container(field, &value));
    assert_eq!(texts(&errors), [format!("spec.containers[0].{expected}")]);
    assert_eq!(errors[0].cause, Cause::Type);
}

#[rstest]
#[case::unknown_suffix("limits", json!({"memory": "1K"}), "limits[memory]")]
#[case::empty("requests", json!({"a.b/c": ""}), "requests[a.b/c]")]
fn qty1_quantities_that_go_cannot_parse_are_refused(#[case] field: &str, #[case] value: Value, #[case] path: &str) {
    let (_, errors) = decoded(container("resources", &json!({field: value})));
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].path.as_str(), format!("spec.containers[0].resources.{path}"));
    assert_eq!(errors[0].cause, Cause::Type);
}

#[test]
fn decoding_collects_every_error() {
    let (_, errors) = decoded(json!({
        "metadata": {"creationTimestamp": "yesterday", "labels": {"a": 1, "b": {}}},
        "spec": {"containers": [{"name": 1}, 2], "updateStrategy": {"partition": 1.5}},
        "status": [],
    }));
    let mut paths: Vec<_> = errors.iter().map(|error| error.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(
        paths,
        [
            "metadata.creationTimestamp",
            "metadata.labels[a]",
            "metadata.labels[b]",
            "spec.containers[0].name",
            "spec.containers[1]",
            "spec.updateStrategy.partition",
            "status",
        ]
    );
}

#[test]
fn errors_never_show_values_of_another_type() {
    let (_, errors) = decoded(container("env", &json!([{"name": "PASSWORD", "value": 12345}, "hunter2"])));
    assert_eq!(errors.len(), 2);
    assert!(errors.iter().all(|error| error.value.is_none()), "{errors:?}");
}

#[rstest]
#[case::fields_of_every_kind(
    json!({"spec": {"revisionHistoryLimit": null, "customVersion": null, "selector": null, "containers": [{
        "name": null, "tty": null, "env": null, "command": null, "resources": null,
        "livenessProbe": {"httpGet": {"port": null}, "periodSeconds": null}, "restartPolicy": null,
    }], "updateStrategy": {"partition": null}, "volumes": null}}),
    json!({"spec": {"containers": [{"livenessProbe": {"httpGet": {}}}], "updateStrategy": {}}})
)]
#[case::items(
    json!({"spec": {"containers": [null, {"command": ["a", null], "env": [null]}]}}),
    json!({"spec": {"containers": [{}, {"command": ["a", ""], "env": [{}]}]}})
)]
#[case::entries(
    json!({"metadata": {"labels": {"a": null}}, "spec": {"containers": [{"resources": {"limits": {"cpu": null}}}]}}),
    json!({"metadata": {"labels": {"a": ""}}, "spec": {"containers": [{"resources": {"limits": {"cpu": "0"}}}]}})
)]
#[case::unknown_fields_keep_theirs(
    json!({"spec": {"new": null, "containers": [{"other": [null]}]}, "extra": {"a": null}}),
    json!({"spec": {"new": null, "containers": [{"other": [null]}]}, "extra": {"a": null}})
)]
fn nulls_are_absent(#[case] value: Value, #[case] expected: Value) {
    assert_eq!(decoded(value), (expected, Vec::new()));
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| Value::Array(vec![inner]))
}

#[test]
fn unknown_fields_may_not_be_nested_too_deeply() {
    // The object itself and spec are two levels.
    let object = |levels| json!({"spec": {"unknown": nested(levels)}});
    assert_eq!(decoded(object(MAX_DEPTH - 2)).1, []);
    let (_, errors) = decoded(object(MAX_DEPTH - 1));
    assert_eq!(
        texts(&errors),
        ["spec.unknown: Invalid value: is nested too deeply; an object may be at most 64 levels deep"]
    );
    // A field in a list has four levels around it: object, spec, list, container.
    let object = |levels| container("unknown", &nested(levels));
    assert_eq!(decoded(object(MAX_DEPTH - 4)).1, []);
    assert_eq!(decoded(object(MAX_DEPTH - 3)).1.len(), 1);
}

#[test]
fn unknown_fields_are_found_by_path() {
    let object = json!({
        "kind": "SidecarSet", "extra": 1, "metadata": {"labels": {"any": "x"}, "clusterName": "c"},
        "spec": {"namespace": "ns", "containers": [
            {"name": "a", "resources": {"limits": {"any": "1"}}},
            {"Name": "b", "securityContext": {"new": {"deep": 1}}, "env": "wrong type"},
        ]},
    });
    let paths = |table| -> Vec<String> {
        unknown(&object, table, &FieldPath::default()).into_iter().map(|field| field.path).collect()
    };
    let expected = [
        "extra",
        "metadata.clusterName",
        "spec.containers[1].Name",
        "spec.containers[1].securityContext.new",
        "spec.namespace",
    ];
    assert_eq!(paths(&SIDECAR_SET_V1BETA1), expected);
    assert_eq!(paths(&SIDECAR_SET_V1ALPHA1), expected[..4]);
    assert!(unknown(&json!("text"), &SIDECAR_SET_V1BETA1, &FieldPath::default()).is_empty());
}

fn emitted(spec_container: &Value) -> String {
    to_string(spec_container, &SIDECAR_CONTAINER, Style::Declared)
}

#[rstest]
#[case::structs_are_never_dropped(json!({}), r#"{"name":"","resources":{},"upgradeStrategy":{},"shareVolumePolicy":{}}"#)]
#[case::zero_values_are_dropped(
    json!({"name": "", "image": "", "command": [], "env": [], "tty": false, "resources": {"limits": {}, "claims": []}}),
    r#"{"name":"","resources":{},"upgradeStrategy":{},"shareVolumePolicy":{}}"#
)]
#[case::pointers_to_zero_values_are_kept(
    json!({
        "restartPolicy": "", "shareVolumeDevicePolicy": {}, "securityContext": {"runAsUser": 0, "privileged": false},
        "envFrom": [{"secretRef": {"optional": false}}], "livenessProbe": {},
    }),
    r#"{"name":"","envFrom":[{"secretRef":{"optional":false}}],"resources":{},"restartPolicy":"","livenessProbe":{},"securityContext":{"privileged":false,"runAsUser":0},"upgradeStrategy":{},"shareVolumePolicy":{},"shareVolumeDevicePolicy":{}}"#
)]
#[case::zero_values_that_are_always_written(
    json!({
        "ports": [{}], "resizePolicy": [{}], "volumeMounts": [{}], "volumeDevices": [{}], "resourcesPolicy": {},
        "env": [{"valueFrom": {"resourceFieldRef": {}, "secretKeyRef": {}, "fieldRef": {}}}],
        "livenessProbe": {"grpc": {}}, "readinessProbe": {"httpGet": {"httpHeaders": [{}]}},
        "startupProbe": {"tcpSocket": {}}, "lifecycle": {"preStop": {"sleep": {}}},
        "securityContext": {"seccompProfile": {}},
    }),
    r#"{"name":"","ports":[{"containerPort":0}],"env":[{"name":"","valueFrom":{"fieldRef":{"fieldPath":""},"resourceFieldRef":{"resource":"","divisor":"0"},"secretKeyRef":{"key":""}}}],"resources":{},"resizePolicy":[{"resourceName":"","restartPolicy":""}],"volumeMounts":[{"name":"","mountPath":""}],"volumeDevices":[{"name":"","devicePath":""}],"livenessProbe":{"grpc":{"port":0,"service":null}},"readinessProbe":{"httpGet":{"port":0,"httpHeaders":[{"name":"","value":""}]}},"startupProbe":{"tcpSocket":{"port":0}},"lifecycle":{"preStop":{"sleep":{"seconds":0}}},"securityContext":{"seccompProfile":{"type":""}},"upgradeStrategy":{},"shareVolumePolicy":{},"resourcesPolicy":{"targetContainersMode":"","resourcesExpr":{}}}"#
)]
#[case::nulls_that_nobody_removed(
    json!({"name": null, "env": null, "tty": null, "restartPolicy": null, "resources": null}),
    r#"{"name":"","resources":{},"upgradeStrategy":{},"shareVolumePolicy":{}}"#
)]
#[case::int_or_string_as_typed(
    json!({"livenessProbe": {"tcpSocket": {"port": "80"}}, "readinessProbe": {"tcpSocket": {"port": 80}}}),
    r#"{"name":"","resources":{},"livenessProbe":{"tcpSocket":{"port":"80"}},"readinessProbe":{"tcpSocket":{"port":80}},"upgradeStrategy":{},"shareVolumePolicy":{}}"#
)]
#[case::quantities_are_canonical_and_maps_sorted(
    json!({"resources": {"requests": {"b": "1024Mi", "B": 0.5, "a": "0"}}}),
    r#"{"name":"","resources":{"requests":{"B":"500m","a":"0","b":"1Gi"}},"upgradeStrategy":{},"shareVolumePolicy":{}}"#
)]
fn api16_hash5_hash7_containers_are_written_as_go_writes_them(#[case] container: Value, #[case] expected: &str) {
    assert_eq!(emitted(&container), expected);
}

#[rstest]
#[case::lists_and_maps_without_omitempty(
    json!({"rbd": {}, "projected": {}, "scaleIO": {}}),
    r#"{"name":"","rbd":{"monitors":null,"image":""},"projected":{"sources":null},"scaleIO":{"gateway":"","system":"","secretRef":null}}"#
)]
#[case::ephemeral(
    json!({"ephemeral": {"volumeClaimTemplate": {"spec": {"dataSource": {}, "resources": {"requests": {"storage": "1024Mi"}}}}}}),
    r#"{"name":"","ephemeral":{"volumeClaimTemplate":{"metadata":{"creationTimestamp":null},"spec":{"resources":{"requests":{"storage":"1Gi"}},"dataSource":{"apiGroup":null,"kind":"","name":""}}}}}"#
)]
#[case::times(
    json!({"ephemeral": {"volumeClaimTemplate": {"metadata": {
        "creationTimestamp": "0001-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T03:04:05+01:00",
    }}}}),
    r#"{"name":"","ephemeral":{"volumeClaimTemplate":{"metadata":{"creationTimestamp":null,"deletionTimestamp":"2026-01-02T02:04:05Z"},"spec":{"resources":{}}}}}"#
)]
#[case::size_limit(
    json!({"emptyDir": {"sizeLimit": "0"}, "name": "x"}),
    r#"{"name":"x","emptyDir":{"sizeLimit":"0"}}"#
)]
fn hash5_volumes_are_written_as_go_writes_them(#[case] volume: Value, #[case] expected: &str) {
    assert_eq!(to_string(&volume, &VOLUME, Style::Declared), expected);
}

#[test]
fn api6_api8_an_empty_sidecar_set_is_written_with_its_structs() {
    assert_eq!(
        to_string(&json!({}), &SIDECAR_SET_V1BETA1, Style::Declared),
        r#"{"metadata":{"creationTimestamp":null},"spec":{"updateStrategy":{},"injectionStrategy":{}},"status":{"matchedPods":0,"updatedPods":0,"readyPods":0}}"#
    );
}

/// JSON of limited depth, with some keys that the tables know.
fn any_json() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        Just("spec"),
        Just("containers"),
        Just("env"),
        Just("resources"),
        Just("limits"),
        Just("livenessProbe"),
        Just("httpGet"),
        Just("port"),
        Just("command"),
        Just("volumes"),
        Just("emptyDir"),
        Just("sizeLimit"),
        Just("metadata"),
        Just("creationTimestamp"),
        Just("labels"),
        Just("unknown"),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[0-9a-zA-Z.:+-]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn decoding_twice_changes_nothing_more(value in any_json()) {
        let (once, errors) = decoded(value);
        if errors.is_empty() {
            prop_assert_eq!(decoded(once.clone()), (once, Vec::new()));
        }
    }

    #[test]
    fn api7_what_is_written_is_decoded_without_errors_and_written_alike(value in any_json()) {
        let (value, errors) = decoded(value);
        if errors.is_empty() {
            let text = to_string(&value, &SIDECAR_SET_V1BETA1, Style::Declared);
            let (again, errors) = decoded(serde_json::from_str(&text).unwrap());
            prop_assert_eq!(errors, Vec::new());
            prop_assert_eq!(to_string(&again, &SIDECAR_SET_V1BETA1, Style::Declared), text);
        }
    }
}
