//! The progress deadline of a rollout (ROLL-61): when the last progress was, and whether time counts.

use std::fmt;
use std::time::Duration;

use pillion_kubernetes::duration::Duration as Span;
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::condition::{self, Condition};
use pillion_plan::failure::Cause;
use serde_json::Value;

use crate::absence::Absence;
use crate::budget;
use crate::consistency::Judged;
use crate::counts::Counts;
use crate::pod::Pod;
use crate::round::{Rest, Round};
use crate::target::RolloutTarget;

/// The condition of a SidecarSet with the last progress of its rollout. It is written only if a deadline is asked for.
pub const PROGRESSING: &str = "Progressing";

/// What a rollout does, as far as the deadline is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Pods are to be changed, and the strategy allows it.
    Working,
    /// No Pod is to be changed, but updated Pods are not ready.
    Settling,
    /// The strategy stops the rollout, or the Pods that are left are away (ROLL-35).
    Stopped,
    /// The strategy is satisfied.
    Satisfied,
}

impl Activity {
    /// Returns what a rollout does after a round was decided. `pods` and `judged` are those of the round.
    pub fn after_round(target: &RolloutTarget<'_>, round: &Round, pods: &[&Pod], judged: &[Judged]) -> Self {
        let counts = Counts::count(judged);
        // A node that is away is no fault of the version.
        let is_settling =
            |judged: &Judged| judged.is_updated && !judged.is_available() && judged.absence != Some(Absence::Node);
        let settled = if judged.iter().any(is_settling) { Self::Settling } else { Self::Satisfied };
        // Evicted Pods that are not replaced yet have to come back.
        let settled = if target.recreation.missing > 0 { Self::Working } else { settled };
        match round {
            Round::Rest(Rest::NotUpdate | Rest::Paused | Rest::Unreadable) => Self::Stopped,
            Round::Rest(Rest::Done) => settled,
            Round::Reset(_) => Self::Working,
            Round::Upgrade { chosen, .. } if !chosen.is_empty() => Self::Working,
            Round::Upgrade { open, .. } => {
                let limits = target.strategy.limits;
                let absent = pods.iter().zip(judged).filter(|(pod, judged)| {
                    judged.absence.is_some()
                        && !judged.is_updated
                        && target.selects(pod)
                        && target.upgrade_method(pod).is_ok()
                });
                // Pods beyond the partition wait for others to be ready, unless no Pod may be unavailable.
                let kept = budget::partition(limits.partition, counts.matched);
                if *open <= kept || budget::max_unavailable(limits.max_unavailable, counts.matched) == 0 {
                    settled
                } else if open.saturating_sub(absent.count()) <= kept && settled == Self::Satisfied {
                    Self::Stopped
                } else {
                    Self::Working
                }
            }
        }
    }
}

/// Whether time counts against the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Time counts.
    Counting,
    /// The strategy or Pods that are away stop the rollout, so time does not count.
    Resting,
    /// The rollout has done what its strategy asks for. Updated Pods that are not ready any more are not its fault, so
    /// time counts again only if there are Pods to change.
    Satisfied,
    /// The rollout has failed.
    Failed,
}

impl Pace {
    const fn reason(self) -> &'static str {
        match self {
            Self::Counting => "WaitingForProgress",
            Self::Resting => "Resting",
            Self::Satisfied => "Satisfied",
            // Each failure has a reason of its own.
            Self::Failed => "",
        }
    }

    fn next(before: Option<Self>, activity: Activity) -> Self {
        match (activity, before) {
            (Activity::Working, _) | (Activity::Settling, Some(Self::Counting | Self::Resting | Self::Failed)) => {
                Self::Counting
            }
            // Nothing tells that this rollout is not complete already.
            (Activity::Settling, Some(Self::Satisfied) | None)
            | (Activity::Satisfied, _)
            | (Activity::Stopped, Some(Self::Satisfied)) => Self::Satisfied,
            (Activity::Stopped, _) => Self::Resting,
        }
    }
}

/// How far the rollout of a revision has come, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock {
    /// The name of the revision.
    pub revision: String,
    /// The number of Pods.
    pub matched: usize,
    /// The largest number of updated Pods.
    pub updated: usize,
    /// The largest number of Pods that were updated and ready.
    pub updated_ready: usize,
    /// The time of the last progress, or when time began to count.
    pub since: Timestamp,
    /// Whether time counts.
    pub pace: Pace,
}

impl Clock {
    /// Reads the clock of a revision from the condition of a SidecarSet; `None` if the condition is about another
    /// revision, or is not there.
    pub fn read(sidecar_set: &Value, revision: &str) -> Option<Self> {
        let condition = condition::find(sidecar_set, PROGRESSING)?;
        let text = |key| json::text(condition, &[key]);
        let since = Timestamp::parse(text("lastTransitionTime"))?;
        let reason = text("reason");
        let paces = [Pace::Counting, Pace::Resting, Pace::Satisfied];
        let pace = match paces.into_iter().find(|pace| pace.reason() == reason) {
            Some(pace) => pace,
            None => Cause::ALL.into_iter().any(|cause| cause.as_str() == reason).then_some(Pace::Failed)?,
        };
        let clock = Self::parse(text("message"), since, pace)?;
        (clock.revision == revision).then_some(clock)
    }

    /// Reads what [`fmt::Display`] writes.
    fn parse(text: &str, since: Timestamp, pace: Pace) -> Option<Self> {
        let (revision, rest) = text.strip_prefix("revision \"")?.split_once("\": ")?;
        let (updated, rest) = rest.split_once(" of ")?;
        let (matched, rest) = rest.split_once(" Pods were updated, ")?;
        let (updated_ready, _) = rest.split_once(" of them were ready")?;
        Some(Self {
            revision: revision.to_owned(),
            matched: matched.parse().ok()?,
            updated: updated.parse().ok()?,
            updated_ready: updated_ready.parse().ok()?,
            since,
            pace,
        })
    }

    /// Returns the clock of a revision after a round. `before` is the clock before it, if it is about this revision.
    #[must_use]
    pub fn next(before: Option<Self>, revision: &str, counts: Counts, activity: Activity, now: Timestamp) -> Self {
        let Counts { matched, updated, updated_ready, .. } = counts;
        let before = before.filter(|before| before.revision == revision);
        let pace = Pace::next(before.as_ref().map(|before| before.pace), activity);
        let new = Self { revision: revision.to_owned(), matched, updated, updated_ready, since: now, pace };
        let Some(before) = before else { return new };
        let starts = pace == Pace::Counting && before.pace != Pace::Counting;
        let grows = updated > before.updated || updated_ready > before.updated_ready;
        if starts {
            return new;
        }
        let since = if grows { now } else { before.since };
        if matched < before.matched {
            // The numbers of fewer Pods grow from where they are.
            return Self { since, ..new };
        }
        let (updated, updated_ready) = (updated.max(before.updated), updated_ready.max(before.updated_ready));
        Self { updated, updated_ready, since, ..new }
    }

    /// Returns how long the rollout may still make no progress; zero if it has failed, `None` if time does not count.
    pub fn left(&self, deadline: Span, now: Timestamp) -> Option<Duration> {
        let end = self.end(deadline);
        let left = u64::try_from(end.0.saturating_sub(now.0)).unwrap_or_default();
        (self.pace == Pace::Counting).then(|| Duration::from_secs(left))
    }

    /// Returns when the rollout fails unless there is progress. Times have whole seconds, so a fraction counts as one.
    fn end(&self, deadline: Span) -> Timestamp {
        const SECOND: i64 = 1_000_000_000;
        let seconds = deadline.0 / SECOND + i64::from(deadline.0 % SECOND != 0);
        Timestamp(self.since.0.saturating_add(seconds))
    }

    /// Returns the message of the condition.
    pub fn message(&self, deadline: Span) -> String {
        match self.pace {
            Pace::Counting => format!("{self}; the rollout fails at {} unless these numbers grow", self.end(deadline)),
            Pace::Resting => format!("{self}; the strategy or Pods that are away stop the rollout, so no time counts"),
            Pace::Satisfied => format!("{self}; the rollout has done what its strategy asks for, so no time counts"),
            Pace::Failed => self.to_string(),
        }
    }

    /// Returns the condition. `failed` is why the rollout has failed, if it has.
    pub fn condition<'a>(&self, failed: Option<Cause>, message: &'a str) -> Condition<'a> {
        let reason = failed.map_or(self.pace.reason(), Cause::as_str);
        Condition { type_: PROGRESSING, status: failed.is_none(), reason, message, since: Some(self.since) }
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { revision, matched, updated, updated_ready, .. } = self;
        write!(
            f,
            "revision \"{revision}\": {updated} of {matched} Pods were updated, {updated_ready} of them were ready"
        )
    }
}
