//! Guards running Pods against ephemeral containers (E7).

use std::collections::BTreeSet;

use pillion_kubernetes::json;
use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::pod;
use serde_json::Value;

use super::Objections;
use crate::rules::{Exposure, Judgement, Rules};
use crate::tokens::held::shown;
use crate::tokens::reach::Running;
use crate::tokens::sight;
use pillion_kubernetes::field::ERRORS_MAX;

/// Judges the new ephemeral containers. None may mount the token of a sidecar, or share the processes of a container
/// that holds one. One that the kernel lets see such a container causes a warning or is refused, as at the Pod's admission
/// (TOK-9, TOK-16).
pub fn judge(object: &Value, old_object: &Value, rules: &Rules) -> Objections {
    let mut findings = Objections::default();
    let list = &["spec", "ephemeralContainers"];
    let known: BTreeSet<_> = json::items(old_object, list).iter().map(pod::name).collect();
    let running = Running::from_pod(object, &rules.trusted_csi_drivers);
    let holders = sight::named(running.holders().iter().copied());
    let fields: Vec<&str> = sight::shared_by(object).collect();
    for (index, container) in json::items(object, list).iter().enumerate() {
        let name = pod::name(container);
        if known.contains(name) {
            continue;
        }
        for reach in running.reached_for(container) {
            let problem = format!("ephemeral container {} {reach}, and could use its ServiceAccount", shown(name));
            match rules.ephemeral_containers {
                Judgement::Deny => findings.reasons.push(Reason::forbidden(
                    format!("spec.ephemeralContainers[{index}]"),
                    problem,
                    "debug another container, or set serviceAccounts.ephemeralContainers to Warn",
                )),
                Judgement::Warn => findings.warnings.push(problem),
                Judgement::Allow => {}
            }
        }
        let found = findings.warnings.len().max(findings.reasons.len());
        if !running.holders().is_empty() && found < ERRORS_MAX {
            let seen = sight::of_ephemeral(container, &fields, &holders);
            match rules.exposure {
                Exposure::Warn => findings.warnings.extend(seen),
                Exposure::Deny => findings.reasons.extend(seen.into_iter().map(|problem| {
                    let remedy = "debug without it, or set serviceAccounts.exposure to Warn";
                    Reason::forbidden(format!("spec.ephemeralContainers[{index}]"), problem, remedy)
                })),
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::names;

    fn pod(added: &Value) -> Value {
        json!({"spec": {
            "containers": [
                {"name": "app"},
                {"name": "agent", "volumeMounts": [{"name": "sidecarset-sa-0123456789abcdef", "mountPath": names::MOUNT_PATH}]}
            ],
            "volumes": [
                {"name": "sidecarset-sa-0123456789abcdef", "projected": {"sources": []}},
                {"name": "token", "secret": {"secretName": "sidecarset-token-0123456789abcdef"}},
                {"name": "driver", "csi": {"driver": "nfs.csi.k8s.io", "nodePublishSecretRef": {"name": "sidecarset-token-0123456789abcdef"}}}
            ],
            "ephemeralContainers": added
        }})
    }

    fn judged(added: &Value, rules: &Rules) -> Objections {
        judge(&pod(added), &pod(&json!([])), rules)
    }

    #[rstest]
    #[case::volume(
        json!({"volumeMounts": [{"name": "sidecarset-sa-0123456789abcdef", "mountPath": "/t"}]}),
        "mounts the volume \"sidecarset-sa-0123456789abcdef\""
    )]
    #[case::secret(
        json!({"volumeMounts": [{"name": "token", "mountPath": "/t"}]}),
        "mounts the Secret \"sidecarset-token-0123456789abcdef\""
    )]
    #[case::secret_of_a_driver(
        json!({"volumeMounts": [{"name": "driver", "mountPath": "/t"}]}),
        "mounts the Secret \"sidecarset-token-0123456789abcdef\""
    )]
    #[case::device(
        json!({"volumeDevices": [{"name": "sidecarset-sa-0123456789abcdef", "devicePath": "/t"}]}),
        "mounts the volume \"sidecarset-sa-0123456789abcdef\""
    )]
    #[case::file_of_variables(
        json!({"env": [{"name": "T", "valueFrom": {"fileKeyRef": {"volumeName": "sidecarset-sa-0123456789abcdef", "path": "token", "key": "t"}}}]}),
        "mounts the volume \"sidecarset-sa-0123456789abcdef\""
    )]
    #[case::variable(
        json!({"envFrom": [{"secretRef": {"name": "sidecarset-token-0123456789abcdef"}}]}),
        "takes its environment from the Secret \"sidecarset-token-0123456789abcdef\""
    )]
    #[case::processes(json!({"targetContainerName": "agent"}), "shares the processes of the container \"agent\"")]
    fn e7_ephemeral_containers_may_not_reach_a_sidecars_token(#[case] mut container: Value, #[case] what: &str) {
        container["name"] = json!("debugger");
        let findings = judged(&json!([container]), &Rules::default());
        let messages: Vec<String> = findings.reasons.iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [format!(
                "spec.ephemeralContainers[0]: ephemeral container \"debugger\" {what}, and could use its ServiceAccount; \
                 debug another container, or set serviceAccounts.ephemeralContainers to Warn"
            )]
        );
        let warn = Rules { ephemeral_containers: Judgement::Warn, ..Rules::default() };
        let findings = judged(&json!([container]), &warn);
        assert_eq!((findings.reasons.len(), findings.warnings.len()), (0, 1));
        // An existing container is not judged again: the list only grows.
        assert_eq!(
            judge(&pod(&json!([container])), &pod(&json!([container])), &Rules::default()),
            Objections::default()
        );
    }

    /// E19: if the Pod has its account for the sidecars, every volume that gives this account counts.
    #[rstest]
    #[case::token(json!({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}), true)]
    #[case::certificate(json!({"projected": {"sources": [{"podCertificate": {"signerName": "a/b"}}]}}), true)]
    #[case::driver(json!({"csi": {"driver": "vault.example"}}), true)]
    #[case::trusted_driver(json!({"csi": {"driver": "smb.csi.k8s.io"}}), false)]
    #[case::nothing(json!({"emptyDir": {}}), false)]
    fn e7_e19_what_gives_the_sidecars_account_may_not_be_mounted(#[case] mut volume: Value, #[case] refused: bool) {
        volume["name"] = json!("late");
        let added = json!([{"name": "debugger", "volumeMounts": [{"name": "late", "mountPath": "/t"}]}]);
        let mut pod = pod(&added);
        pod["spec"]["volumes"].as_array_mut().unwrap().push(volume);
        let judged = |pod: &Value| judge(pod, &json!({}), &Rules::default()).reasons.len();
        assert_eq!(judged(&pod), 0, "the Pod's account is its own");
        pod["spec"]["volumes"][0]["projected"]["sources"] = json!([{"serviceAccountToken": {"path": "token"}}]);
        assert_eq!(judged(&pod), usize::from(refused));
    }

    /// TOK-9: the Pod or the container gives up what separates containers.
    #[rstest]
    #[case::processes(json!({"shareProcessNamespace": true}), json!({}), &[
        "can read the tokens of the sidecar \"agent\" through /proc, since spec.shareProcessNamespace is true"
    ])]
    #[case::the_hosts_processes(json!({"hostPID": true}), json!({"targetContainerName": "app"}), &[
        "can read the tokens of the sidecar \"agent\" through /proc, since spec.hostPID is true"
    ])]
    #[case::privileged(json!({}), json!({"securityContext": {"privileged": true}}), &[
        "is privileged and can read the tokens of the sidecar \"agent\""
    ])]
    #[case::a_capability(json!({}), json!({"securityContext": {"capabilities": {"add": ["SYS_PTRACE"]}}}), &[
        "has the capability SYS_PTRACE and can read the tokens of the sidecar \"agent\""
    ])]
    #[case::both(json!({"hostPID": true}), json!({"securityContext": {"privileged": true}}), &[
        "can read the tokens of the sidecar \"agent\" through /proc, since spec.hostPID is true",
        "is privileged and can read the tokens of the sidecar \"agent\""
    ])]
    #[case::neither(json!({"hostPID": false, "hostNetwork": true}), json!({"securityContext": {"privileged": false}}), &[])]
    fn e7_tok9_tok16_what_sees_a_sidecar_is_warned_of_or_refused(
        #[case] spec: Value,
        #[case] mut container: Value,
        #[case] warnings: &[&str],
    ) {
        container["name"] = json!("debugger");
        let mut pod = pod(&json!([container]));
        pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let warnings: Vec<String> =
            warnings.iter().map(|text| format!("ephemeral container \"debugger\" {text}")).collect();
        let deny = Rules { exposure: Exposure::Deny, ..Rules::default() };
        let refused = judge(&pod, &json!({}), &deny);
        let said: Vec<String> = refused.reasons.iter().map(ToString::to_string).collect();
        let remedy = "debug without it, or set serviceAccounts.exposure to Warn";
        let expected: Vec<String> =
            warnings.iter().map(|text| format!("spec.ephemeralContainers[0]: {text}; {remedy}")).collect();
        assert_eq!((said, refused.warnings), (expected, Vec::new()), "TOK-16");
        assert_eq!(judge(&pod, &json!({}), &Rules::default()), Objections { warnings, ..Objections::default() });
        for rules in [Rules::default(), deny.clone()] {
            assert_eq!(judge(&pod, &pod, &rules), Objections::default(), "it was there before");
        }
        pod["spec"]["containers"][1]["volumeMounts"] = json!([]);
        for rules in [Rules::default(), deny] {
            assert_eq!(judge(&pod, &json!({}), &rules), Objections::default(), "nobody holds a token");
        }
    }

    #[rstest]
    #[case::bare(json!({}))]
    #[case::app(json!({"targetContainerName": "app"}))]
    #[case::nobody(json!({"targetContainerName": "gone"}))]
    fn e7_others_are_let_through(#[case] mut container: Value) {
        container["name"] = json!("debugger");
        assert_eq!(judged(&json!([container]), &Rules::default()), Objections::default());
    }
}
