//! The SidecarSets of the ConfigMap that `bundleRef` names, for commands that apply the rules outside the module.

use pillion_admission::settings::Settings;
use pillion_bundle::config_map::{BundleReader, Unavailable};
use pillion_kubernetes::lookup::Lookup;
use pillion_terminal::now;

/// Adds the SidecarSets of the `bundleRef` ConfigMap, those of all shards included, to the settings' own; the rules
/// select the matching ones. If the ConfigMap is unavailable, returns the settings unchanged, with the reason.
pub fn with_kept(mut settings: Settings, lookup: &dyn Lookup) -> (Settings, Option<Unavailable>) {
    let Some(reader) = BundleReader::new(&settings.bundle_source, lookup, now()) else { return (settings, None) };
    match reader.every_set() {
        Ok(mut sets) => {
            sets.append(&mut settings.sidecar_sets);
            settings.sidecar_sets = sets;
            (settings, None)
        }
        Err(unavailable) => (settings, Some(unavailable)),
    }
}
