//! The asserting twin (TOK-10, E11).

use std::sync::Arc;

use serde_json::{Value, json};

use super::TOKEN_PATH;
use super::automounted;
use super::cluster;
use super::injected;
use super::merged_name;
use super::pod;
use super::request;
use super::running_as;
use super::set;
use crate::support::identity::{ask, edited, gated, verdict};

fn assert_twin(pod: &Value, sets: &[Value]) -> String {
    let settings = edited(gated(&json!({}), sets), |settings| settings["role"] = json!("Assert"));
    let answer = ask(&request(pod), &settings, &Arc::new(cluster()));
    assert!(answer.mutated_object.is_none(), "it never patches");
    verdict(&answer)
}

#[test]
fn e11_a_later_webhook_undoes_or_copies() {
    let sets = [set("a", "agent")];
    let ours = injected(&pod(), &sets);
    assert_eq!(assert_twin(&ours, &sets), "accepted");
    let undone = edited(ours.clone(), |pod| pod["spec"]["containers"][1]["volumeMounts"] = json!([]));
    assert_eq!(
        assert_twin(&undone, &sets),
        "403 spec: sidecar \"a\" lacks the token of \"agent\"; find the webhook that took it away, or the injecting policy that did not run"
    );
    let copied = edited(ours.clone(), |pod| {
        pod["spec"]["containers"][0]["volumeMounts"] = pod["spec"]["containers"][1]["volumeMounts"].clone();
    });
    assert_eq!(
        assert_twin(&copied, &sets),
        "403 spec: container \"app\" mounts a token of \"agent\", which is for sidecars alone; find the webhook that changed the Pod after it was injected; spec: container \"app\" mounts the volume \"sidecarset-sa-d4f0bc5a29de06b5\", which belongs to a sidecar; remove it; only the containers of the SidecarSet may hold its token"
    );
    let regained = edited(ours, |pod| {
        pod["spec"]["volumes"].as_array_mut().unwrap().push(automounted("kube-api-access-later"));
        pod["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "kube-api-access-later", "mountPath": TOKEN_PATH}]);
    });
    assert_eq!(
        assert_twin(&regained, &sets),
        "403 spec: container \"app\" mounts a token of \"agent\", which is for sidecars alone; find the webhook that changed the Pod after it was injected"
    );
    // A Pod that never passed the injecting policy has no sidecar without its token.
    assert_eq!(assert_twin(&pod(), &sets), "accepted");
}

#[test]
fn e6_the_twin_sees_a_merged_account_in_the_apps_hands() {
    let sets = [set("a", "a"), set("b", "b")];
    assert_eq!(assert_twin(&injected(&pod(), &sets), &sets), "accepted");
    assert_eq!(
        assert_twin(&running_as(&merged_name()), &sets),
        "403 spec: container \"app\" mounts a token of \"sidecarset-merged-7e18f737311b2dc3\", which is for sidecars alone; find the webhook that changed the Pod after it was injected"
    );
}

/// A SidecarSet whose init container goes before those of the Pod.
fn guarding() -> Value {
    edited(set("a", "agent"), |set| {
        set["spec"]["initContainers"] =
            json!([{"name": "guard", "image": "guard:1", "podInjectPolicy": "BeforeAppContainer"}]);
    })
}

fn setting_up() -> Value {
    edited(pod(), |pod| pod["spec"]["initContainers"] = json!([{"name": "setup", "image": "setup:1"}]))
}

fn init_names(pod: &Value) -> Vec<&str> {
    pod["spec"]["initContainers"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect()
}

/// A later webhook, or a manifest with a pasted sidecar, puts an init container of the app before the sidecar.
#[test]
fn order7_an_init_container_of_the_app_is_not_moved_before_a_sidecar() {
    let sets = [guarding()];
    let ours = injected(&setting_up(), &sets);
    assert_eq!(init_names(&ours), ["guard", "setup"]);
    assert_eq!(ours["metadata"]["annotations"]["pillion.dev/own-containers"], r#"{"initContainers":["setup"]}"#);
    assert_eq!(assert_twin(&ours, &sets), "accepted");
    let moved = edited(ours.clone(), |pod| pod["spec"]["initContainers"].as_array_mut().unwrap().reverse());
    assert_eq!(
        assert_twin(&moved, &sets),
        "403 SidecarSet \"a\": spec.initContainers: container \"setup\" of the Pod stands before the sidecar \"guard\", which \
         BeforeAppContainer places before all containers of the Pod; find the webhook that moved it, or the injecting policy \
         that did not run"
    );
    assert_eq!(injected(&moved, &sets), ours, "it is put to its place when the Pod is admitted again");
    // The record of another Pod does not keep the sidecar from its place.
    let pasted = edited(moved, |pod| {
        pod["metadata"]["annotations"]["pillion.dev/own-containers"] = json!(r#"{"initContainers":[]}"#);
    });
    assert_eq!(init_names(&injected(&pasted, &sets)), ["guard", "setup"]);
}

/// Other injectors put init containers of their own to the front, some of them again if they are called again.
#[rstest::rstest]
#[case::one_that_comes_later("linkerd-init", json!({}), 1)]
#[case::istio("istio-init", json!({"sidecar.istio.io/status": r#"{"initContainers":["istio-init"]}"#}), 0)]
fn order7_the_init_containers_of_other_injectors_may_be_first(
    #[case] name: &str,
    #[case] annotations: Value,
    #[case] warnings: usize,
) {
    let sets = [guarding()];
    let later = edited(injected(&setting_up(), &sets), |pod| {
        pod["spec"]["initContainers"].as_array_mut().unwrap().insert(0, json!({"name": name, "image": "proxy:1"}));
        pod["metadata"]["annotations"].as_object_mut().unwrap().extend(annotations.as_object().unwrap().clone());
    });
    let settings = edited(gated(&json!({}), &sets), |settings| settings["role"] = json!("Assert"));
    let answer = ask(&request(&later), &settings, &Arc::new(cluster()));
    assert_eq!(verdict(&answer), "accepted");
    let answered = answer.warnings.unwrap_or_default();
    assert_eq!(answered.len(), warnings, "{answered:?}");
    assert!(
        answered.iter().all(|text| text.contains("container \"linkerd-init\" of the Pod stands before")),
        "{answered:?}"
    );
}
