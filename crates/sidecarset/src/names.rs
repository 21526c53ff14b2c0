//! Names that are stored in clusters: annotations, labels and environment variables.

/// On a `SidecarSet`: the hash of its containers (H-1). On a Pod: what was injected, by `SidecarSet` (M-28).
pub const HASH: &str = "kruise.io/sidecarset-hash";
/// The same with every image left out (H-4).
pub const HASH_WITHOUT_IMAGE: &str = "kruise.io/sidecarset-hash-without-image";
/// On a Pod: the `SidecarSet`s that were injected, ascending, joined by commas (M-28).
pub const INJECTED_LIST: &str = "kruise.io/sidecarset-injected-list";
/// On a Pod: which half of each hot-upgrade pair works (M-21).
pub const WORKING_HOT_UPGRADE: &str = "kruise.io/sidecarset-working-hotupgrade-container";
/// Prefix of the annotation with the version of a hot-upgrade container (M-21).
pub const VERSION_PREFIX: &str = "version.sidecarset.kruise.io/";
/// Prefix of the annotation with the version of a hot-upgrade container's other half (M-21).
pub const VERSION_ALT_PREFIX: &str = "versionalt.sidecarset.kruise.io/";
/// On a `SidecarSet`: it is a canary, where the value is exactly `true` and [`BASE`] is not empty (section 1.6).
pub const CANARY: &str = "apps.kruise.io/sidecarset-canary";
/// On a canary `SidecarSet`: the name of its base.
pub const BASE: &str = "apps.kruise.io/sidecarset-base";
/// On a v1alpha1 `SidecarSet` and on its revisions: the custom version.
pub const CUSTOM_VERSION_LABEL: &str = "apps.kruise.io/sidecarset-custom-version";
/// On a ControllerRevision: the `SidecarSet` that it belongs to.
pub const SIDECAR_SET_NAME_LABEL: &str = "kruise.io/sidecarset-name";
/// On every Namespace: its name; the API server sets it.
pub const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// In every injected container: `true` (M-17).
pub const ENV_IS_INJECTED: &str = "IS_INJECTED";
/// In hot-upgrade containers: the version annotation of the container (M-21).
pub const ENV_VERSION: &str = "SIDECARSET_VERSION";
/// In hot-upgrade containers: the version annotation of the other half (M-21).
pub const ENV_VERSION_ALT: &str = "SIDECARSET_VERSION_ALT";

/// The ConfigMap that holds the whitelist of patchPodMetadata (V-20).
pub const WHITELIST_CONFIG_MAP: &str = "kruise-configuration";
/// The key of the whitelist in that ConfigMap (V-20).
pub const WHITELIST_KEY: &str = "SidecarSet_PatchPodMetadata_WhiteList";
