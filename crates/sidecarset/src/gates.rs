//! Feature gates.

use serde::Deserialize;

/// The settings of OpenKruise's feature gates. All are off by default (API-14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, expecting = "an object of names and booleans")]
pub struct Gates {
    /// SidecarSets may name a ServiceAccount, and their containers get a token of it.
    #[serde(rename = "SidecarSetServiceAccountInjection")]
    pub service_account_injection: bool,
    /// `patchPodMetadata` is allowed if there is no whitelist, or none of its rules is for the SidecarSet.
    // VAL-21
    #[serde(rename = "SidecarSetPatchPodMetadataDefaultsAllowed")]
    pub patch_pod_metadata_defaults_allowed: bool,
    /// Injected containers are sorted by name; init containers always are.
    // INJ-23
    #[serde(rename = "EnableSortSidecarContainerByName")]
    pub sort_sidecar_containers_by_name: bool,
}
