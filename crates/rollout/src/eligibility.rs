//! Whether a Pod gets the version, and how: in place, by a resize, or by an eviction (ROLL-60, ROLL-62).

use pillion_sidecarset::upgrades::Upgrades;

use crate::difference::Reach;
use crate::method::{Obstacle, UpgradeMethod};
use crate::pod::Pod;
use crate::resize;
use crate::target::RolloutTarget;

impl RolloutTarget<'_> {
    /// Whether a Pod that is not updated gets the version: it is selected, and if a version has failed, the Pod has that
    /// one.
    pub fn selects(&self, pod: &Pod) -> bool {
        let has_failed = |hash: &String| self.recorded_hash(pod.records()) == hash;
        self.back_from.as_ref().is_none_or(has_failed) && self.strategy.selected.has(|key| pod.label(key))
    }

    /// Returns how a Pod gets the version.
    ///
    /// # Errors
    /// Why it does not get it.
    pub fn upgrade_method(&self, pod: &Pod) -> Result<UpgradeMethod, Obstacle> {
        let evict = || self.recreation.check(pod).map(|()| UpgradeMethod::Recreate);
        if self.upgrades.recreate && self.changes_form(pod) {
            return evict();
        }
        if self.is_native_in(pod) && !self.upgrades.native {
            return if self.upgrades.recreate { evict() } else { Err(Obstacle::NativeSidecars) };
        }
        let begun = pod.resize(self);
        if begun.is_none() && self.recorded_hash(pod.records_without_image()) == self.hash_without_image() {
            return Ok(UpgradeMethod::InPlace);
        }
        let hash = self.recorded_hash(pod.records());
        let Upgrades { resize, recreate, .. } = self.upgrades;
        let is_beyond = |hash: &&str| self.versions.reach(hash).is_none_or(|reach| reach > Reach::Resources);
        // A Pod whose resize has begun may have amounts of that version, which must not be absent in this one.
        let resized = begun.filter(|begun| begun.refused.is_empty()).map(|begun| begun.hash.as_str());
        let mut known = resized.into_iter().chain([hash]);
        let obstacle = match known.find(is_beyond) {
            None if resize => resize::obstacle(self, pod),
            _ if begun.is_some() && !resize => Some(Obstacle::ResizeNotAllowed),
            beyond => {
                let reach = if resize { Reach::Resources } else { Reach::NativeImage };
                Some(self.versions.obstacle(beyond.unwrap_or(hash), reach))
            }
        };
        match obstacle {
            None => Ok(UpgradeMethod::Resize),
            Some(_) if recreate => evict(),
            Some(obstacle) => Err(obstacle),
        }
    }
}
