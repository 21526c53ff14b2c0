//! Rollouts that fail, and the way back (ROLL-61, ROLL-62).

use pillion_kubernetes::field::joined;
use pillion_kubernetes::json;
use pillion_plan::Step;
use pillion_plan::failure::{self, Back, Failed};
use pillion_plan::restored::restored;
use pillion_rollout::consistency::Judged;
use pillion_rollout::counts::Counts;
use pillion_rollout::deadline::{Activity, Clock, Pace};
use pillion_rollout::fate;
use pillion_rollout::history::Revision;
use pillion_rollout::pod::Pod;
use pillion_rollout::round::Round;
use pillion_rollout::status::{Progress, READY};
use pillion_rollout::trouble;
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use pillion_sidecarset::upgrades::Upgrades;
use serde_json::Value;

use super::sources::Sources;
use super::{Rollout, SidecarSetRollout, State};
use crate::controller::{Controller as _, Failure};

/// The action in Events.
const ACTION: &str = "Upgrade";

/// The revision that is in force instead of the latest one.
pub(super) struct InForce<'a> {
    pub(super) back: Back<'a>,
    /// The SidecarSet with the contents of that revision.
    pub(super) version: SidecarSet,
    /// What people should know about new Pods, or nothing.
    note: &'static str,
}

/// What becomes of a rollout in a round.
pub(super) enum Fate {
    /// It goes on. The clock is that of the deadline, if one is asked for.
    GoesOn(Option<Clock>),
    /// It has failed, and no Pod is changed.
    Stopped(Failed),
    /// The record on the revision was changed, which the next round sees; false if another client was faster.
    Again(bool),
}

/// A round as it was decided.
pub(super) struct Decided<'a> {
    pub(super) next: &'a Round,
    pub(super) pods: &'a [&'a Pod],
    pub(super) judged: &'a [Judged],
    /// The revision that is in force.
    pub(super) revision: &'a Revision,
    /// The revisions of the SidecarSet, ascending.
    pub(super) revisions: &'a [&'a Revision],
}

/// Returns the revision that is in force instead of the latest one, if there is one; `bundled` is the version that new
/// Pods get.
///
/// # Errors
/// The revision cannot be read.
pub(super) fn in_force<'a>(
    resource: &SidecarSet,
    bundled: &SidecarSet,
    upgrades: Upgrades,
    (revisions, sources): (&[&'a Revision], &Sources),
) -> Result<Option<InForce<'a>>, String> {
    let heads: Vec<&'a ControllerRevision> = revisions.iter().map(|revision| &revision.head).collect();
    let Some(back) = Back::recorded(&heads) else { return Ok(None) };
    let wanted = prepared(resource);
    let stored = revisions.iter().find(|revision| revision.name() == back.restored.name());
    let Some(stored) = stored else { return Ok(None) };
    let restored = restored(&wanted, &stored.whole())
        .map_err(|errors| format!("ControllerRevision \"{}\" cannot be read: {}", stored.name(), joined(&errors)))?;
    let is_bundled = bundled.hash() == restored.hash();
    if Back::of(&wanted, upgrades, &heads).is_some() {
        let note = match (is_bundled, sources.has_bundle()) {
            (true, _) => "",
            (false, true) => "new Pods get it when the bundle contains it",
            (false, false) => {
                "new Pods get what the SidecarSet says, because there is no bundle in the ConfigMap of \
                               settings.bundleRef"
            }
        };
        let version = if is_bundled { bundled.clone() } else { restored };
        return Ok(Some(InForce { back, version, note }));
    }
    // It is over, and the bundle does not have another version yet.
    let is_late = is_bundled && wanted.hash() != restored.hash();
    Ok(is_late.then(|| InForce { back, version: bundled.clone(), note: "" }))
}

impl InForce<'_> {
    /// Returns the progress of the way back.
    pub(super) fn progress(&self, rollout: &Rollout<'_>, decided: &Decided<'_>, normal: Progress) -> Progress {
        let is_left = |(_, judged): &(_, &Judged)| !judged.is_updated;
        let pods = decided.pods.iter().zip(decided.judged);
        let left = pods.filter(is_left).filter(|(pod, _)| rollout.target.selects(pod)).count();
        fate::back(&self.back, decided.next, normal, (Counts::of(decided.judged), left), self.note)
    }
}

impl SidecarSetRollout {
    /// Decides whether a rollout goes on. A failure is recorded on the revision, and a record that does not count any
    /// longer is removed.
    pub(super) async fn fate(
        &self,
        rollout: &Rollout<'_>,
        decided: &Decided<'_>,
        in_force: Option<&InForce<'_>>,
        state: &mut State,
    ) -> Result<Fate, Failure> {
        let Upgrades { progress_deadline, rollback, .. } = rollout.target.upgrades;
        let Decided { revision, .. } = decided;
        let (now, counts) = (self.context.clock.now(), Counts::of(decided.judged));
        let before = state.clock.take().filter(|clock| clock.revision == revision.name());
        let before = before.or_else(|| Clock::read(rollout.object, revision.name()));
        if let Some(record) = Failed::of(&revision.head) {
            let wanted = prepared(rollout.resource);
            if rollback && in_force.is_none() && record.hash == wanted.hash() {
                let back = way_back(&wanted, decided);
                if back.is_some() && back != record.back {
                    let step = revision.fail(&Failed { back, ..record });
                    return self.record(&step, "an earlier revision comes into force").await;
                }
            }
            if record.counts(rollout.resource) && (progress_deadline.is_some() || rollback) {
                let clock = progress_deadline.map(|_| {
                    let new = Clock::next(None, revision.name(), counts, Activity::Stopped, now);
                    Clock { pace: Pace::Failed, ..before.unwrap_or(new) }
                });
                state.clock = clock;
                return Ok(Fate::Stopped(record));
            }
        }
        if let Some(step) = revision.forgive() {
            state.clock = before;
            return self.record(&step, "the rollout begins again").await;
        }
        let Some(deadline) = progress_deadline else { return Ok(Fate::GoesOn(None)) };
        let activity = Activity::of(&rollout.target, decided.next, decided.pods, decided.judged);
        let clock = Clock::next(before, revision.name(), counts, activity, now);
        state.clock = Some(clock.clone());
        let Some(left) = clock.left(deadline, now) else { return Ok(Fate::GoesOn(Some(clock))) };
        let trouble = || trouble::fails(&rollout.target, decided.pods, decided.judged, decided.revisions);
        let (reason, message) = if let Some(message) = trouble() {
            (failure::Cause::ContainersFail, message)
        } else if left.is_zero() {
            let (updated, ready) = (clock.updated, clock.updated_ready);
            let message = format!(
                "neither the number of updated Pods ({updated}) nor that of updated and ready Pods ({ready}) has grown \
                 for {}",
                deadline.text()
            );
            (failure::Cause::ProgressDeadlineExceeded, message)
        } else {
            return Ok(Fate::GoesOn(Some(clock)));
        };
        let wanted = prepared(rollout.resource);
        // If that one fails as well, nothing else is tried.
        let back = if rollback && in_force.is_none() { way_back(&wanted, decided) } else { None };
        tracing::warn!(
            controller = Self::NAME,
            sidecarset = rollout.resource.name(),
            revision = revision.name(),
            reason = reason.as_str(),
            "the rollout has failed: {message}"
        );
        let failed = Failed {
            at: now.to_string(),
            reason,
            message,
            of: failure::digest(rollout.resource),
            hash: wanted.hash().to_owned(),
            back,
        };
        self.record(&revision.fail(&failed), "its rollout has failed").await
    }

    /// Says once that a deadline counts in this process alone.
    pub(super) fn say_that_conditions_are_dropped(&self, object: &Value, state: &mut State) {
        let name = json::text(object, &["metadata", "name"]);
        let text = format!(
            "the definition of SidecarSets keeps no conditions, so the progress deadline of SidecarSet \"{name}\" counts \
             from the start of this process"
        );
        if !std::mem::replace(&mut state.is_drop_told, true) {
            tracing::warn!(controller = Self::NAME, sidecarset = name, "{text}");
            self.effects.problem(None, text);
        }
    }

    /// Changes the record on a revision. The next round sees it.
    async fn record(&self, step: &Step, why: &str) -> Result<Fate, Failure> {
        Ok(Fate::Again(self.effects.settle(step, why).await?))
    }

    /// Tells people that a rollout has failed, unless the status shows that an earlier process has told them. `revision`
    /// is the one of the record.
    pub(super) async fn tell_failed(
        &self,
        object: &Value,
        (revision, record): (&str, &Failed),
        progress: &Progress,
        state: &mut State,
    ) {
        let name = json::text(object, &["metadata", "name"]);
        let Failed { at, reason, .. } = record;
        self.effects.problem(None, format!("SidecarSet \"{name}\": {}", progress.message));
        let mut conditions = json::items(object, &["status", "conditions"]).iter();
        let said = conditions.find(|condition| json::text(condition, &["type"]) == READY);
        let said = said.map(|condition| json::text(condition, &["message"])).unwrap_or_default();
        let is_told = [revision, at].iter().all(|text| said.contains(text));
        if state.journal.is_news(&format!("{revision} failed at {at}")) && !is_told {
            self.context.events.warning(object, ACTION, reason.as_str(), progress.message.clone()).await;
        }
    }
}

/// Returns the name of the revision that comes into force if the one of the round fails.
fn way_back(wanted: &SidecarSet, decided: &Decided<'_>) -> Option<String> {
    let heads: Vec<&ControllerRevision> = decided.revisions.iter().map(|revision| &revision.head).collect();
    failure::before(decided.revision.name(), wanted.hash(), &heads).map(|revision| revision.name().to_owned())
}
