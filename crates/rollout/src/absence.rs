//! Pods that are not ready for another reason than their containers (ROLL-35): a new image does not help them, and those of
//! a node would all restart at once when the node is back.

use crate::pod::{ContainerStatus, Phase, Pod};
use crate::target::RolloutTarget;

/// How long the containers of a Pod may be not ready until that counts as their own state, in seconds. A kubelet that
/// starts reports all containers with a probe as not ready until the probe has succeeded.
const PROBED: i64 = 30;
/// How long after the start of a container its Pod may become not ready because of it, in seconds.
const STARTING: i64 = 10;

/// Why a Pod is not ready, if its containers are not the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// Its node is not ready.
    Node,
    /// All its containers are ready, or were a short time ago and still run.
    Other,
}

impl RolloutTarget<'_> {
    /// Returns why a Pod is not ready, or may soon not be, if its containers are not the reason.
    pub(crate) fn absence(&self, pod: &Pod) -> Option<Absence> {
        let state = &pod.state;
        if self.surroundings.unready_nodes.contains(&pod.node) {
            return Some(Absence::Node);
        }
        if state.is_ready || state.phase != Phase::Running || state.containers.len() != pod.containers.len() {
            return None;
        }
        // A container that ran before is still the one that was ready.
        let ran_before = |status: &ContainerStatus| {
            let times = status.state.started_at.zip(state.unready_since);
            times.is_some_and(|(started, since)| started.0.0.saturating_add(STARTING) < since.0.0)
        };
        let mut unready = state.containers.iter().filter(|status| !status.is_ready).peekable();
        let is_other = unready.peek().is_none() || (self.is_newly_unready(pod) && unready.all(ran_before));
        is_other.then_some(Absence::Other)
    }

    /// Whether a Pod is not ready for a short time as yet.
    pub(crate) fn is_newly_unready(&self, pod: &Pod) -> bool {
        pod.state.unready_since.is_some_and(|since| !self.has_passed(since.0, PROBED))
    }
}
