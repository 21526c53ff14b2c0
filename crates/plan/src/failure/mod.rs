//! Rollouts that have failed (ROLL-61), and the version that is in force then (ROLL-62).
//!
//! A failed rollout is recorded on the ControllerRevision of its version. The record survives restarts, changes of the
//! leader, and API servers that drop the conditions of SidecarSets. The controllers `sidecarset-rollout` and `bundle`
//! read it, so running and new Pods get the same version.

use pillion_kubernetes::json;
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::upgrades::Upgrades;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// On a ControllerRevision: the record of its failed rollout, a JSON object.
pub const FAILED: &str = "pillion.dev/failed";
/// On a SidecarSet: when `pillion rollout restart` was last used. It does not start a failed rollout again.
pub const RESTARTED_AT: &str = "pillion.dev/restarted-at";
/// The prefix of the annotations whose change starts a failed rollout again.
const OURS: &str = "pillion.dev/";
/// The length of a digest in a record, in bytes. A record is compared with one SidecarSet only.
const DIGEST: usize = 16;

/// Why a rollout has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Cause {
    /// Neither the number of updated Pods nor that of updated and ready Pods has grown for too long.
    ProgressDeadlineExceeded,
    /// Containers that the revision has changed crash or do not start in too many Pods.
    ContainersFail,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 2] = [Self::ProgressDeadlineExceeded, Self::ContainersFail];

    /// Returns the cause as one word, for conditions, Events and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ProgressDeadlineExceeded => "ProgressDeadlineExceeded",
            Self::ContainersFail => "ContainersFail",
        }
    }
}

/// The record of a failed rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// When it failed, as text of RFC 3339.
    pub at: String,
    /// Why.
    pub reason: Cause,
    /// The reason as text for people.
    pub message: String,
    /// The [`digest`] of the SidecarSet at that time.
    #[serde(rename = "of")]
    pub sidecar_set_digest: String,
    /// The hash of the SidecarSet at that time (HASH-1).
    pub hash: String,
    /// The name of the revision that is in force instead, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<String>,
}

impl Failed {
    /// Returns the record on a ControllerRevision; `None` if there is none that can be read.
    pub fn from_revision(revision: &ControllerRevision) -> Option<Self> {
        serde_json::from_str(revision.annotation(FAILED)).ok()
    }

    /// Whether the record counts: neither `spec` nor an annotation under `pillion.dev/` has changed since.
    pub fn counts(&self, resource: &SidecarSet) -> bool {
        self.sidecar_set_digest == digest(resource)
    }

    /// Returns the record as the text of the annotation.
    pub fn text(&self) -> String {
        // Texts and an enum can always be written.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Returns a digest of what starts a failed rollout again if it changes: `spec`, and the annotations under
/// `pillion.dev/` other than [`RESTARTED_AT`]. `resource` is the custom resource in v1beta1.
pub fn digest(resource: &SidecarSet) -> String {
    let annotations = json::object(resource.as_value(), &["metadata", "annotations"]);
    let ours = annotations.into_iter().flatten().filter(|(key, _)| key.starts_with(OURS) && *key != RESTARTED_AT);
    let ours: json::Object = ours.map(|(key, value)| (key.clone(), value.clone())).collect();
    let content = json::object_of([
        ("annotations", Value::Object(ours)),
        ("spec", resource.spec(&[]).cloned().unwrap_or_default()),
    ]);
    let digest = Sha256::digest(pillion_json::go::to_string_sorted(&content).as_bytes());
    hex::encode(digest.get(..DIGEST).unwrap_or(&digest))
}

/// Returns the revisions of the SidecarSet `resource`, the newest last (REV-1, REV-5).
pub fn ascending<'a>(
    resource: &SidecarSet,
    revisions: impl IntoIterator<Item = &'a ControllerRevision>,
) -> Vec<&'a ControllerRevision> {
    let uid = json::text(resource.as_value(), &["metadata", "uid"]);
    let is_of = |revision: &&ControllerRevision| {
        let mut owners = json::items(revision.as_value(), &["metadata", "ownerReferences"]).iter();
        let owner = owners.find(|owner| json::flag(owner, &["controller"]));
        revision.label(names::SIDECAR_SET_NAME_LABEL) == Some(resource.name())
            && owner.is_none_or(|owner| json::text(owner, &["uid"]) == uid)
    };
    let mut found: Vec<&ControllerRevision> = revisions.into_iter().filter(is_of).collect();
    let order = |revision: &&ControllerRevision| {
        let created = json::text(revision.as_value(), &["metadata", "creationTimestamp"]).to_owned();
        (revision.revision(), created, revision.name().to_owned())
    };
    found.sort_by_key(order);
    found
}

/// Returns the revision that comes into force if the revision `failed`, which has this hash, fails: the newest one before
/// it that has not failed itself and has another hash. `ascending` are the revisions of the SidecarSet; `failed` may be
/// newer than all of them.
pub fn before<'a>(failed: &str, hash: &str, ascending: &[&'a ControllerRevision]) -> Option<&'a ControllerRevision> {
    let older = ascending.iter().copied().take_while(|revision| revision.name() != failed);
    let is_well = |one: &&ControllerRevision| one.annotation(FAILED).is_empty() && one.annotation(names::HASH) != hash;
    older.filter(is_well).last()
}

/// A revision that is in force because a newer one has failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Back<'a> {
    /// The revision that has failed.
    pub failed: &'a ControllerRevision,
    /// Its record.
    pub record: Failed,
    /// The revision that is in force.
    pub restored: &'a ControllerRevision,
}

impl<'a> Back<'a> {
    /// Returns what the records say, whether or not it is asked for: the newest revision has failed, and an older one is
    /// in force instead. `ascending` are the revisions of the SidecarSet.
    pub fn recorded(ascending: &[&'a ControllerRevision]) -> Option<Self> {
        let failed = *ascending.last()?;
        let record = Failed::from_revision(failed)?;
        let name = record.back.as_deref()?;
        let restored = ascending.iter().copied().find(|revision| revision.name() == name)?;
        Some(Self { failed, record, restored })
    }

    /// Returns the revision that is in force instead of the newest one: that one has failed, rollback is asked for, and
    /// the hash of the SidecarSet is still the same (ROLL-62). `set` is the SidecarSet with its hash.
    pub fn find(set: &SidecarSet, upgrades: Upgrades, ascending: &[&'a ControllerRevision]) -> Option<Self> {
        Self::recorded(ascending).filter(|back| upgrades.rollback && back.record.hash == set.hash())
    }

    /// Says what has failed and what is in force.
    pub fn text(&self) -> String {
        let Failed { at, reason, message, .. } = &self.record;
        let (failed, restored, reason) = (self.failed.name(), self.restored.name(), reason.as_str());
        format!(
            "revision \"{failed}\" failed at {at} ({reason}: {message}); revision \"{restored}\" is in force until \
             spec.containers change or pillion.dev/rollback is false"
        )
    }
}

#[cfg(test)]
mod tests;
