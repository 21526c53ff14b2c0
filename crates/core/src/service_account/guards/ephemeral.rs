//! Containers that are added to a running Pod (E7).

use serde_json::Value;

use super::{Findings, forbidden};
use crate::json;
use crate::pod;
use crate::service_account::names;
use crate::service_account::rules::{Judgement, Rules};
use crate::service_account::tokens;

/// Judges the ephemeral containers that are new: none may mount the token of a sidecar, or share the processes of a
/// container that holds one.
pub fn judge(object: &Value, old_object: &Value, rules: &Rules) -> Findings {
    let mut findings = Findings::default();
    let list = &["spec", "ephemeralContainers"];
    let known = json::items(old_object, list);
    for (index, container) in json::items(object, list).iter().enumerate() {
        if known.iter().any(|known| pod::name(known) == pod::name(container)) {
            continue;
        }
        let name = pod::name(container);
        let mut found = tokens::reached_for(object, container);
        let target = json::text(container, &["targetContainerName"]);
        if !target.is_empty() && holds_token(object, target) {
            found.push(format!("shares the processes of the sidecar \"{target}\""));
        }
        for what in found {
            let problem = format!("ephemeral container \"{name}\" {what}, and could use its ServiceAccount");
            match rules.ephemeral_containers {
                Judgement::Deny => findings.reasons.push(forbidden(
                    &format!("spec.ephemeralContainers[{index}]"),
                    problem,
                    "debug another container, or set serviceAccounts.ephemeralContainers to Warn",
                )),
                Judgement::Warn => findings.warnings.push(problem),
                Judgement::Allow => {}
            }
        }
    }
    findings
}

/// Whether a container of the Pod has the token of a sidecar.
fn holds_token(pod: &Value, name: &str) -> bool {
    tokens::containers(pod).filter(|container| pod::name(container) == name).any(|container| {
        let mounts = json::items(container, &["volumeMounts"]);
        mounts.iter().any(|mount| pod::name(mount).starts_with(names::TOKEN_VOLUME_PREFIX))
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn pod(added: &Value) -> Value {
        json!({"spec": {
            "containers": [
                {"name": "app"},
                {"name": "agent", "volumeMounts": [{"name": "sidecarset-sa-0123456789abcdef", "mountPath": names::MOUNT_PATH}]}
            ],
            "volumes": [
                {"name": "sidecarset-sa-0123456789abcdef", "projected": {"sources": []}},
                {"name": "token", "secret": {"secretName": "sidecarset-token-0123456789abcdef"}}
            ],
            "ephemeralContainers": added
        }})
    }

    fn judged(added: &Value, rules: &Rules) -> Findings {
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
    #[case::variable(
        json!({"envFrom": [{"secretRef": {"name": "sidecarset-token-0123456789abcdef"}}]}),
        "takes its environment from the Secret \"sidecarset-token-0123456789abcdef\""
    )]
    #[case::processes(json!({"targetContainerName": "agent"}), "shares the processes of the sidecar \"agent\"")]
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
        // One that was there already is not judged again: the list only grows.
        assert_eq!(judge(&pod(&json!([container])), &pod(&json!([container])), &Rules::default()), Findings::default());
    }

    #[rstest]
    #[case::bare(json!({}))]
    #[case::app(json!({"targetContainerName": "app"}))]
    #[case::nobody(json!({"targetContainerName": "gone"}))]
    fn e7_others_are_let_through(#[case] mut container: Value) {
        container["name"] = json!("debugger");
        assert_eq!(judged(&json!([container]), &Rules::default()), Findings::default());
    }
}
