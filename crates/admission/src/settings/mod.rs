//! The settings of the policy (product.md, Settings).
//!
//! Two layers. [`Settings::decode`] is about shape: types, known keys, unique names; both functions of the policy
//! run it. Types that serde derives say what the shape is; the JSON Schema of the settings comes from the same types. [`Settings::validate`] is about sense, `SidecarSet` by `SidecarSet` and between them; it belongs to
//! `validate_settings` alone, since a Pod gets a `SidecarSet` as it stands.

mod manifests;
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

use pillion_bundle::config_map::Choice;
use pillion_bundle::source::BundleSource;
use pillion_bundle::{Bundle, BundleError};
use pillion_gardener::settings::ShootSettings;
use pillion_identity::rules::Rules;
use pillion_kubernetes::field::FieldError;
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::gates::Gates;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde::Deserialize;
use serde_json::Value;

/// Where OpenKruise keeps its configuration, unless told otherwise.
pub const SYSTEM_NAMESPACE: &str = "kruise-system";

/// Decoded settings. [`Default`] is what `{}` decodes to.
pub type Settings = BorrowedSettings<'static>;

/// Decoded settings whose bundle may be a part of a longer text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BorrowedSettings<'a> {
    /// `sidecarSets`, in the order of the list, in their v1beta1 form, neither defaulted nor hashed.
    pub sidecar_sets: Vec<SidecarSet>,
    /// `bundle`: the text of more of them, compiled; see [`pillion_bundle`].
    pub bundle: Option<Cow<'a, [u8]>>,
    /// `bundleRef`, `onBundleUnavailable`, `bundleMaxAge`: still more, kept in the cluster.
    pub bundle_source: BundleSource,
    /// `controllerRevisions`.
    pub controller_revisions: Vec<ControllerRevision>,
    /// `featureGates`.
    pub gates: Gates,
    /// `systemNamespace`: where the whitelist ConfigMap and the ControllerRevisions are.
    pub system_namespace: String,
    /// `patchPodMetadataWhitelist`: `{"rules": [{"selector", "allowedAnnotationKeyExprs"}]}` (V-20).
    pub patch_pod_metadata_whitelist: Option<Value>,
    /// `serviceAccounts`: what the cluster allows SidecarSets to do with ServiceAccounts.
    pub service_accounts: Rules,
    /// `shoots`: the rules for Gardener Shoots.
    pub shoots: ShootSettings,
    /// `role`.
    pub role: Role,
}

/// What the policy is there for: a guest cannot see whether its patches are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
pub enum Role {
    /// It injects, and guards.
    #[default]
    Inject,
    /// The validating twin: it looks at Pods after everybody has changed them, and never patches (B10).
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
            role: Role::default(),
        }
    }
}

impl<'a> BorrowedSettings<'a> {
    /// Decodes settings; `null` is `{}`, and a key whose value is `null` counts as absent.
    ///
    /// # Errors
    /// Each with its path (`sidecarSets[3].spec.selector`) and, below `sidecarSets`, the name of the `SidecarSet`. All
    /// of the manifests'; of the settings' own sixteen at most, and one for each list.
    pub fn decode(settings: Value) -> Result<Self, Vec<FieldError>> {
        Self::with_bundle(settings, None)
    }

    /// The same, if the text of `bundle` was taken out of the settings before.
    ///
    /// # Errors
    /// As [`Settings::decode`].
    pub fn with_bundle(settings: Value, bundle: Option<Cow<'a, [u8]>>) -> Result<Self, Vec<FieldError>> {
        raw::decode(settings, bundle)
    }

    /// All `SidecarSet`s, those of the bundle included.
    ///
    /// # Errors
    /// The bundle is damaged.
    pub fn all_sidecar_sets(&self) -> Result<Cow<'_, [SidecarSet]>, BundleError> {
        self.sidecar_sets(&|bundle| bundle.sets())
    }

    /// The same settings with the `SidecarSet`s of the bundle among `sidecarSets`.
    ///
    /// # Errors
    /// The bundle is damaged.
    pub fn unbundled(mut self) -> Result<Self, BundleError> {
        self.sidecar_sets = self.all_sidecar_sets()?.into_owned();
        self.bundle = None;
        Ok(self)
    }

    /// The `SidecarSet`s of `sidecarSets`, and of the bundle those that `choose` takes.
    ///
    /// # Errors
    /// The bundle is damaged.
    pub fn sidecar_sets(&self, choose: Choice<'_>) -> Result<Cow<'_, [SidecarSet]>, BundleError> {
        let Some(bundle) = &self.bundle else { return Ok(Cow::Borrowed(&self.sidecar_sets)) };
        let mut sets = choose(Bundle::read(bundle)?)?;
        sets.extend(self.sidecar_sets.iter().cloned());
        Ok(Cow::Owned(sets))
    }

    /// Validates each `SidecarSet`, the conflicts between them, and the whitelist's selectors and expressions.
    /// Answers every error, with paths as [`Settings::decode`]. Nothing is looked up.
    pub fn validate(&self) -> Vec<FieldError> {
        validate::settings(self)
    }
}

/// The same error, below `parent` and with the name of the object that it is about.
fn naming(error: FieldError, parent: &pillion_kubernetes::field::FieldPath<'_>, kind: &str, name: &str) -> FieldError {
    let mut error = error.below(parent);
    if !name.is_empty() {
        let named = format!("{kind} \"{name}\"");
        error.detail = if error.detail.is_empty() { named } else { format!("{} ({named})", error.detail) };
    }
    error
}
