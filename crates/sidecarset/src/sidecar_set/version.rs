//! The versions of the API.

use crate::tables::{SIDECAR_SET_V1ALPHA1, SIDECAR_SET_V1BETA1, Table};

/// The versions of a `SidecarSet` (API-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `apps.kruise.io/v1alpha1`.
    V1Alpha1,
    /// `apps.kruise.io/v1beta1`. Everything except decoding and responses uses this version.
    V1Beta1,
}

impl Version {
    /// Both versions.
    pub const ALL: [Self; 2] = [Self::V1Alpha1, Self::V1Beta1];

    /// Returns the `apiVersion` of objects of this version.
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::V1Alpha1 => "apps.kruise.io/v1alpha1",
            Self::V1Beta1 => "apps.kruise.io/v1beta1",
        }
    }

    /// Returns the version with this `apiVersion`.
    pub fn parse(api_version: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.api_version() == api_version)
    }

    /// Returns the fields of objects of this version.
    pub fn table(self) -> &'static Table {
        match self {
            Self::V1Alpha1 => &SIDECAR_SET_V1ALPHA1,
            Self::V1Beta1 => &SIDECAR_SET_V1BETA1,
        }
    }
}
