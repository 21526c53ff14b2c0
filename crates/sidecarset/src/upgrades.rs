//! How the versions of a `SidecarSet` reach running Pods, beyond OpenKruise's upgrades of images: annotations of a
//! `SidecarSet`, and the setting `rollouts` for all of them (ROLL-60 to ROLL-63).

use pillion_kubernetes::duration::Duration;
use pillion_kubernetes::field::{FieldError, FieldPath};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use crate::sidecar_set::SidecarSet;

/// The annotation with the upgrade policies, separated by commas (ROLL-60).
pub const UPGRADE_POLICY: &str = "pillion.dev/upgrade-policy";
/// The annotation with the progress deadline: a duration, or `0` for none (ROLL-61).
pub const PROGRESS_DEADLINE: &str = "pillion.dev/progress-deadline";
/// The annotation that asks for the way back from a rollout that fails: `true` or `false` (ROLL-62).
pub const ROLLBACK: &str = "pillion.dev/rollback";
/// The annotation that asks for upgrades of native sidecars in place: `true` or `false` (ROLL-63).
pub const NATIVE_UPGRADE: &str = "pillion.dev/native-upgrade";

/// A way in which a Pod may get another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
pub enum UpgradePolicy {
    /// Images change in the running Pod. This is always allowed.
    InPlace,
    /// Cpu and memory of injected containers change through the subresource `resize` of the Pod.
    Resize,
    /// The Pod is evicted, and its controller creates another one.
    Recreate,
}

/// All policies, with their names.
const POLICIES: [(&str, UpgradePolicy); 3] =
    [("InPlace", UpgradePolicy::InPlace), ("Resize", UpgradePolicy::Resize), ("Recreate", UpgradePolicy::Recreate)];

/// The setting `rollouts`: what holds for each `SidecarSet` without the annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase", expecting = "an object")]
pub struct RolloutSettings {
    /// What the controller `sidecarset-rollout` may do with a Pod in which more than images must change; `InPlace`
    /// alone leaves such Pods as they are.
    #[cfg_attr(feature = "schema", schemars(extend("default" = ["InPlace"]), example = ["Resize", "Recreate"]))]
    pub upgrade_policies: Vec<UpgradePolicy>,
    /// A rollout stops if no further Pod is updated or ready for so long, as in `10m`.
    #[serde(deserialize_with = "deadline")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>", example = "10m"))]
    pub progress_deadline: Option<Duration>,
    /// Whether Pods go back to the version before if a rollout has stopped.
    #[cfg_attr(feature = "schema", schemars(extend("default" = false), example = true))]
    pub rollback: bool,
}

/// What a `SidecarSet` asks for. [`Default`] is what OpenKruise does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an answer of its own, and any combination is valid")]
pub struct Upgrades {
    /// Whether cpu and memory may change in running Pods.
    pub resize: bool,
    /// Whether Pods may be evicted.
    pub recreate: bool,
    /// Whether the images of native sidecars change in running Pods.
    pub native: bool,
    /// How long a rollout may make no progress. Greater than zero.
    pub progress_deadline: Option<Duration>,
    /// Whether Pods go back to the version before if the rollout has stopped.
    pub rollback: bool,
}

impl Upgrades {
    /// Reads what a `SidecarSet` asks for. An annotation wins over the settings. A value that cannot be read is an error,
    /// and counts as if it asked for nothing.
    pub fn from_sidecar_set(set: &SidecarSet, settings: &RolloutSettings) -> (Self, Vec<FieldError>) {
        let mut errors = Vec::new();
        let given = |key| Some(set.annotation(key).trim()).filter(|text| !text.is_empty());
        let mut policies = settings.upgrade_policies.clone();
        if let Some(text) = given(UPGRADE_POLICY) {
            policies.clear();
            for policy in policies_in(text) {
                match policy {
                    Ok(policy) => policies.push(policy),
                    Err(word) => errors.push(FieldError::not_supported(
                        path(UPGRADE_POLICY),
                        word,
                        &POLICIES.map(|(name, _)| name),
                    )),
                }
            }
        }
        let progress_deadline = match given(PROGRESS_DEADLINE).map(parse_deadline) {
            None => settings.progress_deadline,
            Some(Ok(deadline)) => deadline,
            Some(Err(problem)) => {
                errors.push(FieldError::invalid(path(PROGRESS_DEADLINE), set.annotation(PROGRESS_DEADLINE), problem));
                None
            }
        };
        let mut flag = |key, default| match given(key) {
            None => default,
            Some("true") => true,
            Some("false") => false,
            Some(other) => {
                errors.push(FieldError::not_supported(path(key), other, &["false", "true"]));
                false
            }
        };
        let upgrades = Self {
            resize: policies.contains(&UpgradePolicy::Resize),
            recreate: policies.contains(&UpgradePolicy::Recreate),
            native: flag(NATIVE_UPGRADE, false),
            progress_deadline,
            rollback: flag(ROLLBACK, settings.rollback),
        };
        (upgrades, errors)
    }
}

/// What is wrong with a rollback without a progress deadline (ROLL-62).
pub const NO_FAILURE: &str = "no rollout fails without a progress deadline, so nothing ever goes back";

/// Whether rollouts have a progress deadline by this value of the annotation, or by the settings if it is empty. A value
/// that cannot be read is no deadline.
pub fn has_progress_deadline(annotation: &str, settings: &RolloutSettings) -> bool {
    match annotation.trim() {
        "" => settings.progress_deadline.is_some(),
        text => parse_deadline(text).is_ok_and(|deadline| deadline.is_some()),
    }
}

/// Whether Pods may be evicted by this value of the annotation, or by the settings if it is empty.
pub fn can_recreate(annotation: &str, settings: &RolloutSettings) -> bool {
    match annotation.trim() {
        "" => settings.upgrade_policies.contains(&UpgradePolicy::Recreate),
        text => policies_in(text).any(|policy| policy == Ok(UpgradePolicy::Recreate)),
    }
}

/// Returns the policies in a text of the annotation, and the words that are none.
fn policies_in(text: &str) -> impl Iterator<Item = Result<UpgradePolicy, &str>> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.map(|word| POLICIES.iter().find(|(name, _)| *name == word).map(|(_, policy)| *policy).ok_or(word))
}

/// Whether a `SidecarSet` asks for upgrades of native sidecars in place (ROLL-63).
pub fn is_native_upgrade(set: &SidecarSet) -> bool {
    set.annotation(NATIVE_UPGRADE).trim() == "true"
}

fn path(annotation: &str) -> String {
    FieldPath::new("metadata.annotations").key(annotation).to_string()
}

/// Parses a duration that is not negative; zero is no deadline.
fn parse_deadline(text: &str) -> Result<Option<Duration>, String> {
    match Duration::parse(text) {
        Ok(Duration(0)) => Ok(None),
        Ok(deadline) if deadline.0 > 0 => Ok(Some(deadline)),
        Ok(_) => Err("must not be negative; write it as in \"10m\", or \"0\" for none".to_owned()),
        Err(error) => Err(format!("{}; write it as in \"10m\"", error.as_str())),
    }
}

fn deadline<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    let parsed = text
        .filter(|text| !text.is_empty())
        .map(|text| parse_deadline(&text).map_err(|problem| D::Error::custom(format_args!("{text:?}: {problem}"))));
    Ok(parsed.transpose()?.flatten())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    const MINUTE: Duration = Duration(60_000_000_000);

    fn set(annotations: &Value) -> SidecarSet {
        SidecarSet::from_decoded(json!({"metadata": {"name": "s", "annotations": annotations}}))
    }

    #[rstest]
    #[case::nothing(json!({}), Upgrades::default())]
    #[case::roll60_in_place(json!({UPGRADE_POLICY: "InPlace"}), Upgrades::default())]
    #[case::roll60_several(
        json!({UPGRADE_POLICY: "Resize, Recreate"}),
        Upgrades { resize: true, recreate: true, ..Upgrades::default() }
    )]
    #[case::roll60_empty(json!({UPGRADE_POLICY: ""}), Upgrades::default())]
    #[case::roll61(
        json!({PROGRESS_DEADLINE: "1m"}),
        Upgrades { progress_deadline: Some(MINUTE), ..Upgrades::default() }
    )]
    #[case::roll62(json!({ROLLBACK: "true"}), Upgrades { rollback: true, ..Upgrades::default() })]
    #[case::roll63(json!({NATIVE_UPGRADE: "true"}), Upgrades { native: true, ..Upgrades::default() })]
    fn annotations_ask_for_more_than_openkruise_does(#[case] annotations: Value, #[case] expected: Upgrades) {
        let set = set(&annotations);
        assert_eq!(Upgrades::from_sidecar_set(&set, &RolloutSettings::default()), (expected, vec![]));
        assert_eq!(is_native_upgrade(&set), expected.native);
    }

    #[test]
    fn an_annotation_wins_over_the_settings() {
        let settings: RolloutSettings = serde_json::from_value(
            json!({"upgradePolicies": ["Recreate"], "progressDeadline": "1m", "rollback": true}),
        )
        .unwrap();
        let of = |annotations: &Value| Upgrades::from_sidecar_set(&set(annotations), &settings).0;
        let all = Upgrades { recreate: true, progress_deadline: Some(MINUTE), rollback: true, ..Upgrades::default() };
        assert_eq!(of(&json!({})), all);
        let none = json!({UPGRADE_POLICY: "InPlace", PROGRESS_DEADLINE: "0", ROLLBACK: "false"});
        assert_eq!(of(&none), Upgrades::default());
    }

    #[rstest]
    #[case::policy(
        json!({UPGRADE_POLICY: "Resize,Restart"}),
        "metadata.annotations[pillion.dev/upgrade-policy]: Unsupported value: \"Restart\": supported values: \"InPlace\", \"Resize\", \"Recreate\""
    )]
    #[case::deadline(
        json!({PROGRESS_DEADLINE: "soon"}),
        "metadata.annotations[pillion.dev/progress-deadline]: Invalid value: \"soon\": time: invalid duration \"soon\"; write it as in \"10m\""
    )]
    #[case::negative_deadline(
        json!({PROGRESS_DEADLINE: "-1m"}),
        "metadata.annotations[pillion.dev/progress-deadline]: Invalid value: \"-1m\": must not be negative; write it as in \"10m\", or \"0\" for none"
    )]
    #[case::flag(
        json!({ROLLBACK: "yes"}),
        "metadata.annotations[pillion.dev/rollback]: Unsupported value: \"yes\": supported values: \"false\", \"true\""
    )]
    fn a_value_that_cannot_be_read_is_an_error(#[case] annotations: Value, #[case] expected: &str) {
        let (_, errors) = Upgrades::from_sidecar_set(&set(&annotations), &RolloutSettings::default());
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    }

    #[rstest]
    #[case(json!({"progressDeadline": "-1m"}), "must not be negative")]
    #[case(json!({"upgradePolicies": ["Restart"]}), "unknown variant `Restart`")]
    #[case(json!({"deadline": "1m"}), "unknown field `deadline`")]
    fn settings_are_checked_when_they_are_decoded(#[case] settings: Value, #[case] expected: &str) {
        let error = serde_json::from_value::<RolloutSettings>(settings).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
