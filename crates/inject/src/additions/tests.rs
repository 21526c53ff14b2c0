//! Each rule with a Pod that it refuses, and the most similar one that it leaves alone.
#![allow(clippy::needless_pass_by_value, reason = "json!(...) reads better without a borrow")]

use pillion_kubernetes::time::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::Context;
use crate::tests::set;

/// Returns the reasons for which a Pod with this spec is refused.
fn refused(pod: Value, sets: &[SidecarSet]) -> Vec<String> {
    refused_with(&json!({}), pod, sets)
}

fn refused_with(annotations: &Value, pod: Value, sets: &[SidecarSet]) -> Vec<String> {
    let metadata = json!({"name": "p", "labels": {"app": "x"}, "annotations": annotations});
    let pod = json!({"metadata": metadata, "spec": pod});
    let context = Context { now: Timestamp(0), sort_by_name: false, hides_tokens: None, other_webhooks: None };
    let result = crate::plan(Pod::decode(&pod).unwrap(), sets, context);
    result.err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

/// Returns a SidecarSet `s` with one container `s`, which has these fields.
fn with_container(fields: Value) -> SidecarSet {
    set("s", json!({"containers": [container("s", fields)], "volumes": [{"name": "own", "emptyDir": {}}]}))
}

fn container(name: &str, fields: Value) -> Value {
    let mut container = json!({"name": name, "image": "i:1"});
    container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    container
}

fn app(fields: Value) -> Value {
    json!({"containers": [container("app", fields)]})
}

#[rstest]
#[case::shared(json!({"shareVolumePolicy": {"type": "enabled"}}), true)]
#[case::with_a_privileged_one(json!({"shareVolumePolicy": {"type": "enabled"}, "securityContext": {"privileged": true}}), false)]
#[case::not_shared(json!({"shareVolumePolicy": {"type": "disabled"}}), false)]
#[case::with_its_own_mount_there(
    json!({"shareVolumePolicy": {"type": "enabled"}, "volumeMounts": [{"name": "own", "mountPath": "/d"}]}),
    false
)]
fn inj30_mounts_that_hand_on_to_the_node(#[case] sidecar: Value, #[case] is_refused: bool) {
    let mut pod = app(json!({
        "securityContext": {"privileged": true},
        "volumeMounts": [{"name": "d", "mountPath": "/d", "mountPropagation": "Bidirectional"}],
    }));
    pod["volumes"] = json!([{"name": "d", "hostPath": {"path": "/d"}}]);
    let expected = "SidecarSet \"s\": spec.containers[0].volumeMounts: container \"s\" gets the mount of the volume \"d\" at \
                    \"/d\" with mountPropagation Bidirectional, which the API server allows privileged containers only; turn \
                    shareVolumePolicy of the sidecar off, remove mountPropagation in the Pod, or make the sidecar privileged";
    let expected: Vec<&str> = is_refused.then_some(expected).into_iter().collect();
    assert_eq!(refused(pod, &[with_container(sidecar)]), expected);
}

#[rstest]
#[case::a_mount_and_a_device(
    json!({"volumeMounts": [{"name": "c", "mountPath": "/c"}]}), json!({"volumeDevices": [{"name": "c", "devicePath": "/x"}]}),
    Some("both as a mount and as a device")
)]
#[case::two_devices(
    json!({"volumeDevices": [{"name": "c", "devicePath": "/y"}]}), json!({"volumeDevices": [{"name": "c", "devicePath": "/x"}]}),
    Some("as a device twice")
)]
#[case::one_device(
    json!({"volumeDevices": [{"name": "c", "devicePath": "/x"}]}), json!({"volumeDevices": [{"name": "c", "devicePath": "/x"}]}),
    None
)]
#[case::a_pod_that_is_wrong_itself(
    json!({"volumeMounts": [{"name": "c", "mountPath": "/c"}], "volumeDevices": [{"name": "c", "devicePath": "/y"}]}),
    json!({"volumeDevices": [{"name": "c", "devicePath": "/x"}]}),
    None
)]
#[case::another_device(
    json!({"volumeMounts": [{"name": "c", "mountPath": "/c"}]}), json!({"volumeDevices": [{"name": "b", "devicePath": "/x"}]}),
    None
)]
fn inj30_shared_devices(#[case] one: Value, #[case] other: Value, #[case] wrong: Option<&str>) {
    let volumes = ["b", "c"].map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
    let pod = json!({"containers": [container("app", one), container("other", other)], "volumes": volumes});
    let enabled = json!({"type": "enabled"});
    let sidecar = with_container(json!({"shareVolumePolicy": enabled, "shareVolumeDevicePolicy": enabled}));
    let found = refused(pod, &[sidecar]);
    assert_eq!(found.len(), usize::from(wrong.is_some()), "{found:?}");
    assert!(wrong.is_none_or(|wrong| found[0].contains(&format!("gets the volume \"c\" {wrong}"))), "{found:?}");
}

/// The Pod's volume takes the place of the SidecarSet's claim.
#[rstest]
#[case::a_folder(json!({"emptyDir": {}}), true)]
#[case::a_claim(json!({"persistentVolumeClaim": {"claimName": "other"}}), false)]
fn inj30_a_device_of_a_volume_that_is_no_claim(#[case] theirs: Value, #[case] is_refused: bool) {
    let mut pod = app(json!({}));
    pod["volumes"] = json!([container("disk", theirs)]);
    let sidecar = set(
        "s",
        json!({
            "containers": [container("s", json!({"volumeDevices": [{"name": "disk", "devicePath": "/x"}]}))],
            "volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}],
        }),
    );
    let found = refused(pod, &[sidecar]);
    assert_eq!(
        found.iter().any(|reason| reason.contains("though the Pod has a volume of this name that is no claim")),
        is_refused,
        "{found:?}"
    );
}

/// VAL-12 judges a device of the SidecarSet's own volume, also when the volume is in the Pod already (ORDER-3).
#[test]
fn order3_the_volume_of_the_sidecar_set_itself_is_not_judged() {
    let volume = json!({"name": "disk", "emptyDir": {}});
    let sidecar = set(
        "s",
        json!({
            "containers": [container("s", json!({"volumeDevices": [{"name": "disk", "devicePath": "/x"}]}))],
            "volumes": [volume],
        }),
    );
    let mut pod = app(json!({}));
    assert_eq!(refused(pod.clone(), std::slice::from_ref(&sidecar)), Vec::<String>::new());
    pod["volumes"] = json!([volume]);
    assert_eq!(refused(pod, &[sidecar]), Vec::<String>::new());
}

#[rstest]
#[case::the_same(json!([{"containerPort": 1, "hostPort": 80}]), false, true)]
#[case::another_protocol(json!([{"containerPort": 1, "hostPort": 80, "protocol": "UDP"}]), false, false)]
#[case::the_default_protocol(json!([{"containerPort": 1, "hostPort": 80, "protocol": "TCP"}]), false, true)]
#[case::another_address(json!([{"containerPort": 1, "hostPort": 80, "hostIP": "127.0.0.1"}]), false, false)]
#[case::only_in_the_container(json!([{"containerPort": 8080}]), false, false)]
#[case::on_the_nodes_network(json!([{"containerPort": 8080}]), true, true)]
#[case::another_port_on_the_nodes_network(json!([{"containerPort": 81}]), true, false)]
#[case::two_numbers_on_the_nodes_network(json!([{"containerPort": 81, "hostPort": 82}]), true, true)]
#[case::two_numbers(json!([{"containerPort": 81, "hostPort": 82}]), false, false)]
fn inj30_ports_of_the_node(#[case] ports: Value, #[case] on_host: bool, #[case] is_refused: bool) {
    let mut pod = app(json!({"ports": [{"containerPort": 8080, "hostPort": 80}]}));
    if on_host {
        pod["containers"][0]["ports"] = json!([{"containerPort": 8080, "hostPort": 8080}]);
        pod["hostNetwork"] = json!(true);
    }
    let found = refused(pod, &[with_container(json!({ "ports": ports }))]);
    assert_eq!(!found.is_empty(), is_refused, "{found:?}");
    assert!(
        found.iter().all(|reason| reason.starts_with("SidecarSet \"s\": spec.containers[0].ports: container \"s\""))
    );
}

#[test]
fn inj30_both_halves_on_the_nodes_network() {
    let upgrade = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e:1"});
    let pair = with_container(json!({"upgradeStrategy": upgrade, "ports": [{"containerPort": 80}]}));
    let mut pod = app(json!({}));
    assert_eq!(refused(pod.clone(), std::slice::from_ref(&pair)), Vec::<String>::new());
    pod["hostNetwork"] = json!(true);
    let found = refused(pod, &[pair]);
    assert!(found[0].contains("container \"s-2\" claims the port 80/TCP of the node"), "{found:?}");
}

#[test]
fn inj30_names_of_stored_pairs() {
    let upgrade = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e:1"});
    let of =
        |length| set("s", json!({"containers": [container(&"a".repeat(length), json!({"upgradeStrategy": upgrade}))]}));
    assert_eq!(refused(app(json!({})), &[of(61)]), Vec::<String>::new());
    let found = refused(app(json!({})), &[of(62)]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|reason| reason.contains("whose name has 64 characters")), "{found:?}");
}

fn computed(expressions: Value) -> Value {
    json!({"resourcesPolicy": {
        "targetContainersMode": "sum", "targetContainersNameRegex": ".*", "resourcesExpr": expressions,
    }})
}

#[rstest]
#[case::above(json!({"requests": {"cpu": "cpu*2"}, "limits": {"cpu": "cpu*50%"}}), true)]
#[case::equal(json!({"requests": {"cpu": "cpu"}, "limits": {"cpu": "cpu*50%"}}), false)]
#[case::without_a_limit(json!({"requests": {"memory": "1Gi"}, "limits": {"cpu": "cpu"}}), false)]
fn inj30_computed_requests(#[case] expressions: Value, #[case] is_refused: bool) {
    let pod = app(json!({"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}));
    let expected = "SidecarSet \"s\": spec.containers[0].resourcesPolicy: container \"s\" would request 2 of cpu, more than its \
                    limit of 1; the API server refuses that; change the expressions, for example with min(), or the \
                    resources of the containers that they read";
    let expected: Vec<&str> = is_refused.then_some(expected).into_iter().collect();
    assert_eq!(refused(pod, &[with_container(computed(expressions))]), expected);
}

/// Cases are the sidecar's resources, the Pod's, and the words of the refusal.
#[rstest]
#[case::sum_of_requests(json!({"requests": {"cpu": "500m"}}), json!({"requests": {"cpu": "1"}}),
    Some("with which the Pod's containers request 1100m, more than the Pod's own request of 1 "))]
#[case::sum_that_fits(json!({"requests": {"cpu": "400m"}}), json!({"requests": {"cpu": "1"}}), None)]
#[case::limit_in_place_of_a_request(json!({"limits": {"cpu": "500m"}}), json!({"requests": {"cpu": "1"}}),
    Some("requests 500m of cpu"))]
#[case::another_resource(json!({"requests": {"memory": "1Gi"}}), json!({"requests": {"cpu": "1"}}), None)]
#[case::sum_above_the_limit(json!({"requests": {"cpu": "500m"}}), json!({"limits": {"cpu": "1"}}),
    Some("more than the Pod's own limit of 1 "))]
#[case::limit(json!({"limits": {"memory": "2Gi"}, "requests": {"memory": "0"}}), json!({"limits": {"memory": "1Gi"}}),
    Some("has a limit of 2Gi of memory, more than the Pod's own limit of 1Gi "))]
#[case::limit_that_fits(json!({"limits": {"memory": "1Gi"}}), json!({"limits": {"memory": "1Gi"}}), None)]
#[case::the_pods_resources_are_none(json!({"requests": {"cpu": "500m"}}), json!("x"), None)]
fn inj30_resources_of_the_pod(#[case] own: Value, #[case] of_pod: Value, #[case] wrong: Option<&str>) {
    let mut pod = app(json!({"resources": {"requests": {"cpu": "600m"}}}));
    pod["resources"] = of_pod;
    let found = refused(pod, &[with_container(json!({ "resources": own }))]);
    assert_eq!(found.len(), usize::from(wrong.is_some()), "{found:?}");
    assert!(wrong.is_none_or(|wrong| found[0].contains(wrong)), "{found:?}");
    assert!(
        found.iter().all(|reason| reason.starts_with("SidecarSet \"s\": spec.containers[0].resources: ")),
        "{found:?}"
    );
}

/// The Pod was invalid before: the API server says so itself.
#[test]
fn inj30_a_pod_whose_own_containers_exceed_it() {
    let mut pod = app(json!({"resources": {"requests": {"cpu": "2"}}}));
    pod["resources"] = json!({"requests": {"cpu": "1"}});
    assert_eq!(refused(pod, &[with_container(json!({"resources": {"requests": {"cpu": "1"}}}))]), Vec::<String>::new());
}

/// Init containers run one after another, beside the native sidecars before them.
#[rstest]
#[case::plain_beside_nothing(json!({}), "900m", false)]
#[case::plain_alone_too_much(json!({}), "1100m", true)]
#[case::native_beside_the_app(json!({"restartPolicy": "Always"}), "500m", true)]
#[case::native_that_fits(json!({"restartPolicy": "Always"}), "400m", false)]
fn inj30_init_containers_request_at_other_times(#[case] fields: Value, #[case] cpu: &str, #[case] is_refused: bool) {
    let mut pod = app(json!({"resources": {"requests": {"cpu": "600m"}}}));
    pod["resources"] = json!({"requests": {"cpu": "1"}});
    let mut init = container("i", fields);
    init["resources"] = json!({"requests": {"cpu": cpu}});
    let found = refused(pod, &[set("s", json!({"initContainers": [init]}))]);
    assert_eq!(!found.is_empty(), is_refused, "{found:?}");
}

#[rstest]
#[case::linux_context_in_windows("windows", json!({"runAsUser": 1, "capabilities": {}}), Some("sets capabilities, runAsUser,"))]
#[case::windows_context_in_windows("windows", json!({"windowsOptions": {}, "runAsNonRoot": true}), None)]
#[case::windows_context_in_linux("linux", json!({"windowsOptions": {}}), Some("sets windowsOptions,"))]
#[case::linux_context_in_linux("linux", json!({"runAsUser": 1}), None)]
#[case::no_system("", json!({"runAsUser": 1, "windowsOptions": {}}), None)]
fn inj30_security_contexts_of_another_system(#[case] os: &str, #[case] context: Value, #[case] wrong: Option<&str>) {
    let mut pod = app(json!({}));
    pod["os"] = json!({ "name": os });
    let found = refused(pod, &[with_container(json!({ "securityContext": context }))]);
    assert_eq!(found.len(), usize::from(wrong.is_some()), "{found:?}");
    assert!(wrong.is_none_or(|wrong| found[0].contains(wrong)), "{found:?}");
}

/// Two SidecarSets that patch 64 KiB each beside annotations of the Pod.
#[rstest]
#[case::together_too_long(150, true)]
#[case::together_fitting(100, false)]
fn inj30_annotations(#[case] kilobytes: usize, #[case] is_refused: bool) {
    let patching = |name: &str| {
        let annotations = json!({ name: "x".repeat(60 * 1024) });
        let patch = json!([{"patchPolicy": "Overwrite", "annotations": annotations}]);
        set(name, json!({"containers": [container(name, json!({}))], "patchPodMetadata": patch}))
    };
    let own = json!({"own": "x".repeat(kilobytes * 1024)});
    let found = refused_with(&own, app(json!({})), &[patching("a"), patching("b")]);
    assert_eq!(found.len(), if is_refused { 2 } else { 0 }, "{found:?}");
    assert!(found.iter().all(|reason| reason.contains("longer than 262144 bytes")), "{found:?}");
}
