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
