//! Names of annotations, labels and environment variables that clusters store.

/// On a `SidecarSet`: the hash of its containers (HASH-1). On a Pod: the record of each injected `SidecarSet` (INJ-28).
pub const HASH: &str = "kruise.io/sidecarset-hash";
/// The same as [`HASH`], but computed without the images (HASH-4).
pub const HASH_WITHOUT_IMAGE: &str = "kruise.io/sidecarset-hash-without-image";
/// On a Pod: the injected `SidecarSet`s, ascending, joined by commas (INJ-28).
pub const INJECTED_LIST: &str = "kruise.io/sidecarset-injected-list";
/// On a Pod: the working container of each hot-upgrade pair (INJ-21).
pub const WORKING_HOT_UPGRADE: &str = "kruise.io/sidecarset-working-hotupgrade-container";
/// The prefix of the annotation with the version of a hot-upgrade container (INJ-21).
pub const VERSION_PREFIX: &str = "version.sidecarset.kruise.io/";
/// The prefix of the annotation with the version of the other container of a hot-upgrade pair (INJ-21).
pub const VERSION_ALT_PREFIX: &str = "versionalt.sidecarset.kruise.io/";
/// On a `SidecarSet`: marks a canary if the value is exactly `true` and [`BASE`] is not empty (API-13).
pub const CANARY: &str = "apps.kruise.io/sidecarset-canary";
/// On a canary `SidecarSet`: the name of its base.
pub const BASE: &str = "apps.kruise.io/sidecarset-base";
/// On a v1alpha1 `SidecarSet` and on its revisions: the custom version (API-10, REV-4).
pub const CUSTOM_VERSION_LABEL: &str = "apps.kruise.io/sidecarset-custom-version";
/// On a ControllerRevision: the `SidecarSet` that it belongs to (REV-4).
pub const SIDECAR_SET_NAME_LABEL: &str = "kruise.io/sidecarset-name";
/// On every Namespace: its name. The API server sets this label.
pub const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// On a Pod or a Namespace: the containers that get the token of the Pod's ServiceAccount, joined by commas (TCN-1).
pub const TOKEN_CONTAINERS: &str = "pillion.dev/token-containers";

/// The environment variable that is `true` in every injected container (INJ-17).
pub const ENV_IS_INJECTED: &str = "IS_INJECTED";
/// The environment variable with the version annotation of a hot-upgrade container (INJ-21).
pub const ENV_VERSION: &str = "SIDECARSET_VERSION";
/// The environment variable with the version annotation of the other container of a hot-upgrade pair (INJ-21).
pub const ENV_VERSION_ALT: &str = "SIDECARSET_VERSION_ALT";

/// The ConfigMap that holds the whitelist of patchPodMetadata (VAL-20).
pub const WHITELIST_CONFIG_MAP: &str = "kruise-configuration";
/// The key of the whitelist in that ConfigMap (VAL-20).
pub(crate) const WHITELIST_KEY: &str = "SidecarSet_PatchPodMetadata_WhiteList";
