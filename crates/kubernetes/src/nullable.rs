//! JSON null as Kubernetes reads it: equal to an absent field.

use serde::{Deserialize, Deserializer};

/// Deserializes null as the default of the type. For fields with `#[serde(default)]`.
///
/// # Errors
/// The value is neither null nor a `T`.
pub fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
