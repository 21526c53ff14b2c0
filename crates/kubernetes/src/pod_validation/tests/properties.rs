use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::validate;
use super::container;

/// Keys that the rules read, so that random objects reach the rules.
const KEYS: [&str; 40] = [
    "name",
    "image",
    "env",
    "envFrom",
    "valueFrom",
    "fieldRef",
    "fieldPath",
    "apiVersion",
    "resourceFieldRef",
    "divisor",
    "resource",
    "ports",
    "containerPort",
    "hostPort",
    "volumeMounts",
    "mountPath",
    "subPath",
    "volumeDevices",
    "livenessProbe",
    "httpGet",
    "port",
    "lifecycle",
    "preStop",
    "sleep",
    "resources",
    "limits",
    "requests",
    "cpu",
    "claims",
    "securityContext",
    "windowsOptions",
    "runAsUserName",
    "seccompProfile",
    "projected",
    "sources",
    "items",
    "ephemeral",
    "volumeClaimTemplate",
    "iscsi",
    "emptyDir",
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
        prop::sample::select(vec!["v1", "1Gi", "Always", "iqn.", "a\\b", "é-", "../", "metadata.labels['a']"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(KEYS.to_vec()), inner), 0..6).prop_map(|pairs| {
                Value::Object(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn val12_no_input_panics_and_every_error_has_a_place_and_a_reason(
        init in prop::collection::vec(any_json(), 0..3),
        containers in prop::collection::vec(any_json(), 0..3),
        volumes in prop::collection::vec(any_json(), 0..3),
    ) {
        for error in validate(&init, &containers, &volumes) {
            prop_assert!(error.path.as_str().starts_with("spec"));
            prop_assert!(!error.detail.is_empty() || error.value.is_some());
        }
    }

    #[test]
    fn val12_an_unknown_field_changes_nothing(key in "x[a-z]{1,8}", value in any_json()) {
        let mut edited = container("c");
        edited.as_object_mut().unwrap().insert(key.clone(), value.clone());
        let mut volume = json!({"name": "v", "emptyDir": {}});
        volume.as_object_mut().unwrap().insert(key, value);
        prop_assert_eq!(validate(&[], &[edited], &[volume]), vec![]);
    }
}
