//! The condition of a SidecarSet that asks for what the cluster's version of Kubernetes does not have (FIELD-5).

use pillion_admission::settings::Settings;
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_kubernetes::version::KubernetesVersion;
use pillion_sidecarset::newer::{Asked, Shortfall, shortfalls};
use pillion_sidecarset::sidecar_set::decode::{Decoded, decode};
use serde_json::Value;

use crate::Step;
use crate::condition::{self, Condition};

/// The type of the condition, and its reason if it is true.
pub const KUBERNETES_TOO_OLD: &str = "KubernetesTooOld";
/// The reason once it is not true any more.
const NEW_ENOUGH: &str = "NewEnough";
/// The most places that a message names.
const PLACES_MAX: usize = 5;

/// Returns what a SidecarSet of the cluster asks for that this version of Kubernetes does not have, as text for people.
/// A feature gate may be on, so what needs one does not count. A SidecarSet that cannot be decoded asks for nothing.
pub fn too_old(sidecar_set: &Value, settings: &Settings, cluster: KubernetesVersion) -> Option<String> {
    let set = decode(sidecar_set.clone()).map(Decoded::into_sidecar_set).ok()?;
    let asked = Asked { native_sidecars: settings.native_sidecars, rollouts: Some(&settings.rollouts) };
    let mut found = shortfalls(&set, asked, cluster);
    found.retain(|shortfall| shortfall.is_certain);
    let more = found.len().saturating_sub(PLACES_MAX);
    let shown = found.iter().take(PLACES_MAX).map(|Shortfall { path, message, .. }| format!("{path}: {message}"));
    let mut lines: Vec<String> = shown.collect();
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// Returns the step that writes the condition; `None` if the status says it already, or if there never was a problem.
pub fn too_old_condition(sidecar_set: &Value, problem: Option<&str>, now: Timestamp) -> Option<Step> {
    let said = condition::find(sidecar_set, KUBERNETES_TOO_OLD);
    let (status, reason, message) = match problem {
        Some(problem) => (true, KUBERNETES_TOO_OLD, problem),
        None if said.is_some_and(|said| json::text(said, &["status"]) == "True") => {
            (false, NEW_ENOUGH, "the cluster has what this SidecarSet asks for")
        }
        None => return None,
    };
    condition::step(sidecar_set, Condition { type_: KUBERNETES_TOO_OLD, status, reason, message, since: None }, now)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000);

    fn set(containers: &Value, conditions: &Value) -> Value {
        json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
            "metadata": {"name": "logs", "uid": "u", "generation": 3, "resourceVersion": "7"},
            "spec": {"containers": containers}, "status": {"conditions": conditions},
        })
    }

    fn problem(containers: &Value, minor: u32) -> Option<String> {
        too_old(&set(containers, &json!([])), &Settings::default(), KubernetesVersion(minor))
    }

    #[test]
    fn field5_what_no_gate_can_bring_counts() {
        let containers = json!([{"name": "a", "image": "a:1", "restartPolicyRules": []}]);
        let told = problem(&containers, 33).unwrap();
        assert!(
            told.starts_with(
                "spec.containers[0].restartPolicyRules: restart policies of containers need Kubernetes 1.35"
            ),
            "{told}"
        );
        assert_eq!(problem(&containers, 34), None, "a gate may be on");
        assert_eq!(problem(&json!(7), 20), None, "it cannot be decoded");
    }

    #[test]
    fn field5_a_message_has_an_end() {
        let containers: Vec<Value> = (0..9)
            .map(|index| json!({"name": format!("a{index}"), "image": "a:1", "restartPolicyRules": []}))
            .collect();
        let told = problem(&json!(containers), 33).unwrap();
        assert!(told.contains("spec.containers[4].") && told.ends_with("; and 4 more"), "{told}");
    }

    #[test]
    fn field5_the_condition_comes_and_goes() {
        let operations = |conditions: Value, problem: Option<&str>| {
            let step = too_old_condition(&set(&json!([]), &conditions), problem, NOW);
            step.map(|step| {
                let Step::JsonPatch { operations, .. } = step else { panic!("{step:?}") };
                let last = operations.last().unwrap();
                let text = |key: &str| last["value"][key].as_str().unwrap_or_default().to_owned();
                format!("{} {} {}", text("status"), text("reason"), text("message"))
            })
        };
        let old = |status: &str| json!([{"type": KUBERNETES_TOO_OLD, "status": status, "reason": "R", "message": "m"}]);
        assert_eq!(operations(json!([]), Some("too old")).as_deref(), Some("True KubernetesTooOld too old"));
        assert_eq!(operations(json!([]), None), None);
        assert_eq!(operations(old("False"), None), None);
        let gone = "False NewEnough the cluster has what this SidecarSet asks for";
        assert_eq!(operations(old("True"), None).as_deref(), Some(gone));
    }
}
