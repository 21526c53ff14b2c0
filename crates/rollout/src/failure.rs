//! Whether a rollout goes on, and what happens when it fails (ROLL-61, ROLL-62): the failure is recorded on the revision,
//! with the revision that comes into force instead, and no Pod is changed until the SidecarSet changes.

use pillion_plan::Step;
use pillion_plan::failure::{self, Cause, Failed};
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use pillion_sidecarset::upgrades::Upgrades;

use crate::consistency::Judged;
use crate::counts::Counts;
use crate::deadline::{Activity, Clock, Pace};
use crate::observed::Observed;
use crate::round::Round;
use crate::trouble;

/// Whether a rollout goes on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// It goes on.
    Continue,
    /// It has failed, and no Pod is changed.
    Stopped(Failed),
    /// The record of a failure changes first.
    ChangeRecord(RecordChange),
}

/// A change of the record of a failure on a revision.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordChange {
    /// The change.
    pub step: Step,
    /// Why it is made.
    pub why: &'static str,
    /// The failure, if it is a new one.
    pub failure: Option<Failed>,
}

/// A verdict, and the clock of the deadline after it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Assessment {
    /// The verdict.
    pub verdict: Verdict,
    /// The clock, if a deadline is asked for.
    pub clock: Option<Clock>,
}

impl Assessment {
    fn change_record(step: Step, why: &'static str, clock: Option<Clock>) -> Self {
        Self { verdict: Verdict::ChangeRecord(RecordChange { step, why, failure: None }), clock }
    }
}

/// Decides whether a rollout goes on. `judged` are the states of the Pods of the SidecarSet.
pub(crate) fn assess(observed: &Observed<'_>, round: &Round, judged: &[Judged]) -> Assessment {
    let Observed { resource, target, pods, revision, revisions, now, .. } = *observed;
    let Upgrades { progress_deadline, rollback, .. } = target.upgrades;
    let may_go_back = rollback && observed.rollback.is_none();
    let counts = Counts::count(judged);
    let before = observed.clock.filter(|clock| clock.revision == revision.name()).cloned();
    let before = before.or_else(|| Clock::read(observed.object, revision.name()));
    if let Some(record) = Failed::from_revision(&revision.head) {
        let wanted = prepared(resource);
        if may_go_back && record.hash == wanted.hash() {
            let back = way_back(&wanted, observed);
            if back.is_some() && back != record.back {
                let step = revision.fail(&Failed { back, ..record });
                return Assessment::change_record(step, "an earlier revision comes into force", None);
            }
        }
        if record.counts(resource) && (progress_deadline.is_some() || rollback) {
            let clock = progress_deadline.map(|_| {
                let new = Clock::next(None, revision.name(), counts, Activity::Stopped, now);
                Clock { pace: Pace::Failed, ..before.unwrap_or(new) }
            });
            return Assessment { verdict: Verdict::Stopped(record), clock };
        }
    }
    if let Some(step) = revision.forgive() {
        return Assessment::change_record(step, "the rollout begins again", before);
    }
    let Some(deadline) = progress_deadline else { return Assessment { verdict: Verdict::Continue, clock: None } };
    let activity = Activity::after_round(target, round, pods, judged);
    let clock = Clock::next(before, revision.name(), counts, activity, now);
    let Some(left) = clock.left(deadline, now) else {
        return Assessment { verdict: Verdict::Continue, clock: Some(clock) };
    };
    let (reason, message) = if let Some(message) = trouble::fails(target, pods, judged, revisions) {
        (Cause::ContainersFail, message)
    } else if left.is_zero() {
        let (updated, ready) = (clock.updated, clock.updated_ready);
        let message = format!(
            "neither the number of updated Pods ({updated}) nor that of updated and ready Pods ({ready}) has grown for {}",
            deadline.text()
        );
        (Cause::ProgressDeadlineExceeded, message)
    } else {
        return Assessment { verdict: Verdict::Continue, clock: Some(clock) };
    };
    let wanted = prepared(resource);
    // If that one fails as well, nothing else is tried.
    let back = if may_go_back { way_back(&wanted, observed) } else { None };
    let failed = Failed {
        at: now.to_string(),
        reason,
        message,
        sidecar_set_digest: failure::digest(resource),
        hash: wanted.hash().to_owned(),
        back,
    };
    let change = RecordChange { step: revision.fail(&failed), why: "its rollout has failed", failure: Some(failed) };
    Assessment { verdict: Verdict::ChangeRecord(change), clock: Some(clock) }
}

/// Returns the name of the revision that comes into force if the one of the round fails.
fn way_back(wanted: &SidecarSet, observed: &Observed<'_>) -> Option<String> {
    let heads: Vec<&ControllerRevision> = observed.revisions.iter().map(|revision| &revision.head).collect();
    failure::before(observed.revision.name(), wanted.hash(), &heads).map(|revision| revision.name().to_owned())
}
