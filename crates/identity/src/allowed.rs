//! Lists of ServiceAccounts in the settings (IDV-5, AFT-6).

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
#[cfg(feature = "schema")]
use serde::Serialize;

use crate::deny_permissions::at_least_one;
use crate::glob::Glob;

/// ServiceAccounts by namespace and name, as an entry of a list of the settings. It has both lists, and neither is empty:
/// an entry that forgets one should not mean everything.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema, Serialize))]
#[serde(deny_unknown_fields, expecting = "an object with namespaces and names")]
pub struct Allowed {
    /// Globs of the namespaces of Pods.
    #[serde(deserialize_with = "at_least_one")]
    #[cfg_attr(feature = "schema", schemars(extend("minItems" = 1)))]
    pub namespaces: Vec<Glob>,
    /// Globs of the names of ServiceAccounts.
    #[serde(deserialize_with = "at_least_one")]
    #[cfg_attr(feature = "schema", schemars(extend("minItems" = 1)))]
    pub names: Vec<Glob>,
}

impl Allowed {
    /// Whether the entry has this account.
    pub fn has(&self, namespace: &str, account: &str) -> bool {
        let any = |globs: &[Glob], text| globs.iter().any(|glob| glob.matches(text));
        any(&self.namespaces, namespace) && any(&self.names, account)
    }
}
