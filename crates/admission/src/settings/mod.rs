//! The settings of the policy (docs/spec/policy.md, SET-1 and SET-2).
//!
//! There are two layers. [`Settings::decode`] checks the shape: types, known keys, unique names. Both functions of the
//! policy run it. The shape is defined by types that derive serde's traits; the JSON Schema of the settings comes from
//! the same types. [`Settings::validate`] checks each `SidecarSet` and conflicts between them. Only `validate_settings`
//! runs it, since injection uses `SidecarSet`s as they are.
//!
//! The module shows a new Pod only those manifests that may match it ([`matching()`]); `decode` does not see the others.

mod manifests;
mod matching;
mod raw;
mod rivals;
#[cfg(feature = "schema")]
pub mod schema;
mod shape;
mod strict;
mod validate;
mod whitelist;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use matching::matching;
use pillion_bundle::config_map::Choice;
use pillion_bundle::source::BundleSource;
use pillion_bundle::{Bundle, BundleError};
use pillion_gardener::settings::ShootSettings;
use pillion_identity::rules::Rules;
use pillion_kubernetes::field::{FieldError, FieldPath};
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::gates::Gates;
use pillion_sidecarset::native::NativeSidecars;
use pillion_sidecarset::other_webhooks::OtherWebhooks;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::upgrades::RolloutSettings;
use serde::Deserialize;
use serde_json::Value;

/// The default namespace of OpenKruise's configuration.
pub const SYSTEM_NAMESPACE: &str = "kruise-system";

/// The name of the setting with the manifests of SidecarSets.
pub const SIDECAR_SETS: &str = "sidecarSets";

/// Decoded settings. [`Default`] is what `{}` decodes to.
pub type Settings = BorrowedSettings<'static>;

/// Decoded settings whose bundle may be borrowed from a longer text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BorrowedSettings<'a> {
    /// `sidecarSets`, in the order of the list, in their v1beta1 form, neither defaulted nor hashed.
    pub sidecar_sets: Vec<SidecarSet>,
    /// `bundle`: the text of further, compiled SidecarSets; see [`pillion_bundle`].
    pub bundle: Option<Cow<'a, [u8]>>,
    /// `bundleRef`, `onBundleUnavailable`, `bundleMaxAge`: the location of further SidecarSets in the cluster.
    pub bundle_source: BundleSource,
    /// `controllerRevisions`.
    pub controller_revisions: Vec<ControllerRevision>,
    /// `featureGates`.
    pub gates: Gates,
    /// `systemNamespace`: the namespace of the whitelist ConfigMap and the ControllerRevisions.
    pub system_namespace: String,
    /// `patchPodMetadataWhitelist`: `{"rules": [{"selector", "allowedAnnotationKeyExprs"}]}` (VAL-20).
    pub patch_pod_metadata_whitelist: Option<Value>,
    /// `serviceAccounts`: the rules for ServiceAccounts of SidecarSets.
    pub service_accounts: Rules,
    /// `shoots`: the rules for Gardener Shoots.
    pub shoots: ShootSettings,
    /// `rollouts`: how new versions reach running Pods. The policy reads it only for a warning.
    pub rollouts: RolloutSettings,
    /// The errors of `rollouts`, which is its default then. They stop the controllers and no policy server:
    /// [`Self::validate_all`] returns them, [`Self::validate`] does not.
    pub rollout_errors: Vec<FieldError>,
    /// `nativeSidecars`.
    pub native_sidecars: NativeSidecars,
    /// `otherWebhooks`.
    pub other_webhooks: OtherWebhooks,
    /// `role`.
    pub role: Role,
}

/// The role of the policy. It is a setting because a policy cannot see whether its host applies its patches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
pub enum Role {
    /// The policy injects sidecars and guards their identities.
    #[default]
    Inject,
    /// The policy checks Pods after all mutating webhooks have changed them. It never patches (TOK-10).
    Assert,
}

impl Default for BorrowedSettings<'_> {
    fn default() -> Self {
        Self {
            sidecar_sets: Vec::new(),
            bundle: None,
            bundle_source: BundleSource::default(),
            controller_revisions: Vec::new(),
            gates: Gates::default(),
            system_namespace: SYSTEM_NAMESPACE.to_owned(),
            patch_pod_metadata_whitelist: None,
            service_accounts: Rules::default(),
            shoots: ShootSettings::default(),
            rollouts: RolloutSettings::default(),
            rollout_errors: Vec::new(),
            native_sidecars: NativeSidecars::default(),
            other_webhooks: OtherWebhooks::default(),
            role: Role::default(),
        }
    }
}

impl<'a> BorrowedSettings<'a> {
    /// Decodes settings. `null` counts as `{}`, and a key with the value `null` counts as absent.
    ///
    /// # Errors
    /// Each error has its path (`sidecarSets[3].spec.selector`) and, below `sidecarSets`, the name of the `SidecarSet`.
    /// Returns all errors of manifests, and of the other settings at most sixteen, and one for each list.
    pub fn decode(settings: Value) -> Result<Self, Vec<FieldError>> {
        Self::with_bundle(settings, None)
    }

    /// Like [`Settings::decode`], if the text of `bundle` was taken out of the settings before.
    ///
    /// # Errors
    /// As [`Settings::decode`].
    pub fn with_bundle(settings: Value, bundle: Option<Cow<'a, [u8]>>) -> Result<Self, Vec<FieldError>> {
        raw::decode(settings, bundle)
    }

    /// Returns all `SidecarSet`s, including those of the bundle.
    ///
    /// # Errors
    /// The bundle is damaged.
    pub fn all_sidecar_sets(&self) -> Result<Cow<'_, [SidecarSet]>, BundleError> {
        self.sidecar_sets(&|bundle| bundle.sets())
    }

    /// Returns the settings with the `SidecarSet`s of the bundle moved into `sidecarSets`.
    ///
    /// # Errors
    /// The bundle is damaged.
    pub fn unbundled(mut self) -> Result<Self, BundleError> {
        self.sidecar_sets = self.all_sidecar_sets()?.into_owned();
        self.bundle = None;
        Ok(self)
    }

    /// Returns the `SidecarSet`s of `sidecarSets`, and those that `choose` returns from the bundle.
    ///
    /// # Errors
    /// The bundle is damaged.
    pub fn sidecar_sets(&self, choose: Choice<'_>) -> Result<Cow<'_, [SidecarSet]>, BundleError> {
        let Some(bundle) = &self.bundle else { return Ok(Cow::Borrowed(&self.sidecar_sets)) };
        let bundled = choose(Bundle::read(bundle)?)?;
        let mut sets: Vec<SidecarSet> = bundled.into_iter().map(SidecarSet::within_settings).collect();
        sets.extend(self.sidecar_sets.iter().cloned());
        Ok(Cow::Owned(sets))
    }

    /// Like [`Self::validate`], and also checks the settings that the policy has no use for.
    pub fn validate_all(&self) -> Vec<FieldError> {
        [self.validate(), self.rollout_errors.clone()].concat()
    }

    /// Validates each `SidecarSet`, conflicts between them, and the whitelist's selectors and expressions. Returns
    /// every error, with paths as in [`Settings::decode`]. Looks nothing up.
    pub fn validate(&self) -> Vec<FieldError> {
        validate::settings(self)
    }
}

/// A manifest in messages.
struct ManifestName<'a> {
    kind: &'static str,
    /// Its name; empty if it has none.
    name: &'a str,
}

/// Prepends `parent` to the path of an error and adds the name of the manifest to its message.
fn naming(error: FieldError, parent: &FieldPath<'_>, manifest: &ManifestName<'_>) -> FieldError {
    let ManifestName { kind, name } = manifest;
    let mut error = error.below(parent);
    if !name.is_empty() {
        let named = format!("{kind} \"{name}\"");
        error.detail = if error.detail.is_empty() { named } else { format!("{} ({named})", error.detail) };
    }
    error
}
