//! Reads `serviceAccounts.denyPermissions` (ESC-4).

use pillion_kubernetes::rbac::{self, Atom, PolicyRule};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// A PolicyRule of denied permissions. `apiGroups`, `resources` and `verbs` must not be empty: with an empty list,
/// the rule would deny nothing.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(title = "PolicyRule"))]
#[serde(deny_unknown_fields, rename_all = "camelCase", expecting = "a PolicyRule")]
pub(crate) struct DeniedRule {
    /// API groups; the core group is `""`, and `*` is all of them.
    #[serde(deserialize_with = "at_least_one")]
    #[cfg_attr(feature = "schema", schemars(extend("minItems" = 1)))]
    api_groups: Vec<String>,
    /// Resources, and subresources as in `pods/log`; `*` is all of them.
    #[serde(deserialize_with = "at_least_one")]
    #[cfg_attr(feature = "schema", schemars(extend("minItems" = 1)))]
    resources: Vec<String>,
    /// Verbs; `*` is all of them.
    #[serde(deserialize_with = "at_least_one")]
    #[cfg_attr(feature = "schema", schemars(extend("minItems" = 1)))]
    verbs: Vec<String>,
    /// Names of the objects that the rule applies to. Default: all objects.
    #[serde(default)]
    resource_names: Vec<String>,
    /// Accepted because PolicyRules have this field, but ignored: no SidecarSet can grant access to URLs.
    #[expect(dead_code, reason = "only its type is checked")]
    #[serde(default, rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
}

impl From<DeniedRule> for PolicyRule {
    fn from(rule: DeniedRule) -> Self {
        let DeniedRule { api_groups, resources, verbs, resource_names, .. } = rule;
        Self {
            api_groups: Some(api_groups),
            resources: Some(resources),
            verbs,
            resource_names: (!resource_names.is_empty()).then_some(resource_names),
            non_resource_urls: None,
        }
    }
}

/// Reads PolicyRules and expands them to single permissions.
///
/// # Errors
/// A rule has another shape, or the rules expand to too many permissions (E18).
pub fn atoms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Atom>>, D::Error> {
    let rules = Vec::<DeniedRule>::deserialize(deserializer)?;
    let rules: Vec<PolicyRule> = rules.into_iter().map(PolicyRule::from).collect();
    rbac::check_size(&rules).map_err(D::Error::custom)?;
    Ok(Some(rbac::atoms(&rules)))
}

/// Reads a list that must not be empty.
///
/// # Errors
/// The value is an empty list or not a list of such items.
pub(crate) fn at_least_one<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let items = Vec::deserialize(deserializer)?;
    if items.is_empty() {
        return Err(D::Error::custom("must not be empty; \"*\" is all of them"));
    }
    Ok(items)
}
