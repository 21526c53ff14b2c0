use rstest::rstest;
use serde_json::{Value, json};

use super::{assert_paths, below, container, paths, with};

fn check(fields: &Value, expected: &str) {
    let volumes = [
        json!({"name": "v", "emptyDir": {}}),
        json!({"name": "w", "hostPath": {"path": "/w", "type": ""}}),
        json!({"name": "pvc", "persistentVolumeClaim": {"claimName": "c"}}),
        json!({"name": "img", "image": {"reference": "r", "pullPolicy": "Always"}}),
    ];
    let found = paths(&[], &[with("c", fields)], &volumes);
    assert_paths(&below("spec.containers[0].", &found), expected, fields);
}

#[rstest]
#[case(json!([{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]), "")]
#[case(json!([{"name": "v", "mountPath": "a"}]), "")]
#[case(json!([{"mountPath": "/a"}]), "volumeMounts[0].name")]
#[case(json!([{"name": "nope", "mountPath": "/a"}]), "volumeMounts[0].name")]
#[case(json!([{"name": "v"}]), "volumeMounts[0].mountPath")]
#[case(json!([{"name": "v", "mountPath": "/a"}, {"name": "w", "mountPath": "/a"}]), "volumeMounts[1].mountPath")]
#[case(json!([{"name": "v", "mountPath": "/a", "subPath": "x/y"}]), "")]
#[case(json!([{"name": "v", "mountPath": "/a", "subPath": "/x"}]), "volumeMounts.subPath")]
#[case(json!([{"name": "v", "mountPath": "/a", "subPath": "x/../y"}]), "volumeMounts.subPath")]
#[case(json!([{"name": "v", "mountPath": "/a", "subPathExpr": "../$(A)"}]), "volumeMounts.subPathExpr")]
#[case(json!([{"name": "v", "mountPath": "/a", "subPath": "x", "subPathExpr": "y"}]), "volumeMounts[0].subPathExpr")]
#[case(
    json!([{"name": "img", "mountPath": "/a", "subPath": "x"}, {"name": "img", "mountPath": "/b", "subPathExpr": "y"}]),
    "volumeMounts[0].subPath volumeMounts[1].subPathExpr"
)]
#[case(json!([{"name": "v", "mountPath": "/a", "mountPropagation": "None"}]), "")]
#[case(json!([{"name": "v", "mountPath": "/a", "mountPropagation": ""}]), "volumeMounts.mountPropagation")]
#[case(json!([{"name": "v", "mountPath": "/a", "mountPropagation": "Bidirectional"}]), "volumeMounts.mountPropagation")]
#[case(json!([{"name": "v", "mountPath": "/a", "recursiveReadOnly": "Disabled"}]), "")]
#[case(json!([{"name": "v", "mountPath": "/a", "readOnly": true, "recursiveReadOnly": "Enabled"}]), "")]
#[case(json!([{"name": "v", "mountPath": "/a", "recursiveReadOnly": "IfPossible"}]), "volumeMounts.recursiveReadOnly")]
#[case(json!([{"name": "v", "mountPath": "/a", "recursiveReadOnly": "Other"}]), "volumeMounts.recursiveReadOnly")]
#[case(
    json!([{
        "name": "v", "mountPath": "/a", "readOnly": true,
        "recursiveReadOnly": "Enabled", "mountPropagation": "HostToContainer",
    }]),
    "volumeMounts.recursiveReadOnly"
)]
fn val12_mounts(#[case] mounts: Value, #[case] expected: &str) {
    check(&json!({"volumeMounts": mounts}), expected);
}

#[test]
fn val12_bidirectional_mounts_are_for_privileged_containers() {
    let mounts = json!([{"name": "v", "mountPath": "/a", "mountPropagation": "Bidirectional"}]);
    check(&json!({"volumeMounts": mounts, "securityContext": {"privileged": true}}), "");
    check(&json!({"volumeMounts": mounts, "securityContext": {}}), "volumeMounts.mountPropagation");
}

#[rstest]
#[case(json!([{"name": "pvc", "devicePath": "/dev/x"}]), "")]
#[case(json!([{"name": "v", "devicePath": "/dev/x"}]), "volumeDevices[0].name")]
#[case(json!([{"name": "nope", "devicePath": "/dev/x"}]), "volumeDevices[0].name")]
#[case(json!([{"devicePath": "/dev/x"}]), "volumeDevices[0].name")]
#[case(json!([{"name": "pvc"}]), "volumeDevices[0].devicePath")]
#[case(json!([{"name": "pvc", "devicePath": "/dev/../x"}]), "volumeDevices[0].devicePath")]
#[case(
    json!([{"name": "pvc", "devicePath": "/x"}, {"name": "pvc", "devicePath": "/x"}]),
    "volumeDevices[1].devicePath volumeDevices[1].name"
)]
fn val12_devices(#[case] devices: Value, #[case] expected: &str) {
    check(&json!({"volumeDevices": devices}), expected);
}

#[test]
fn val12_mounts_and_devices_exclude_each_other() {
    check(
        &json!({
            "volumeMounts": [{"name": "pvc", "mountPath": "/a"}, {"name": "v", "mountPath": "/x"}],
            "volumeDevices": [{"name": "pvc", "devicePath": "/x"}],
        }),
        "volumeDevices[0].devicePath volumeDevices[0].name volumeMounts[0].name volumeMounts[1].mountPath",
    );
}

#[test]
fn val12_a_volume_with_an_error_cannot_be_mounted() {
    let user = with("c", &json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}]}));
    let init = with("i", &json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}]}));
    let found = paths(&[init], &[user.clone(), container("d")], &[json!({"name": "v", "hostPath": {"path": ""}})]);
    assert_eq!(
        found,
        [
            "spec.containers[0].volumeMounts[0].name",
            "spec.initContainers[0].volumeMounts[0].name",
            "spec.volumes[0].hostPath.path"
        ]
    );
    // The first of two volumes with one name stays usable.
    let twice = [json!({"name": "v", "emptyDir": {}}), json!({"name": "v", "emptyDir": {}})];
    assert_eq!(paths(&[], &[user], &twice), ["spec.volumes[1].name"]);
}
