//! Ephemeral containers that the kernel lets see the sidecars of a running Pod (E7, TOK-9).

use rstest::rstest;
use serde_json::{Value, json};

use super::{admit_in, cluster, debugging};
use crate::support::identity::{edited, verdict};

/// Returns the addition of a container to the running Pod whose spec also has these fields.
fn debugging_in(spec: &Value, more: &Value) -> Value {
    let container = edited(json!({"name": "debug", "image": "busybox"}), |container| {
        container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    });
    edited(debugging(&container), |request| {
        for object in ["object", "oldObject"] {
            request[object]["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        }
    })
}

#[rstest]
#[case::shared_processes(json!({"shareProcessNamespace": true}), json!({}), "can read the tokens of the sidecars \"agent\", \"log\" through /proc, since spec.shareProcessNamespace is true")]
#[case::the_nodes_processes(json!({"hostPID": true}), json!({}), "can read the tokens of the sidecars \"agent\", \"log\" through /proc, since spec.hostPID is true")]
#[case::a_privileged_one(json!({}), json!({"securityContext": {"privileged": true}}), "is privileged and can read the tokens of the sidecars \"agent\", \"log\"")]
#[case::that_traces(json!({}), json!({"securityContext": {"capabilities": {"add": ["SYS_PTRACE"]}}}), "has the capability SYS_PTRACE and can read the tokens of the sidecars \"agent\", \"log\"")]
#[case::that_mounts(json!({}), json!({"securityContext": {"capabilities": {"add": ["CAP_SYS_ADMIN"]}}}), "has the capability SYS_ADMIN and can read the tokens of the sidecars \"agent\", \"log\"")]
#[case::that_may_do_all(json!({}), json!({"securityContext": {"capabilities": {"add": ["ALL"]}}}), "has the capability ALL and can read the tokens of the sidecars \"agent\", \"log\"")]
#[case::beside_the_app(json!({"hostPID": true}), json!({"targetContainerName": "app"}), "can read the tokens of the sidecars \"agent\", \"log\" through /proc, since spec.hostPID is true")]
fn e7_tok9_tok16_what_sees_the_sidecars_is_warned_of_or_refused(
    #[case] spec: Value,
    #[case] more: Value,
    #[case] warning: &str,
) {
    for setting in ["Deny", "Warn"] {
        let answer = admit_in(&debugging_in(&spec, &more), json!({"ephemeralContainers": setting}), cluster());
        assert_eq!(verdict(&answer), "accepted", "as at the Pod's admission");
        assert_eq!(answer.warnings.unwrap(), [format!("ephemeral container \"debug\" {warning}")]);
    }
    let rules = json!({"ephemeralContainers": "Warn", "exposure": "Deny"});
    assert_eq!(
        verdict(&admit_in(&debugging_in(&spec, &more), rules, cluster())),
        format!(
            "403 spec.ephemeralContainers[0]: ephemeral container \"debug\" {warning}; debug without it, or set \
             serviceAccounts.exposure to Warn"
        ),
        "TOK-16"
    );
}

#[rstest]
#[case::plain(json!({}), json!({}))]
#[case::with_other_capabilities(json!({"hostNetwork": true}), json!({"securityContext": {"privileged": false, "capabilities": {"add": ["NET_RAW"], "drop": ["ALL"]}}}))]
fn e7_tok9_what_sees_nothing_is_not(#[case] spec: Value, #[case] more: Value) {
    let answer = admit_in(&debugging_in(&spec, &more), json!({}), cluster());
    assert_eq!((verdict(&answer).as_str(), answer.warnings), ("accepted", None));
}

/// One that reaches for the sidecar's processes by name is refused, whatever else it may do.
#[test]
fn e7_a_privileged_container_beside_a_sidecar_is_refused() {
    let more = json!({"securityContext": {"privileged": true}, "targetContainerName": "log"});
    let answer = admit_in(&debugging_in(&json!({}), &more), json!({}), cluster());
    assert!(verdict(&answer).starts_with("403 spec.ephemeralContainers[0]: "), "{}", verdict(&answer));
}

/// Without a token in the Pod, there is nothing to warn of.
#[test]
fn e7_tok9_other_pods_are_debugged_as_ever() {
    let bare =
        edited(debugging_in(&json!({"hostPID": true}), &json!({"securityContext": {"privileged": true}})), |request| {
            for object in ["object", "oldObject"] {
                for container in [1, 2] {
                    request[object]["spec"]["containers"][container]["volumeMounts"] = json!([]);
                }
            }
        });
    let answer = admit_in(&bare, json!({}), cluster());
    assert_eq!((verdict(&answer).as_str(), answer.warnings), ("accepted", None));
}
