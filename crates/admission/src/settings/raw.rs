//! The written form of the settings, and their decoding.

use std::borrow::Cow;

use pillion_bundle::Bundle;
use pillion_bundle::source::{BundleSource, ConfigMapName, MAX_AGE, OnUnavailable, max_age};
use pillion_gardener::settings::ShootSettings;
use pillion_identity::rules::Rules;
use pillion_kubernetes::duration::Duration;
use pillion_kubernetes::field::{Cause, FieldError, FieldErrors as _};
use pillion_kubernetes::json;
use pillion_kubernetes::text::{Label, checked};
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::gates::Gates;
use pillion_sidecarset::native::NativeSidecars;
use pillion_sidecarset::other_webhooks::OtherWebhooks;
use pillion_sidecarset::sidecar_set::weight;
use pillion_sidecarset::upgrades::RolloutSettings;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::shape::read;
use super::whitelist::Whitelist;
use super::{BorrowedSettings, Role, SIDECAR_SETS, SYSTEM_NAMESPACE, manifests};

const WHITELIST: &str = "patchPodMetadataWhitelist";
const BUNDLE_REF: &str = "bundleRef";
const ROLLOUTS: &str = "rollouts";

/// The settings of a Kubewarden policy that runs Pillion.
// Only the shape is read here: the manifests are taken out of their lists before, and the whitelist stays JSON.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase", expecting = "an object")]
pub(super) struct RawSettings {
    /// The SidecarSets that are injected.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Value>", extend("default" = []), example = super::schema::sidecar_sets()))]
    sidecar_sets: Vec<IgnoredAny>,
    /// Stored versions that `injectionStrategy.revision` names.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Value>", extend("default" = [])))]
    controller_revisions: Vec<IgnoredAny>,
    /// Further SidecarSets, compiled into one string by `pillion bundle`. This is cheaper for the policy server, which
    /// copies the settings for every request.
    #[cfg_attr(feature = "schema", schemars(extend("pattern" = "^(pillion-bundle-3:|$)")))]
    bundle: Option<String>,
    /// The ConfigMap in which a controller keeps compiled SidecarSets.
    #[cfg_attr(feature = "schema", schemars(
        schema_with = "super::schema::bundle_ref", example = super::schema::config_map_name()
    ))]
    bundle_ref: Option<ConfigMapName>,
    /// Whether the ConfigMap of `bundleRef` may come from the policy server's cache, which is up to five seconds old.
    #[cfg_attr(feature = "schema", schemars(example = true))]
    bundle_cache: bool,
    /// What happens if the ConfigMap of `bundleRef` is missing, damaged or too old.
    #[cfg_attr(feature = "schema", schemars(example = OnUnavailable::UseSettings))]
    on_bundle_unavailable: OnUnavailable,
    /// The maximum age of the ConfigMap of `bundleRef`, as in `90s`, `10m` or `1h30m`.
    #[serde(deserialize_with = "max_age")]
    #[cfg_attr(feature = "schema", schemars(
        with = "String", extend("pattern" = super::schema::DURATION, "default" = "10m"), example = "10m"
    ))]
    bundle_max_age: Duration,
    /// OpenKruise's feature gates for SidecarSets.
    #[cfg_attr(feature = "schema", schemars(extend("default" = {}), example = super::schema::gates()))]
    feature_gates: Gates,
    /// The ServiceAccounts that sidecars may get, and the guards for them.
    #[cfg_attr(feature = "schema", schemars(extend("default" = {}), example = super::schema::service_accounts()))]
    service_accounts: Rules,
    /// Rules for Gardener Shoots.
    #[cfg_attr(feature = "schema", schemars(extend("default" = {}), example = super::schema::shoots()))]
    shoots: ShootSettings,
    /// How new versions reach running Pods: for the controller `sidecarset-rollout`.
    // Taken out as well, since its errors are not for a policy server.
    #[cfg_attr(feature = "schema", schemars(extend("default" = {}), example = super::schema::rollouts()))]
    rollouts: RolloutSettings,
    /// The Pods in which containers of SidecarSets become native sidecars. The annotation `pillion.dev/native` of a
    /// SidecarSet wins.
    #[cfg_attr(feature = "schema", schemars(example = NativeSidecars::EndingPods))]
    native_sidecars: NativeSidecars,
    /// Changes of other webhooks to sidecars that stay if the policy is called again.
    #[cfg_attr(feature = "schema", schemars(extend("default" = {}), example = super::schema::other_webhooks()))]
    other_webhooks: OtherWebhooks,
    /// `Inject`, or `Assert`: only check the identities in Pods after all changes, and never patch.
    #[cfg_attr(feature = "schema", schemars(example = Role::Assert))]
    role: Role,
    /// The namespace of the ConfigMap `kruise-configuration` and of the ControllerRevisions.
    #[serde(deserialize_with = "checked::<_, Label>")]
    #[cfg_attr(feature = "schema", schemars(with = "Label", example = SYSTEM_NAMESPACE))]
    system_namespace: String,
    /// The annotations that SidecarSets may patch. It replaces the ConfigMap `kruise-configuration`.
    #[cfg_attr(feature = "schema", schemars(example = super::schema::whitelist()))]
    patch_pod_metadata_whitelist: Option<Whitelist>,
}

impl Default for RawSettings {
    fn default() -> Self {
        Self {
            sidecar_sets: Vec::new(),
            controller_revisions: Vec::new(),
            bundle: None,
            bundle_ref: None,
            bundle_cache: false,
            on_bundle_unavailable: OnUnavailable::default(),
            bundle_max_age: MAX_AGE,
            feature_gates: Gates::default(),
            service_accounts: Rules::default(),
            shoots: ShootSettings::default(),
            rollouts: RolloutSettings::default(),
            native_sidecars: NativeSidecars::default(),
            other_webhooks: OtherWebhooks::default(),
            role: Role::default(),
            system_namespace: SYSTEM_NAMESPACE.to_owned(),
            patch_pod_metadata_whitelist: None,
        }
    }
}

/// Reads settings. `bundle` is the text of the setting `bundle`, if it was taken out before.
///
/// # Errors
/// As [`Settings::decode`](super::Settings::decode).
pub(super) fn decode(
    mut settings: Value,
    bundle: Option<Cow<'_, [u8]>>,
) -> Result<BorrowedSettings<'_>, Vec<FieldError>> {
    if settings.is_null() {
        return decode(Value::Object(json::Object::new()), bundle);
    }
    let mut errors = Vec::new();
    let sidecar_sets = manifests::take(&mut settings, manifests::SIDECAR_SETS);
    let controller_revisions = manifests::take(&mut settings, manifests::CONTROLLER_REVISIONS);
    let (rollouts, rollout_errors) = rollouts(&mut settings);
    without_empty_form(&mut settings);
    let raw: RawSettings = read(&mut settings, &mut errors);
    let bundle = bundle.or(raw.bundle.map(|text| text.into_bytes().into())).filter(|text| !text.is_empty());
    if let Some(Err(error)) = bundle.as_deref().map(Bundle::read) {
        errors.push(FieldError::new("bundle", Cause::Invalid, error.to_string()));
    }
    let decoded = BorrowedSettings {
        sidecar_sets: manifests::decode(sidecar_sets, manifests::SIDECAR_SETS, &mut errors, manifests::sidecar_set),
        bundle,
        bundle_source: BundleSource {
            config_map: raw.bundle_ref,
            is_cached: raw.bundle_cache,
            on_unavailable: raw.on_bundle_unavailable,
            max_age: raw.bundle_max_age,
        },
        controller_revisions: manifests::decode(
            controller_revisions,
            manifests::CONTROLLER_REVISIONS,
            &mut errors,
            ControllerRevision::decode,
        ),
        gates: raw.feature_gates,
        system_namespace: raw.system_namespace,
        patch_pod_metadata_whitelist: settings.get_mut(WHITELIST).map(Value::take).filter(|rules| !rules.is_null()),
        service_accounts: raw.service_accounts,
        shoots: raw.shoots,
        rollouts,
        rollout_errors,
        native_sidecars: raw.native_sidecars,
        other_webhooks: raw.other_webhooks,
        role: raw.role,
    };
    if weight::is_too_dense(&decoded.sidecar_sets) {
        errors.add(|| FieldError::new(SIDECAR_SETS, Cause::TooMany, weight::TOO_DENSE));
    }
    if weight::has_too_long_expressions(&decoded.sidecar_sets) {
        errors.add(|| FieldError::new(SIDECAR_SETS, Cause::TooLong, weight::EXPRESSIONS_TOO_LONG));
    }
    if errors.is_empty() { Ok(decoded) } else { Err(errors) }
}

/// Takes the setting `rollouts`. With errors, it is the default.
fn rollouts(settings: &mut Value) -> (RolloutSettings, Vec<FieldError>) {
    let written = settings.get_mut(ROLLOUTS).map(Value::take).filter(|rollouts| !rollouts.is_null());
    let Some(mut written) = written else { return Default::default() };
    let mut errors = Vec::new();
    let rollouts = read(&mut written, &mut errors);
    if errors.is_empty() {
        return (rollouts, errors);
    }
    (RolloutSettings::default(), errors.into_iter().map(|error| error.below(ROLLOUTS)).collect())
}

/// Removes `bundleRef` if it comes from a form that is not filled in: two empty texts.
fn without_empty_form(settings: &mut Value) {
    let Some(form) = settings.get(BUNDLE_REF).and_then(Value::as_object) else { return };
    let is_empty =
        form.len() == 2 && ["namespace", "name"].iter().all(|key| form.get(*key).is_some_and(|text| text == ""));
    if let Some(settings) = settings.as_object_mut().filter(|_| is_empty) {
        settings.remove(BUNDLE_REF);
    }
}
