//! What runs: whether the status of a container is about the container that the spec asks for (ROLL-20), and whether its
//! trouble is (ROLL-61).
//!
//! After a change of an image, the kubelet reports the former container until it has stopped it, and then waits, pulls
//! and starts. Neither the name of an image nor its id tells the two containers apart in every case: a tag may have the
//! id of another one, a runtime may report either tag, and the digest of an index is not that of the image that runs.

use pillion_sidecarset::image;

use crate::pod::{ContainerStatus, Pod, Trouble};
use crate::target::RolloutTarget;

/// How long the kubelet may start an image that a later change has replaced, in seconds: it may be stopping a container,
/// which takes 30 s unless the Pod says otherwise, and then starts what it saw before.
const SUPERSEDED: i64 = 60;
/// How long the kubelet may take until it sees a change, in seconds.
const SEEN: i64 = 10;
/// How long the kubelet may report the trouble of the container before a change, in seconds.
const FORMER_TROUBLE: i64 = 15;

impl RolloutTarget<'_> {
    /// Whether the status of a container is about the container that the spec asks for. A container whose image no
    /// upgrade has changed is that one, whatever its status says.
    pub(crate) fn runs(&self, pod: &Pod, name: &str) -> bool {
        let (Some(status), Some((_, container))) = (pod.status(name), pod.container(name)) else { return true };
        let Some(change) = pod.in_place().change(self.name(), name) else { return true };
        let is_asked_for = is_of(status, &container.image);
        let has_other_image = change.image_id.is_some_and(|before| before != status.image_id);
        let passed = |seconds| change.at.is_none_or(|at| self.has_passed(at, seconds));
        let Some(before) = change.before else {
            let since = change.at.zip(status.state.started_at);
            return is_asked_for || has_other_image || since.is_some_and(|(changed, started)| started.0 > changed);
        };
        if before.is_replaced_by(status) {
            let is_superseded = || before.superseded.iter().any(|image| is_of(status, image));
            is_asked_for || passed(SUPERSEDED) || !is_superseded()
        } else if before.superseded.is_empty() {
            // Each change restarts the container. A runtime without ids tells the image at least.
            status.container_id.is_empty() && (is_asked_for || has_other_image)
        } else {
            // The image may be that of a change before, which the kubelet did not see.
            passed(SUPERSEDED) || (is_asked_for && passed(SEEN))
        }
    }

    /// Whether the kubelet has not carried out a change of the Pod's images yet.
    pub(crate) fn is_in_flight(&self, pod: &Pod) -> bool {
        self.containers().iter().any(|name| !self.runs(pod, name))
    }

    /// Whether time alone may change what a container counts as: it has a superseded image, or had trouble before.
    pub(crate) fn is_undecided(&self, pod: &Pod) -> bool {
        let is_recent = |name: &str| {
            pod.in_place().change(self.name(), name).is_some_and(|change| {
                let is_open = change.before.is_some_and(|it| !it.superseded.is_empty() || it.trouble.is_some());
                is_open && change.at.is_some_and(|at| !self.has_passed(at, SUPERSEDED))
            })
        };
        self.containers().iter().any(|name| is_recent(name) && !self.runs(pod, name))
    }

    /// Whether a container whose image an upgrade has changed is not ready.
    pub(crate) fn is_starting(&self, pod: &Pod) -> bool {
        let is_changed = |name: &str| pod.in_place().change(self.name(), name).is_some();
        let is_unready = |name: &str| pod.status(name).is_some_and(|status| !status.is_ready);
        self.containers().iter().any(|name| is_unready(name) && is_changed(name))
    }

    /// Returns the trouble of the container that the spec asks for. The kubelet also reports trouble of the container
    /// before, and calls it a back-off when an image starts again that ran a short time ago.
    pub(crate) fn trouble(&self, pod: &Pod, status: &ContainerStatus) -> Option<Trouble> {
        let trouble = status.state.trouble?;
        let change = pod.in_place().change(self.name(), &status.name);
        let before = change.and_then(|change| change.before);
        let is_its_own = match trouble {
            Trouble::Crash => {
                // An upgrade restarts a container once.
                let (is_new, restarts) = match (&change, before) {
                    (Some(_), Some(before)) => (before.is_replaced_by(status), before.restarts.saturating_add(1)),
                    (Some(_), None) => (true, i64::MAX),
                    (None, _) => (true, 0),
                };
                let has_failed = status.last_exit_code.is_some_and(|code| code != 0) || status.restarts > restarts;
                is_new && has_failed && self.runs(pod, &status.name)
            }
            Trouble::Image | Trouble::Start => {
                let had_it = before.is_some_and(|before| before.trouble == Some(trouble));
                let is_late =
                    || change.and_then(|change| change.at).is_none_or(|at| self.has_passed(at, FORMER_TROUBLE));
                !had_it || is_late()
            }
        };
        is_its_own.then_some(trouble)
    }
}

/// Whether a container runs an image, by any name of the image.
fn is_of(status: &ContainerStatus, image: &str) -> bool {
    let running = image::digest(without_scheme(&status.image_id));
    image::is_same(&status.image, image) || (running.is_some() && running == image::digest(image))
}

/// Returns the image reference in the id of an image: runtimes write a scheme before it.
fn without_scheme(image_id: &str) -> &str {
    image_id.split_once("://").map_or(image_id, |(_, id)| id)
}
