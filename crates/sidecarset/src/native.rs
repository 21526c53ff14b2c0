//! Containers of a `SidecarSet` that become native sidecars in Pods (NAT-1 to NAT-4).
//!
//! A native sidecar starts before the containers of the app and ends after them, so that a Pod that ends is not kept by
//! it. Hashes and stored versions are those of the `SidecarSet` as it is written: only the Pod differs.

use pillion_kubernetes::field::{FieldError, FieldPath};
use pillion_kubernetes::json::{self, Object};
use serde::Deserialize;
use serde_json::Value;

use crate::sidecar::{List, is_pair};
use crate::sidecar_set::SidecarSet;

/// The annotation of a `SidecarSet` that says in which Pods its containers become native sidecars (NAT-1).
pub const NATIVE: &str = "pillion.dev/native";

/// The Pods in which containers of SidecarSets become native sidecars (NAT-1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(expecting = "EndingPods, Always, or \"Off\" in quotes, since YAML reads Off as a boolean")]
pub enum NativeSidecars {
    /// No Pods: containers of a SidecarSet become containers of the Pod, as with OpenKruise.
    #[default]
    Off,
    /// Pods whose `restartPolicy` is not `Always`, such as those of Jobs.
    EndingPods,
    /// All Pods.
    Always,
}

/// The values with their names.
const ALL: [(&str, NativeSidecars); 3] =
    [("Off", NativeSidecars::Off), ("EndingPods", NativeSidecars::EndingPods), ("Always", NativeSidecars::Always)];

impl NativeSidecars {
    /// Returns what a `SidecarSet` asks for. Its annotation wins over `setting`, which does not hold for one with hot
    /// upgrade.
    ///
    /// # Errors
    /// The annotation has an unknown value, or the containers of the `SidecarSet` cannot become native sidecars.
    pub fn from_sidecar_set(set: &SidecarSet, setting: Self) -> Result<Self, FieldError> {
        let path = || FieldPath::new("metadata.annotations").key(NATIVE).to_string();
        let is_hot = || set.containers().iter().any(|container| is_pair(container, List::Containers));
        let has_own_restarts =
            || set.containers().iter().any(|container| RESTARTS.iter().any(|key| has(container, key)));
        let text = set.annotation(NATIVE).trim();
        if text.is_empty() {
            return Ok(if setting != Self::Off && (is_hot() || has_own_restarts()) { Self::Off } else { setting });
        }
        let Some((_, asked)) = ALL.iter().find(|(name, _)| *name == text) else {
            return Err(FieldError::not_supported(path(), text, &ALL.map(|(name, _)| name)));
        };
        if *asked != Self::Off && is_hot() {
            let detail = "a native sidecar has no hot upgrade; use upgradeType ColdUpgrade, or remove the annotation";
            return Err(FieldError::invalid(path(), text, detail));
        }
        if *asked != Self::Off && has_own_restarts() {
            let detail = "a native sidecar is always restarted; remove restartPolicy and restartPolicyRules from the \
                          containers, or remove the annotation";
            return Err(FieldError::invalid(path(), text, detail));
        }
        Ok(*asked)
    }

    /// Whether containers become native sidecars in a Pod that ends, or in one that does not.
    pub const fn apply(self, ends: bool) -> bool {
        match self {
            Self::Off => false,
            Self::EndingPods => ends,
            Self::Always => true,
        }
    }
}

/// The fields of a container with a say in its restarts.
const RESTARTS: [&str; 2] = ["restartPolicy", "restartPolicyRules"];

fn has(container: &Value, key: &str) -> bool {
    container.get(key).is_some_and(|value| !value.is_null())
}

/// Returns the `SidecarSet` with its containers as native sidecars, behind its init containers (NAT-2). A container that
/// goes before those of the Pod does not pass an init container of its own `SidecarSet` that does not.
#[must_use]
pub fn converted(mut set: SidecarSet) -> SidecarSet {
    let init_containers = set.init_containers();
    let written = init_containers.len();
    let follows = init_containers.iter().any(|container| json::text(container, &[POSITION]) != BEFORE);
    if let Some(spec) = set.as_value_mut().as_object_mut().and_then(|set| json::object_mut(set, "spec"))
        && let Some(Value::Array(containers)) = json::take(spec, List::Containers.key())
        && let Some(init_containers) = json::list_mut(spec, List::Init.key())
    {
        init_containers.extend(containers.into_iter().map(|container| native(container, follows)));
    }
    set.with_natives_from(written)
}

/// The field with the position of a sidecar, and the value for those that go before the containers of the Pod (INJ-25).
const POSITION: &str = "podInjectPolicy";
const BEFORE: &str = "BeforeAppContainer";
const AFTER: &str = "AfterAppContainer";

fn native(mut container: Value, follows: bool) -> Value {
    let fields: Option<&mut Object> = container.as_object_mut();
    if let Some(fields) = fields {
        fields.insert("restartPolicy".to_owned(), "Always".into());
        if follows {
            fields.insert(POSITION.to_owned(), AFTER.into());
        }
    }
    container
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::pod::Pod;

    fn set(annotation: &str, spec: &Value) -> SidecarSet {
        SidecarSet::from_decoded(json!({
            "metadata": {"name": "s", "annotations": {NATIVE: annotation}}, "spec": spec
        }))
    }

    fn hot() -> Value {
        json!({"containers": [{"name": "c", "upgradeStrategy": {"upgradeType": "HotUpgrade"}}]})
    }

    #[rstest]
    #[case::nothing("", NativeSidecars::Off, NativeSidecars::Off)]
    #[case::the_setting("", NativeSidecars::Always, NativeSidecars::Always)]
    #[case::the_annotation_wins("Off", NativeSidecars::Always, NativeSidecars::Off)]
    #[case::ending_pods("EndingPods", NativeSidecars::Off, NativeSidecars::EndingPods)]
    #[case::always(" Always ", NativeSidecars::EndingPods, NativeSidecars::Always)]
    fn nat1_the_annotation_wins_over_the_setting(
        #[case] annotation: &str,
        #[case] setting: NativeSidecars,
        #[case] expected: NativeSidecars,
    ) {
        let set = set(annotation, &json!({"containers": [{"name": "c"}]}));
        assert_eq!(NativeSidecars::from_sidecar_set(&set, setting), Ok(expected));
    }

    #[rstest]
    #[case::the_setting("", NativeSidecars::Always, NativeSidecars::Off)]
    #[case::off("Off", NativeSidecars::Always, NativeSidecars::Off)]
    fn nat1_a_container_with_restarts_of_its_own_stays_one(
        #[case] annotation: &str,
        #[case] setting: NativeSidecars,
        #[case] expected: NativeSidecars,
        #[values(json!({"restartPolicy": "Never"}), json!({"restartPolicyRules": []}))] restarts: Value,
    ) {
        let set = set(annotation, &json!({"containers": [{"name": "a"}, restarts]}));
        assert_eq!(NativeSidecars::from_sidecar_set(&set, setting), Ok(expected));
    }

    #[rstest]
    #[case::own_restarts(
        "Always",
        json!({"containers": [{"name": "c", "restartPolicy": "OnFailure"}]}),
        "Invalid value: \"Always\": a native sidecar is always restarted; remove restartPolicy and restartPolicyRules from \
         the containers, or remove the annotation"
    )]
    #[case::unknown("always", json!({}), "Unsupported value: \"always\": supported values: \"Off\", \"EndingPods\", \"Always\"")]
    #[case::hot_upgrade(
        "EndingPods",
        hot(),
        "Invalid value: \"EndingPods\": a native sidecar has no hot upgrade; use upgradeType ColdUpgrade, or remove the \
         annotation"
    )]
    fn nat1_what_cannot_be_done_is_an_error(#[case] annotation: &str, #[case] spec: Value, #[case] expected: &str) {
        let error = NativeSidecars::from_sidecar_set(&set(annotation, &spec), NativeSidecars::Off).unwrap_err();
        assert_eq!(error.to_string(), format!("metadata.annotations[pillion.dev/native]: {expected}"));
    }

    #[rstest]
    #[case("", NativeSidecars::Always)]
    #[case("Off", NativeSidecars::Off)]
    fn nat1_the_setting_leaves_hot_upgrades_alone(#[case] annotation: &str, #[case] setting: NativeSidecars) {
        let asked = NativeSidecars::from_sidecar_set(&set(annotation, &hot()), setting);
        assert_eq!(asked, Ok(NativeSidecars::Off));
    }

    #[rstest]
    #[case::always(json!({"restartPolicy": "Always"}), false)]
    #[case::the_default(json!({}), false)]
    #[case::never(json!({"restartPolicy": "Never"}), true)]
    #[case::on_failure(json!({"restartPolicy": "OnFailure"}), true)]
    fn nat1_a_pod_ends_by_its_restart_policy(#[case] spec: Value, #[case] ends: bool) {
        let pod = json!({ "spec": spec });
        let pod = Pod::decode(&pod).unwrap();
        assert_eq!(pod.ends(), ends);
        assert_eq!(NativeSidecars::EndingPods.apply(ends), ends);
        assert!(NativeSidecars::Always.apply(ends) && !NativeSidecars::Off.apply(ends));
    }

    #[test]
    fn nat2_containers_become_native_sidecars_behind_the_init_containers() {
        let written = json!({
            "initContainers": [{"name": "i", "podInjectPolicy": "BeforeAppContainer"}],
            "containers": [
                {"name": "c", "podInjectPolicy": "BeforeAppContainer", "ports": [{"containerPort": 1}]},
                {"name": "d", "podInjectPolicy": "AfterAppContainer"},
            ],
            "volumes": [],
        });
        let natives = converted(set("Always", &written));
        assert_eq!(natives.native_from(), Some(1));
        assert_eq!(
            natives.spec(&[]).unwrap(),
            &json!({
                "initContainers": [
                    {"name": "i", "podInjectPolicy": "BeforeAppContainer"},
                    {
                        "name": "c", "podInjectPolicy": "BeforeAppContainer", "ports": [{"containerPort": 1}],
                        "restartPolicy": "Always",
                    },
                    {"name": "d", "podInjectPolicy": "AfterAppContainer", "restartPolicy": "Always"},
                ],
                "volumes": [],
            })
        );
    }

    #[test]
    fn nat2_no_sidecar_passes_an_init_container_of_its_own_set() {
        let written = json!({
            "initContainers": [{"name": "i", "podInjectPolicy": "AfterAppContainer"}],
            "containers": [{"name": "c", "podInjectPolicy": "BeforeAppContainer"}],
        });
        let natives = converted(set("Always", &written));
        let places = natives.init_containers().iter().map(|it| json::text(it, &[POSITION])).collect::<Vec<_>>();
        assert_eq!(places, [AFTER, AFTER]);
    }
}
