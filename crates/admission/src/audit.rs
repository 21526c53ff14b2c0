//! Annotations of the audit event. The API server prefixes each key with the webhook's name.

use std::collections::BTreeMap;

use pillion_identity::decision::Decision;

/// The `SidecarSet`s whose sidecars are in the Pod, ascending, joined by commas.
pub(crate) const INJECTED_SIDECAR_SETS: &str = "injected-sidecarsets";
/// The sidecars in the Pod as `set/container`, by set in the order of injection, joined by commas.
pub const INJECTED_CONTAINERS: &str = "injected-containers";
/// The identities in the Pod as `set/account`, by set, joined by commas.
pub const INJECTED_SERVICE_ACCOUNTS: &str = "injected-serviceaccounts";
/// The `SidecarSet`s that were injected without the identity that they request, joined by commas.
pub const SKIPPED_SERVICE_ACCOUNTS: &str = "skipped-serviceaccounts";
/// The reason why the ConfigMap of `bundleRef` could not be used.
pub(crate) const BUNDLE_UNAVAILABLE: &str = "bundle-unavailable";

/// Returns annotations about the injected sidecars; none if nothing was injected.
pub fn injected(sidecars: &BTreeMap<String, Vec<String>>) -> BTreeMap<&'static str, String> {
    if sidecars.is_empty() {
        return BTreeMap::new();
    }
    let (mut sets, mut containers) = (String::new(), String::new());
    for (set, names) in sidecars {
        add(&mut sets, &[set]);
        for name in names {
            add(&mut containers, &[set, "/", name]);
        }
    }
    let mut annotations = BTreeMap::new();
    annotations.insert(INJECTED_SIDECAR_SETS, sets);
    annotations.insert(INJECTED_CONTAINERS, containers);
    annotations
}

/// Adds annotations about the `SidecarSet`s with and without an identity.
pub fn identities(decision: &Decision, annotations: &mut BTreeMap<&'static str, String>) {
    let (mut given, mut skipped) = (String::new(), String::new());
    for grant in &decision.grants {
        add(&mut given, &[&grant.sidecar_set, "/", &grant.account]);
    }
    for (set, _) in decision.skipped.iter().chain(&decision.kept) {
        add(&mut skipped, &[set]);
    }
    for (name, text) in [(INJECTED_SERVICE_ACCOUNTS, given), (SKIPPED_SERVICE_ACCOUNTS, skipped)] {
        if !text.is_empty() {
            annotations.insert(name, text);
        }
    }
}

/// Appends an item to a comma-separated list.
fn add(list: &mut String, item: &[&str]) {
    if !list.is_empty() {
        list.push(',');
    }
    list.push_str(&item.concat());
}
