//! Feature gates.

/// Which features are on; all are off by default (product.md, Settings).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    /// `SidecarSetServiceAccountInjection`: `SidecarSet`s may name a ServiceAccount.
    pub service_account_injection: bool,
    /// `SidecarSetPatchPodMetadataDefaultsAllowed`: patchPodMetadata is allowed where no whitelist speaks (V-21).
    pub patch_pod_metadata_defaults_allowed: bool,
    /// `EnableSortSidecarContainerByName`: injected containers are sorted by name (M-23).
    pub sort_sidecar_containers_by_name: bool,
}

impl Gates {
    /// Every gate that has a name.
    pub const NAMES: [&'static str; 3] = [
        "SidecarSetServiceAccountInjection",
        "SidecarSetPatchPodMetadataDefaultsAllowed",
        "EnableSortSidecarContainerByName",
    ];

    /// The gate with this name, to be set; `None` where nobody knows it.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut bool> {
        match name {
            "SidecarSetServiceAccountInjection" => Some(&mut self.service_account_injection),
            "SidecarSetPatchPodMetadataDefaultsAllowed" => Some(&mut self.patch_pod_metadata_defaults_allowed),
            "EnableSortSidecarContainerByName" => Some(&mut self.sort_sidecar_containers_by_name),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_off_and_known_by_name() {
        let mut gates = Gates::default();
        for name in Gates::NAMES {
            let gate = gates.get_mut(name).unwrap();
            assert!(!*gate, "{name}");
            *gate = true;
        }
        assert!(gates.service_account_injection && gates.patch_pod_metadata_defaults_allowed);
        assert!(gates.sort_sidecar_containers_by_name);
        assert_eq!(gates.get_mut("PodWebhook"), None);
    }
}
