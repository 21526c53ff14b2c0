#![allow(clippy::needless_pass_by_value, reason = "json!(...) reads better without a borrow")]

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn applied(mut spec: Value) -> Value {
    spec = json!({"spec": spec});
    let before = spec.clone();
    let is_changed = apply(&mut spec);
    assert_eq!(is_changed, spec != before, "defaults tell whether they change anything");
    let once = spec.clone();
    assert!(!apply(&mut spec));
    assert_eq!(spec, once, "applied again, defaults change nothing");
    spec["spec"].take()
}

fn container(fields: Value) -> Value {
    applied(json!({"containers": [fields]}))["containers"][0].clone()
}

#[test]
fn def3_def7_an_empty_set_gets_its_strategies_and_history_limit() {
    let expected = json!({
        "updateStrategy": {"type": "RollingUpdate", "maxUnavailable": 1, "partition": 0},
        "revisionHistoryLimit": 10,
    });
    assert_eq!(applied(json!({})), expected);
    let mut nothing = json!({});
    apply(&mut nothing);
    assert_eq!(nothing["spec"], expected);
}

#[test]
fn what_is_there_stays() {
    let spec = json!({
        "updateStrategy": {"type": "NotUpdate", "maxUnavailable": "0%", "partition": "50%", "paused": true},
        "revisionHistoryLimit": 0,
        "injectionStrategy": {"revision": {"customVersion": "1", "policy": "Partial"}},
        "patchPodMetadata": [{"annotations": {"a": "b"}, "patchPolicy": "Overwrite"}],
        "future": {"field": [1]},
    });
    assert_eq!(applied(spec.clone()), spec);
}

#[test]
fn def7_policies_of_patches_and_revisions() {
    let spec = applied(json!({
        "injectionStrategy": {"revision": {"customVersion": "1"}},
        "patchPodMetadata": [{"annotations": {"a": "b"}}, {"patchPolicy": ""}],
    }));
    assert_eq!(spec["injectionStrategy"]["revision"]["policy"], "Always");
    assert_eq!(spec["patchPodMetadata"][0]["patchPolicy"], "Retain");
    assert_eq!(spec["patchPodMetadata"][1]["patchPolicy"], "Retain");
}

#[test]
fn def4_def5_containers_and_init_containers() {
    let spec = applied(json!({
        "initContainers": [{"name": "i", "image": "a:1"}],
        "containers": [{"name": "c", "image": "a", "podInjectPolicy": "", "upgradeStrategy": {"hotUpgradeEmptyImage": "e"}}],
    }));
    assert_eq!(
        spec["initContainers"][0],
        json!({
            "name": "i", "image": "a:1", "imagePullPolicy": "IfNotPresent", "podInjectPolicy": "AfterAppContainer",
            "upgradeStrategy": {"upgradeType": "ColdUpgrade"}, "shareVolumePolicy": {"type": "disabled"},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        })
    );
    assert_eq!(
        spec["containers"][0],
        json!({
            "name": "c", "image": "a", "imagePullPolicy": "Always", "podInjectPolicy": "BeforeAppContainer",
            "upgradeStrategy": {"upgradeType": "ColdUpgrade", "hotUpgradeEmptyImage": "e"},
            "shareVolumePolicy": {"type": "disabled"},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        })
    );
}

#[rstest]
#[case::latest(json!({"image": "a:latest"}), "Always")]
#[case::unreadable(json!({"image": "A B"}), "IfNotPresent")]
#[case::absent(json!({}), "IfNotPresent")]
#[case::set(json!({"image": "a", "imagePullPolicy": "Never"}), "Never")]
fn def5_image_pull_policies(#[case] fields: Value, #[case] expected: &str) {
    assert_eq!(container(fields)["imagePullPolicy"], expected);
}

#[test]
fn def5_ports_and_field_references() {
    let field = json!({"fieldRef": {"fieldPath": "metadata.name"}});
    let done = container(json!({
        "ports": [{"containerPort": 1}, {"containerPort": 2, "protocol": "UDP"}],
        "env": [{"name": "A", "valueFrom": field}, {"name": "B", "valueFrom": {"secretKeyRef": {"key": "k"}}}],
        "transferEnv": [{"sourceContainerNameFrom": field}, {"envName": "A"}],
    }));
    assert_eq!(done["ports"][0]["protocol"], "TCP");
    assert_eq!(done["ports"][1]["protocol"], "UDP");
    assert_eq!(done["env"][0]["valueFrom"]["fieldRef"]["apiVersion"], "v1");
    assert_eq!(done["env"][1]["valueFrom"], json!({"secretKeyRef": {"key": "k"}}));
    assert_eq!(done["transferEnv"][0]["sourceContainerNameFrom"]["fieldRef"]["apiVersion"], "v1");
}

#[test]
fn def8_diff16_a_source_without_field_is_left_alone() {
    let transfer = json!([{"sourceContainerNameFrom": {}}]);
    assert_eq!(container(json!({"transferEnv": transfer}))["transferEnv"], transfer);
}

#[rstest]
#[case::rounded(json!("100u"), json!("1m"))]
#[case::rounded_binary(json!("1.0001Gi"), json!("1073849198183m"))]
#[case::not_canonical(json!("1000m"), json!("1000m"))]
#[case::number(json!(1.5), json!(1.5))]
#[case::whole(json!("1Gi"), json!("1Gi"))]
fn def5_quantities_are_rewritten_only_where_rounding_changes_them(#[case] quantity: Value, #[case] expected: Value) {
    let resources = json!({"limits": {"memory": quantity}, "requests": {"memory": quantity}});
    let done = container(json!({
        "resources": resources,
        "env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1n"}}}],
    }));
    assert_eq!(done["resources"]["limits"]["memory"], expected);
    assert_eq!(done["resources"]["requests"]["memory"], expected);
    assert_eq!(done["env"][0]["valueFrom"]["resourceFieldRef"]["divisor"], "1n", "a divisor is no limit");
}

#[test]
fn def5_probes_and_handlers() {
    let probe = json!({"httpGet": {"port": 80}, "periodSeconds": 0, "timeoutSeconds": 5});
    let done = container(json!({
        "livenessProbe": probe, "readinessProbe": {"grpc": {"port": 1}, "failureThreshold": 1},
        "lifecycle": {"postStart": {"httpGet": {"port": 80}}, "preStop": {"exec": {"command": ["a"]}}},
    }));
    let get = json!({"port": 80, "path": "/", "scheme": "HTTP"});
    assert_eq!(
        done["livenessProbe"],
        json!({"httpGet": get, "timeoutSeconds": 5, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3})
    );
    assert_eq!(
        done["readinessProbe"],
        json!({"grpc": {"port": 1}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 1})
    );
    assert_eq!(done["lifecycle"], json!({"postStart": {"httpGet": get}, "preStop": {"exec": {"command": ["a"]}}}));
}

#[rstest]
#[case::nothing_else_is_filled_in(
    json!({"httpGet": {"port": 80}}),
    json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "successThreshold": 1})
)]
#[case::what_the_reference_accepts_stays(
    json!({"tcpSocket": {"port": 80}, "successThreshold": 1, "timeoutSeconds": 0}),
    json!({"tcpSocket": {"port": 80}, "successThreshold": 1, "timeoutSeconds": 0})
)]
#[case::wrong_values_are_for_validation(
    json!({"tcpSocket": {"port": 80}, "successThreshold": 2}),
    json!({"tcpSocket": {"port": 80}, "successThreshold": 2})
)]
fn diff28_startup_probes_get_what_they_would_be_refused_without(#[case] probe: Value, #[case] expected: Value) {
    assert_eq!(container(json!({"startupProbe": probe}))["startupProbe"], expected);
}

#[rstest]
#[case::none(json!({"name": "v"}), json!({"name": "v", "emptyDir": {}}))]
#[case::unknown_source(json!({"name": "v", "x": {}}), json!({"name": "v", "x": {}, "emptyDir": {}}))]
#[case::host_path(json!({"hostPath": {"path": "/"}}), json!({"hostPath": {"path": "/", "type": ""}}))]
#[case::secret(json!({"secret": {}}), json!({"secret": {"defaultMode": 420}}))]
#[case::mode_of_zero(json!({"configMap": {"defaultMode": 0}}), json!({"configMap": {"defaultMode": 0}}))]
#[case::downward_api(
    json!({"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}]}}),
    json!({"downwardAPI": {"defaultMode": 420, "items": [{"path": "a", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}]}})
)]
#[case::projected(
    json!({"projected": {"sources": [
        {"serviceAccountToken": {"path": "t"}}, {"serviceAccountToken": {"expirationSeconds": 600, "path": "t"}},
        {"downwardAPI": {"items": [{"fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]}}),
    json!({"projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}},
        {"serviceAccountToken": {"expirationSeconds": 600, "path": "t"}},
        {"downwardAPI": {"items": [{"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}]}},
    ]}})
)]
#[case::other_sources(json!({"nfs": {"server": "s", "path": "/"}}), json!({"nfs": {"server": "s", "path": "/"}}))]
fn def6_volumes(#[case] volume: Value, #[case] expected: Value) {
    assert_eq!(applied(json!({"volumes": [volume]}))["volumes"], json!([expected]));
}

#[test]
fn api5_what_the_crd_fills_in_is_apart() {
    let mut set = json!({"spec": {
        "containers": [{"resourcesPolicy": {}}, {"resourcesPolicy": {"targetContainersNameRegex": ""}}, {}],
        "injectionStrategy": {"revision": {}},
        "imagePullSecrets": [{}],
    }});
    let untouched = container(json!({"resourcesPolicy": {}}));
    assert_eq!(untouched["resourcesPolicy"], json!({}));
    apply_crd(&mut set);
    assert_eq!(
        set,
        json!({"spec": {
            "containers": [
                {"resourcesPolicy": {"targetContainersNameRegex": ".*"}},
                {"resourcesPolicy": {"targetContainersNameRegex": ""}}, {},
            ],
            "injectionStrategy": {"revision": {"policy": "Always"}},
            "imagePullSecrets": [{"name": ""}],
        }})
    );
}

#[rstest]
#[case(json!(null))]
#[case(json!({"spec": []}))]
#[case(json!({"spec": {"containers": {}, "volumes": [1, null], "updateStrategy": 3}}))]
#[case(json!({"spec": {"containers": [null, {"env": [{"valueFrom": 1}], "resources": {"limits": {"cpu": true}}, "livenessProbe": []}]}}))]
fn other_shapes_do_no_harm(#[case] mut set: Value) {
    apply_crd(&mut set);
    apply(&mut set);
}
