//! The decision on a round of a rollout: what was observed goes in, and what is to be done comes out. Nothing here writes.

use std::time::Duration;

use pillion_plan::failure::{Back, Cause, Failed};

use crate::absence::Absence;
use crate::consistency::Judged;
use crate::counts::Counts;
use crate::deadline::Clock;
use crate::failed_progress;
use crate::failure::{RecordChange, Verdict, assess};
use crate::follow::{Following, following};
use crate::observed::{BundleState, Observed};
use crate::pod::Pod;
use crate::recreate::{self, named};
use crate::resize;
use crate::rollback::Rollback;
use crate::round::{Round, round};
use crate::status::Progress;
use crate::target::RolloutTarget;

/// The decision on a round.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The states of the observed Pods.
    pub judged: Vec<Judged>,
    /// The clock of the deadline, if one is asked for.
    pub clock: Option<Clock>,
    /// The writes of the round.
    pub next: Next,
    /// When to look again although nothing changes: states of Pods depend on the time.
    pub look_again: Option<Duration>,
}

/// How long states of Pods that depend on the time may be late.
const LATE: Duration = Duration::from_secs(5);

/// When the next Pods follow the app, if there are too many for one round.
const SOON: Duration = Duration::from_secs(1);

/// The writes of a round.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// The record of a failure, and nothing else. The next round sees it.
    ChangeRecord(RecordChange),
    /// An Event about the failure, the status, and then Pods.
    Report(RoundReport),
}

/// The status and the Event of a round, and then its changes of Pods.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundReport {
    /// The numbers of Pods that have the sidecar.
    pub counts: Counts,
    /// The progress.
    pub progress: Progress,
    /// The failure that the progress is about.
    pub failure: Option<RevisionFailure>,
    /// Why the rollout has failed, if it has. Then no Pod is changed.
    pub stopped: Option<Cause>,
    /// The changes of Pods. A rollout that has failed makes none.
    pub round: Round,
    /// The Pods whose sidecars follow the app (ROLL-70).
    pub following: Following,
}

/// The failure of a revision.
#[derive(Clone, Debug, PartialEq)]
pub struct RevisionFailure {
    /// The name of the revision.
    pub revision: String,
    /// The record of the failure.
    pub record: Failed,
}

/// Decides on a round.
pub fn decide(observed: &Observed<'_>) -> Decision {
    let Observed { target, pods, uncertain, rollback, revision, .. } = *observed;
    let judged: Vec<Judged> = pods.iter().map(|pod| Judged::judge(target, pod)).collect();
    let round = round(target, pods, &judged, |pod| uncertain.contains_key(&pod.metadata.uid));
    // The numbers are about the Pods that have the sidecar.
    let members = judged.get(..observed.members).unwrap_or_default();
    let counts = Counts::count(members);
    let assessment = assess(observed, &round, members);
    let look_again =
        pods.iter().zip(&judged).any(|(pod, judged)| depends_on_time(target, pod, *judged)).then_some(LATE);
    let name = revision.name();
    let (progress, failure, stopped) = match assessment.verdict {
        Verdict::ChangeRecord(change) => {
            return Decision { next: Next::ChangeRecord(change), clock: assessment.clock, judged, look_again };
        }
        Verdict::Stopped(record) => {
            let back = rollback.map(|rollback| &rollback.back);
            let progress = failed_progress::failed(name, &record, back, target.upgrades.rollback, counts);
            let stopped = Some(record.reason);
            (progress, Some(RevisionFailure { revision: name.to_owned(), record }), stopped)
        }
        Verdict::Continue => {
            let of_round = (pods, judged.as_slice(), observed.members);
            let normal = Progress::after_round(target, &round, counts);
            let normal = recreate::progress(normal, (target, &round), of_round, observed.held);
            let normal = with_resize_error(normal, target, pods);
            let normal = with_reshaped(normal, observed.reshaped);
            let normal = behind_bundle(normal, observed.bundle);
            match rollback {
                None => (normal, None, None),
                Some(rollback) => {
                    let Back { failed, record, .. } = &rollback.back;
                    let failure = RevisionFailure { revision: failed.name().to_owned(), record: record.clone() };
                    (progress_back(rollback, observed, &round, members, normal), Some(failure), None)
                }
            }
        }
    };
    let following = match stopped {
        None => following(observed, &round, &judged),
        Some(_) => Following::default(),
    };
    let look_again = if following.is_cut { Some(SOON) } else { look_again };
    let report = RoundReport { counts, progress, failure, stopped, round, following };
    Decision { next: Next::Report(report), clock: assessment.clock, judged, look_again }
}

/// Whether time alone may change how a Pod counts, or what is told about it.
fn depends_on_time(target: &RolloutTarget<'_>, pod: &Pod, judged: Judged) -> bool {
    (judged.absence == Some(Absence::Other) && target.is_newly_unready(pod))
        || (judged.is_in_flight && target.is_undecided(pod))
        || resize::depends_on_time(target, pod)
}

/// Names the first Pod whose resize the kubelet does not get done, and what the kubelet says.
fn with_resize_error(progress: Progress, target: &RolloutTarget<'_>, pods: &[&Pod]) -> Progress {
    let failing = pods.iter().find_map(|pod| Some((named(pod), resize::error(target, pod)?)));
    match failing.filter(|_| !progress.is_ready) {
        Some((pod, error)) => {
            let message = format!("{}; the resize of Pod \"{pod}\" fails: {error}", progress.message);
            Progress { message, ..progress }
        }
        None => progress,
    }
}

/// Tells about Pods that have other containers of the SidecarSet: no upgrade gives them the version (ROLL-11).
fn with_reshaped(progress: Progress, reshaped: usize) -> Progress {
    if reshaped == 0 {
        return progress;
    }
    let what = format!("{reshaped} Pods have other containers of this SidecarSet, and must be created again");
    let message = format!("{what}; {}", progress.message);
    match progress.reason {
        "NotUpdate" | "Paused" | "InvalidStrategy" => Progress { message, ..progress },
        _ if progress.is_ready => Progress::stalled("NotUpgradablePods", message),
        _ => Progress { message, ..progress },
    }
}

/// Returns the progress while new Pods do not get what the custom resource says: the rollout of that has not begun.
fn behind_bundle(progress: Progress, bundle: BundleState) -> Progress {
    match bundle {
        BundleState::Current => progress,
        _ if progress.is_stalled => progress,
        BundleState::Behind => {
            let message =
                format!("the bundle does not contain this generation yet; of the version before, {}", progress.message);
            Progress::reconciling("WaitingForBundle", message)
        }
        BundleState::Refused => {
            let message = format!(
                "the bundle keeps the version before this generation, and condition InBundle says why; of the version \
                 before, {}",
                progress.message
            );
            Progress::stalled("NotInBundle", message)
        }
    }
}

/// Returns the progress of the way back.
fn progress_back(
    rollback: &Rollback<'_>,
    observed: &Observed<'_>,
    round: &Round,
    judged: &[Judged],
    normal: Progress,
) -> Progress {
    let pods = observed.pods.iter().zip(judged);
    let left = pods.filter(|(pod, judged)| !judged.is_updated && observed.target.selects(pod)).count();
    failed_progress::back(&rollback.back, round, normal, (Counts::count(judged), left), rollback.note)
}
