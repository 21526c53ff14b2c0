//! Additions because of which the API server would refuse every Pod, through the built module: at the SidecarSet
//! (VAL-14), and at the Pod (INJ-30). Each refusal names the SidecarSet.

use rstest::rstest;
use serde_json::{Value, json};

use crate::support::identity::{edited, verdict};
use crate::support::{admit, create_pod, create_set, settings_verdict};

fn set(containers: &Value) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "agents"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}}, "containers": containers,
            "updateStrategy": {"type": "NotUpdate"},
        },
    })
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "app", "image": "nginx:1"}]},
    })
}

fn hot(name: &str) -> Value {
    json!({
        "name": name, "image": "agent:1",
        "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"},
    })
}

#[rstest]
#[case::names_of_64_characters(json!([hot(&"a".repeat(62))]), "whose names have 64 characters")]
#[case::names_of_65_characters(json!([hot(&"a".repeat(63))]), "whose names have 65 characters")]
#[case::both_on_one_port(
    json!([edited(hot("a"), |a| a["ports"] = json!([{"containerPort": 80, "hostPort": 80}]))]),
    "which cannot both have this port of the node"
)]
#[case::a_half_and_another(
    json!([hot("a"), {"name": "a-2", "image": "agent:1"}]),
    "and spec.containers[0] makes another one of this name"
)]
fn val14_pairs_are_judged_as_they_are_made(#[case] containers: Value, #[case] wrong: &str) {
    let bad = set(&containers);
    let answered = verdict(&admit(&create_set(&bad), &json!({})));
    assert!(
        answered.starts_with("422 SidecarSet \"agents\": spec.containers[") && answered.contains(wrong),
        "{answered}"
    );
    let of_settings = settings_verdict(json!({"sidecarSets": [bad]}).to_string().as_bytes()).unwrap();
    let message = of_settings.message.unwrap_or_default();
    assert!(message.contains("agents") && message.contains(wrong), "{message}");
    let good = set(&json!([hot(&"a".repeat(61))]));
    assert_eq!(verdict(&admit(&create_set(&good), &json!({}))), "accepted");
}

#[test]
fn val52_halves_are_compared_with_other_sets() {
    let other =
        edited(set(&json!([{"name": "agent-1", "image": "agent:1"}])), |set| set["metadata"]["name"] = json!("other"));
    let answered = verdict(&admit(&create_set(&set(&json!([hot("agent")]))), &json!({"sidecarSets": [other]})));
    let expected = "HotUpgrade makes \"agent-1\" of it, and SidecarSet \"other\" has a container of that name for the same \
                    Pods; rename one of them or change a selector";
    assert!(answered.starts_with("422 ") && answered.contains(expected), "{answered}");
}

/// Admission and the settings refuse a SidecarSet whose Pods the policy would refuse.
#[test]
fn val52_diff4_an_init_container_clashes_with_a_container_of_another_set() {
    let other = edited(set(&json!([{"name": "unlike", "image": "i:1"}])), |set| {
        set["metadata"]["name"] = json!("other");
        set["spec"]["initContainers"] = json!([{"name": "agent", "image": "i:1"}]);
    });
    let own = set(&json!([{"name": "agent", "image": "agent:1"}]));
    let answered = verdict(&admit(&create_set(&own), &json!({"sidecarSets": [other]})));
    let expected = "SidecarSet \"other\" has an init container of this name for the same Pods; rename the init container or change a \
                    selector";
    assert!(answered.starts_with("422 ") && answered.contains(expected), "{answered}");
    let settings = settings_verdict(json!({"sidecarSets": [own, other]}).to_string().as_bytes()).unwrap();
    assert!(!settings.valid && settings.message.unwrap_or_default().contains("has a container of this name"));
}

/// Cases are changes of the SidecarSet's container and of the Pod's spec, and the words of the refusal.
#[rstest]
#[case::bidirectional(
    json!({"shareVolumePolicy": {"type": "enabled"}}),
    json!({"containers": [{
        "name": "app", "image": "nginx:1", "securityContext": {"privileged": true},
        "volumeMounts": [{"name": "d", "mountPath": "/d", "mountPropagation": "Bidirectional"}],
    }], "volumes": [{"name": "d", "hostPath": {"path": "/d"}}]}),
    "mountPropagation Bidirectional"
)]
#[case::computed_request(
    json!({"resourcesPolicy": {
        "targetContainersMode": "sum", "targetContainersNameRegex": ".*",
        "resourcesExpr": {"limits": {"cpu": "cpu*50%"}, "requests": {"cpu": "cpu*100%"}},
    }}),
    json!({"containers": [{"name": "app", "image": "nginx:1", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}]}),
    "would request 1 of cpu, more than its limit of 500m"
)]
#[case::computed_request_beside_the_pods(
    json!({"resourcesPolicy": {
        "targetContainersMode": "sum", "targetContainersNameRegex": ".*", "resourcesExpr": {"requests": {"cpu": "cpu*100%"}},
    }}),
    json!({
        "containers": [{"name": "app", "image": "nginx:1", "resources": {"requests": {"cpu": "1"}}}],
        "resources": {"requests": {"cpu": "1500m"}, "limits": {"cpu": "2"}},
    }),
    "more than the Pod's own request of 1500m (spec.resources)"
)]
#[case::stated_request_beside_the_pods(
    json!({"resources": {"requests": {"cpu": "500m", "memory": "256Mi"}}}),
    json!({"resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "128Mi"}}}),
    "requests 500m of cpu"
)]
#[case::limit_above_the_pods(
    json!({"resources": {"requests": {"cpu": "0"}, "limits": {"cpu": "3"}}}),
    json!({"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}),
    "has a limit of 3 of cpu, more than the Pod's own limit of 2 (spec.resources)"
)]
#[case::windows(
    json!({"securityContext": {"runAsUser": 1000, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}),
    json!({"os": {"name": "windows"}, "nodeSelector": {"kubernetes.io/os": "windows"}}),
    "sets allowPrivilegeEscalation, capabilities, runAsUser, which the API server refuses in a Pod with spec.os.name windows"
)]
#[case::port_of_the_node(
    json!({"ports": [{"containerPort": 80}]}),
    json!({"hostNetwork": true, "containers": [{"name": "app", "image": "nginx:1", "ports": [{"containerPort": 80, "hostPort": 80}]}]}),
    "claims the port 80/TCP of the node"
)]
fn inj30_a_pod_that_additions_make_invalid(#[case] sidecar: Value, #[case] changes: Value, #[case] wrong: &str) {
    let agent = edited(json!({"name": "agent", "image": "agent:1"}), |agent| extend(agent, &sidecar));
    let pod = edited(pod(), |pod| extend(&mut pod["spec"], &changes));
    let answered = verdict(&admit(&create_pod(&pod, "u"), &json!({"sidecarSets": [set(&json!([agent]))]})));
    let start = "403 SidecarSet \"agents\": spec.containers[0].";
    assert!(
        answered.starts_with(start) && answered.contains("container \"agent\"") && answered.contains(wrong),
        "{answered}"
    );
    let plain = set(&json!([{"name": "agent", "image": "agent:1"}]));
    assert_eq!(verdict(&admit(&create_pod(&pod, "u"), &json!({"sidecarSets": [plain]}))), "accepted");
}

fn extend(object: &mut Value, more: &Value) {
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
}
