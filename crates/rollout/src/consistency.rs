//! Which Pods belong to a SidecarSet, and in which state they are (ROLL-10, ROLL-11, ROLL-16, ROLL-20).

use crate::absence::Absence;
use crate::method::UpgradeMethod;
use crate::pair::{self, Pair};
use crate::pod::{Phase, Pod};
use crate::target::RolloutTarget;

impl Pod {
    /// Whether the Pod runs and is ready.
    pub(crate) fn is_running_and_ready(&self) -> bool {
        self.state.phase == Phase::Running && self.state.is_ready && self.metadata.deletion_timestamp.is_none()
    }
}

/// Whether a Pod belongs to the SidecarSet (ROLL-10): it is active, was injected with it and is consistent with it. The
/// labels and the namespace are checked before.
pub fn is_candidate(target: &RolloutTarget<'_>, pod: &Pod) -> bool {
    is_injected(target, pod) && has_all_sidecars(target, pod)
}

/// Whether a Pod is active and was injected with the SidecarSet. One that ends together with native sidecars of the
/// SidecarSet does not count (NAT-5).
pub fn is_injected(target: &RolloutTarget<'_>, pod: &Pod) -> bool {
    pod.is_active() && pod.injected().any(|name| name == target.name()) && !target.ends_with(pod)
}

/// Whether the Pod has a container for each sidecar; for a pair, both containers and the record of the working one
/// (ROLL-11).
pub fn has_all_sidecars(target: &RolloutTarget<'_>, pod: &Pod) -> bool {
    target.sidecars.iter().all(|sidecar| {
        let is_recorded = sidecar.empty_image.is_none() || pair::working(pod).contains_key(sidecar.name);
        is_recorded && sidecar.containers().iter().all(|name| pod.container(name).is_some())
    })
}

/// The state of a Pod of the SidecarSet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is an answer of its own, and they combine freely")]
pub struct Judged {
    /// Whether the Pod has the version that is rolled out, by its record. A Pod whose resize has begun does not have it.
    pub is_updated: bool,
    /// Whether its containers run the images of its spec (ROLL-20).
    pub is_consistent: bool,
    /// Whether it is ready (ROLL-16).
    pub is_ready: bool,
    /// Whether its resize has begun, and can be completed (ROLL-65).
    pub is_resizing: bool,
    /// Whether the kubelet has not carried out a change of its images yet, to whichever version.
    pub is_in_flight: bool,
    /// Whether a container whose image an upgrade has changed is not ready.
    pub is_starting: bool,
    /// Whether it is not ready, or may soon not be, for another reason than its containers (ROLL-35).
    pub absence: Option<Absence>,
}

impl Judged {
    /// Judges a Pod of the SidecarSet.
    pub fn judge(target: &RolloutTarget<'_>, pod: &Pod) -> Self {
        let is_in_flight = target.is_in_flight(pod);
        Self {
            is_updated: target.recorded_hash(pod.records()) == target.hash() && pod.resize(target).is_none(),
            is_consistent: has_all_statuses(pod) && !is_in_flight,
            is_ready: is_ready(target, pod),
            is_resizing: pod.resize(target).is_some() && target.upgrade_method(pod) == Ok(UpgradeMethod::Resize),
            is_in_flight,
            is_starting: target.is_starting(pod),
            absence: target.absence(pod),
        }
    }

    /// Whether the Pod serves: it is consistent and ready.
    pub const fn is_available(self) -> bool {
        self.is_consistent && self.is_ready
    }
}

/// Whether the Pod runs and is ready, and each idle container of a pair has its empty image (ROLL-16).
pub fn is_ready(target: &RolloutTarget<'_>, pod: &Pod) -> bool {
    let mut pairs = target.pairs().filter(|(_, empty)| !empty.is_empty());
    pairs.all(|(sidecar, empty)| {
        pod.container(&Pair::find(sidecar, pod).idle).is_none_or(|(_, container)| container.image == empty)
    }) && pod.is_running_and_ready()
}

/// Whether each container has a status.
fn has_all_statuses(pod: &Pod) -> bool {
    pod.containers.len() == pod.state.containers.len()
}

/// Whether the statuses of the SidecarSet's containers are about the containers of the spec (ROLL-20). Only containers for
/// which `counts` returns true are compared.
pub fn is_consistent(target: &RolloutTarget<'_>, pod: &Pod, counts: impl Fn(&str) -> bool) -> bool {
    has_all_statuses(pod) && target.containers().iter().filter(|name| counts(name)).all(|name| target.runs(pod, name))
}
