//! The setting `serviceAccounts.tokenContainers` (TCN-2).

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
#[cfg(feature = "schema")]
use serde::Serialize;

use crate::glob::Glob;

/// The setting `serviceAccounts.tokenContainers`. [`Default`] is what `{}` decodes to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema, Serialize))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase", expecting = "an object")]
pub struct TokenContainerRules {
    /// The annotation of a Namespace counts for its Pods. The policy then reads the Namespace of every Pod that has no
    /// such annotation.
    pub namespaces: bool,
    /// Globs of the containers that get the token in Pods for which no annotation counts. With an empty list, no
    /// container gets it. `null` means that all do.
    pub otherwise: Option<Vec<Glob>>,
}

impl TokenContainerRules {
    /// Whether the setting says something about Pods without an annotation.
    pub fn is_set(&self) -> bool {
        self.namespaces || self.otherwise.is_some()
    }
}
