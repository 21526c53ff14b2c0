//! The form of the sidecars in a Pod: containers, or native sidecars (NAT-5).

use pillion_sidecarset::sidecar::List;

use crate::pod::Pod;
use crate::target::RolloutTarget;

impl RolloutTarget<'_> {
    /// Whether the Pod has a sidecar that is written as a container as a native one.
    pub(crate) fn is_native_in(&self, pod: &Pod) -> bool {
        let mut containers = self.sidecars.iter().filter(|sidecar| sidecar.list == List::Containers);
        !pod.natives.is_empty()
            && containers.any(|sidecar| pod.natives.iter().any(|native| native.container.name == sidecar.name))
    }

    /// Whether a new Pod would get the sidecars in another form.
    pub(crate) fn changes_form(&self, pod: &Pod) -> bool {
        self.native_sidecars.is_some_and(|native| native.apply(pod.ends) != self.is_native_in(pod))
    }

    /// Whether the Pod gets no further version: it ends, and its sidecars end with it.
    pub(crate) fn ends_with(&self, pod: &Pod) -> bool {
        pod.ends && self.is_native_in(pod)
    }
}
