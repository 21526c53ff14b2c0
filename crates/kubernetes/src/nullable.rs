//! JSON null as Kubernetes reads it: the same as an absent field.

use serde::{Deserialize, Deserializer};

/// Deserialises null as the default of the type; for fields with `#[serde(default)]`.
///
/// # Errors
/// A value that is neither null nor a `T`.
pub fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
