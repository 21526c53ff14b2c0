//! Annotations of the audit event. The API server prefixes each key with the webhook's name.

use std::collections::{BTreeMap, BTreeSet};

use pillion_identity::decision::Decision;
use pillion_inject::matching::opt_out::OptedOut;
use pillion_inject::matching::overrides::Overrides;

/// The `SidecarSet`s whose sidecars are in the Pod, ascending, joined by commas.
pub(crate) const INJECTED_SIDECAR_SETS: &str = "injected-sidecarsets";
/// The sidecars in the Pod as `set/container`, by set in the order of injection, joined by commas.
pub const INJECTED_CONTAINERS: &str = "injected-containers";
/// The identities in the Pod as `set/account`, by set, joined by commas.
pub const INJECTED_SERVICE_ACCOUNTS: &str = "injected-serviceaccounts";
/// The `SidecarSet`s that were injected without the identity that they request, joined by commas.
pub const SKIPPED_SERVICE_ACCOUNTS: &str = "skipped-serviceaccounts";
/// The `SidecarSet`s that match the Pod and that it or its Namespace leaves out, ascending, joined by commas.
pub const OPTED_OUT_SIDECAR_SETS: &str = "opted-out-sidecarsets";
/// The fields of sidecars that the Pod or its Namespace overrides, as `set/container:field`, joined by commas.
pub const OVERRIDDEN: &str = "overridden-sidecars";
/// The containers that get the token of the Pod's own account, joined by commas, if not all do (TCN-7).
pub const TOKEN_CONTAINERS: &str = "token-containers";
/// The reason why the ConfigMap of `bundleRef` could not be used.
pub(crate) const BUNDLE_UNAVAILABLE: &str = "bundle-unavailable";

/// Returns annotations about the injected sidecars; none if nothing was injected.
pub fn injected(sidecars: &BTreeMap<String, Vec<String>>) -> BTreeMap<&'static str, String> {
    if sidecars.is_empty() {
        return BTreeMap::new();
    }
    let sets: Vec<&str> = sidecars.keys().map(String::as_str).collect();
    let containers = sidecars.iter().flat_map(|(set, names)| names.iter().map(move |name| format!("{set}/{name}")));
    BTreeMap::from([
        (INJECTED_SIDECAR_SETS, sets.join(",")),
        (INJECTED_CONTAINERS, containers.collect::<Vec<_>>().join(",")),
    ])
}

/// Returns the annotation about the `SidecarSet`s that are left out (OPT-4); none if nothing is.
pub fn opted_out(opted_out: &[OptedOut]) -> BTreeMap<&'static str, String> {
    let left_out = opted_out.iter().filter(|one| one.is_allowed);
    let names: BTreeSet<&str> = left_out.map(|one| one.sidecar_set.as_str()).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(",");
    if names.is_empty() { BTreeMap::new() } else { BTreeMap::from([(OPTED_OUT_SIDECAR_SETS, names)]) }
}

/// Returns the annotation that names the overridden fields of sidecars (OVR-7); none if no field is overridden. It leaves
/// out the values, since readers of audit events need not know the variables of a Pod.
pub fn overridden(overrides: &Overrides) -> BTreeMap<&'static str, String> {
    let fields = overrides.of_sidecars.iter().filter(|one| one.of.value().is_some()).filter_map(|one| {
        let field = one.of.field.as_ref()?;
        Some(format!("{}/{}:{field}", one.sidecar_set, one.of.container))
    });
    let fields = fields.collect::<Vec<_>>().join(",");
    if fields.is_empty() { BTreeMap::new() } else { BTreeMap::from([(OVERRIDDEN, fields)]) }
}

/// Adds annotations about the `SidecarSet`s with and without an identity.
pub fn identities(decision: &Decision, annotations: &mut BTreeMap<&'static str, String>) {
    let given: Vec<String> =
        decision.grants.iter().map(|grant| format!("{}/{}", grant.sidecar_set, grant.account)).collect();
    let skipped: Vec<&str> = decision.skipped.iter().chain(&decision.kept).map(|(set, _)| set.as_str()).collect();
    for (name, text) in [(INJECTED_SERVICE_ACCOUNTS, given.join(",")), (SKIPPED_SERVICE_ACCOUNTS, skipped.join(","))] {
        if !text.is_empty() {
            annotations.insert(name, text);
        }
    }
    if let Some(narrowed) = &decision.narrowed {
        annotations.insert(TOKEN_CONTAINERS, narrowed.holders().into_iter().collect::<Vec<_>>().join(","));
    }
}
