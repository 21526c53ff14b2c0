//! What was measured.

use std::time::Duration;

use crate::counts::Counted;
use crate::plan::Size;

/// What the controllers took for a phase.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// The time until the phase was complete: until the process was ready, until all Pods were updated, or all of it.
    pub time: Duration,
    /// The time until the last write. `None` without a write, and where the requests are not counted.
    pub last_write: Option<Duration>,
    /// CPU time.
    pub cpu: Duration,
    /// Resident memory at the end, in bytes.
    pub memory: u64,
    /// The peak of the resident memory since the process started, in bytes.
    pub peak: u64,
    /// The requests. Empty if nobody counted them.
    pub counted: Counted,
}

/// A rollout, and what the Pods alone needed.
#[derive(Clone, Debug, Default)]
pub struct Rollout {
    /// The number of SidecarSets that changed.
    pub sidecar_sets: usize,
    /// The number of their Pods.
    pub pods: usize,
    /// The time in which a client upgraded as many Pods that knows when a Pod is ready.
    pub baseline: Duration,
    /// The first rollout by the controllers to these Pods.
    pub first: Phase,
    /// The next one. The Pods have the condition `SidecarSetUpgradable` by then (ROLL-50), so each needs one write.
    pub next: Phase,
}

/// The way of a change from a SidecarSet to admission.
#[derive(Clone, Copy, Debug, Default)]
pub struct Admission {
    /// From the change of the SidecarSet to a review whose answer has it.
    pub time: Duration,
    /// The peak of the resident memory of `pillion serve`, in bytes.
    pub peak: u64,
}

/// One cluster.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its size.
    pub size: Size,
    /// The length of a Pod as JSON, in bytes.
    pub pod: usize,
    /// The start, with nothing made.
    pub start: Phase,
    /// The rollout to a tenth of the Pods.
    pub rollout: Rollout,
    /// The change of one SidecarSet.
    pub admission: Admission,
    /// A time in which one Pod of a hundred is replaced each minute.
    pub churn: Phase,
    /// A time in which nothing changes.
    pub rest: Phase,
    /// The start, with everything made.
    pub restart: Phase,
}
