//! The settings `bundleRef`, `bundleCache`, `onBundleUnavailable` and `bundleMaxAge`, for SidecarSets that a controller
//! keeps in a ConfigMap.

use pillion_kubernetes::duration::Duration;
use pillion_kubernetes::text::{Label, Subdomain, checked};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// The default for the maximum age of a bundle: ten minutes, in nanoseconds.
pub const MAX_AGE: Duration = Duration(600_000_000_000);

/// The location of the SidecarSets of the cluster. [`Default`] has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleSource {
    /// The setting `bundleRef`.
    pub config_map: Option<ConfigMapName>,
    /// The setting `bundleCache`: whether the ConfigMaps may come from the host's cache.
    pub is_cached: bool,
    /// The setting `onBundleUnavailable`.
    pub on_unavailable: OnUnavailable,
    /// The setting `bundleMaxAge`: the longest time since the bundle was written, and the most that its time may be
    /// ahead of the clock. Greater than zero.
    pub max_age: Duration,
}

impl Default for BundleSource {
    fn default() -> Self {
        Self { config_map: None, is_cached: false, on_unavailable: OnUnavailable::default(), max_age: MAX_AGE }
    }
}

/// The name of a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = "an object of namespace and name")]
pub struct ConfigMapName {
    /// The namespace of the ConfigMap.
    #[serde(deserialize_with = "checked::<_, Label>")]
    #[cfg_attr(feature = "schema", schemars(with = "Label"))]
    pub namespace: String,
    /// The name of the ConfigMap. If there are shards, the name of the index.
    #[serde(deserialize_with = "checked::<_, Subdomain>")]
    #[cfg_attr(feature = "schema", schemars(with = "Subdomain"))]
    pub name: String,
}

/// What happens to requests that need a bundle if the bundle cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
pub enum OnUnavailable {
    /// They are refused with code 503.
    #[default]
    Deny,
    /// They are answered with only the SidecarSets of the settings, and a warning.
    UseSettings,
}

/// Reads a duration that is greater than zero.
///
/// # Errors
/// The text is not a duration, or the duration is not greater than zero.
pub fn max_age<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    match Duration::parse(&text) {
        Ok(age) if age.0 > 0 => Ok(age),
        Ok(_) => Err(D::Error::custom(format_args!("{text:?}: must be longer than nothing, as in \"10m\""))),
        Err(error) => Err(D::Error::custom(format_args!("{}; write it as in \"10m\"", error.as_str()))),
    }
}
