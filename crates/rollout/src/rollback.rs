//! The way back after a rollout that has failed (ROLL-62): the revision that is in force instead of the latest one.

use pillion_kubernetes::field::joined;
use pillion_plan::failure::Back;
use pillion_plan::restored::restored;
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use pillion_sidecarset::upgrades::Upgrades;

use crate::history::Revision;

/// The revision that is in force instead of the latest one.
pub struct Rollback<'a> {
    /// What has failed, and what is in force.
    pub back: Back<'a>,
    /// The SidecarSet with the contents of that revision.
    pub version: SidecarSet,
    /// What people should know about new Pods, or nothing.
    pub note: &'static str,
}

/// Returns the revision that is in force instead of the latest one, if there is one; `bundled` is the version that new
/// Pods get.
///
/// # Errors
/// The revision cannot be read.
pub fn in_force<'a>(
    resource: &SidecarSet,
    bundled: &SidecarSet,
    upgrades: Upgrades,
    revisions: &[&'a Revision],
    has_bundle: bool,
) -> Result<Option<Rollback<'a>>, String> {
    let heads: Vec<&'a ControllerRevision> = revisions.iter().map(|revision| &revision.head).collect();
    let Some(back) = Back::recorded(&heads) else { return Ok(None) };
    let wanted = prepared(resource);
    let stored = revisions.iter().find(|revision| revision.name() == back.restored.name());
    let Some(stored) = stored else { return Ok(None) };
    let restored = restored(&wanted, &stored.whole())
        .map_err(|errors| format!("ControllerRevision \"{}\" cannot be read: {}", stored.name(), joined(&errors)))?;
    let is_bundled = bundled.hash() == restored.hash();
    if Back::find(&wanted, upgrades, &heads).is_some() {
        let note = match (is_bundled, has_bundle) {
            (true, _) => "",
            (false, true) => "new Pods get it when the bundle contains it",
            (false, false) => {
                "new Pods get what the SidecarSet says, because there is no bundle in the ConfigMap of \
                               settings.bundleRef"
            }
        };
        let version = if is_bundled { bundled.clone() } else { restored };
        return Ok(Some(Rollback { back, version, note }));
    }
    // It is over, and the bundle does not have another version yet.
    let is_late = is_bundled && wanted.hash() != restored.hash();
    Ok(is_late.then(|| Rollback { back, version: bundled.clone(), note: "" }))
}
