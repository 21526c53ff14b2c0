//! The SidecarSets of the ConfigMap that `bundleRef` names, where the rules of the core are asked beside the module.

use std::time::{SystemTime, UNIX_EPOCH};

use pillion_admission::settings::Settings;
use pillion_bundle::config_map::{self, Unavailable};
use pillion_kubernetes::lookup::Lookup;
use pillion_kubernetes::time::Timestamp;

/// The host's clock, which is the module's, too.
pub fn now() -> Timestamp {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Timestamp(i64::try_from(seconds).unwrap_or(i64::MAX))
}

/// The same settings with every SidecarSet that is kept among their own, those of all shards included: rules find the ones
/// that match. Where they cannot be had, the settings as they are, and why.
pub fn with_kept(mut settings: Settings, lookup: &dyn Lookup) -> (Settings, Option<Unavailable>) {
    let Some(at) = &settings.bundle_source.config_map else { return (settings, None) };
    match config_map::every_set(at, &settings.bundle_source, (lookup, now())) {
        Ok(mut sets) => {
            sets.append(&mut settings.sidecar_sets);
            settings.sidecar_sets = sets;
            (settings, None)
        }
        Err(unavailable) => (settings, Some(unavailable)),
    }
}
