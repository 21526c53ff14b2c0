//! Hot upgrades (ROLL-45 to ROLL-48): a sidecar is a pair of containers, of which one works and the other is idle.

use std::collections::BTreeMap;

use pillion_json::go as go_json;
use pillion_sidecarset::names;
use serde_json::json;

use crate::consistency::is_consistent;
use crate::pair::Pair;
use crate::pod::Pod;
use crate::target::{RolloutTarget, Sidecar};

/// Returns the containers of a pair in the order of an upgrade: the one that gets the new image, and the other one
/// (ROLL-45).
pub(crate) fn order(target: &RolloutTarget<'_>, sidecar: &Sidecar<'_>, pod: &Pod) -> [String; 2] {
    let [first, second] = sidecar.pair();
    let image = |name: &str| pod.container(name).map(|(_, container)| container.image.as_str());
    if image(&first) == sidecar.empty_image {
        return [first, second];
    }
    if image(&second) == sidecar.empty_image {
        return [second, first];
    }
    let works = |name: &String| {
        pod.status(name).is_some_and(|status| status.is_ready)
            && is_consistent(target, pod, |container| container == name)
    };
    match (works(&first), works(&second)) {
        (true, false) => [second, first],
        (false, true) => [first, second],
        _ => {
            let Pair { working, idle } = Pair::find(sidecar, pod);
            [idle, working]
        }
    }
}

/// Returns the annotations after `changed` of a pair got a new image (ROLL-46). `alternative` is the version of the other
/// half.
pub(crate) fn annotations(
    alternative: Option<&str>,
    mut working: BTreeMap<String, String>,
    (sidecar, [changed, other]): (&str, [&str; 2]),
    resource_version: &str,
) -> [(String, String); 4] {
    working.insert(sidecar.to_owned(), changed.to_owned());
    let alternative = alternative.unwrap_or_default().to_owned();
    [
        (names::WORKING_HOT_UPGRADE.to_owned(), go_json::to_string_sorted(&json!(working))),
        (key(names::VERSION_PREFIX, changed), resource_version.to_owned()),
        (key(names::VERSION_ALT_PREFIX, changed), alternative),
        (key(names::VERSION_ALT_PREFIX, other), resource_version.to_owned()),
    ]
}

/// Returns the annotation of a container.
pub(crate) fn key(prefix: &str, container: &str) -> String {
    format!("{prefix}{container}")
}

/// The version of a container that is idle.
pub(crate) const NO_VERSION: &str = "0";

/// Whether an idle container of the Pod must get the empty image now (ROLL-47): all other containers are consistent, and
/// the Pod or all other containers are ready.
pub fn is_reset_due(target: &RolloutTarget<'_>, pod: &Pod) -> bool {
    let idle: Vec<String> = target.pairs().map(|(sidecar, _)| Pair::find(sidecar, pod).idle).collect();
    let is_idle = |name: &str| idle.iter().any(|idle| idle == name);
    let has_old_image = target
        .pairs()
        .zip(&idle)
        .any(|((_, empty), idle)| pod.container(idle).map(|(_, container)| container.image.as_str()) != Some(empty));
    has_old_image && is_consistent(target, pod, |name| !is_idle(name)) && is_ready_but(target, pod, is_idle)
}

/// Whether the Pod, or each container with a status that is not idle, is ready.
fn is_ready_but(target: &RolloutTarget<'_>, pod: &Pod, is_idle: impl Fn(&str) -> bool) -> bool {
    let own = target.containers();
    let natives = pod.state.natives.iter().filter(|status| own.contains(&*status.name));
    let mut others = pod.state.containers.iter().chain(natives).filter(|status| !is_idle(&status.name));
    pod.is_running_and_ready() || others.all(|status| status.is_ready)
}
