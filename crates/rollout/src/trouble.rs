//! Containers of a new version that do not run (ROLL-61).

use std::collections::BTreeSet;

use pillion_kubernetes::json;
use pillion_sidecarset::hash::revision_data;
use pillion_sidecarset::pod;
use serde_json::Value;

use crate::budget;
use crate::consistency::Judged;
use crate::history::Revision;
use crate::pod::Pod;
use crate::target::{RolloutTarget, Sidecar};

/// Returns why a rollout fails: containers that the version has changed crash or do not start in more updated Pods than
/// `maxUnavailable`. `None` if it does not. `revisions` are those of the SidecarSet, ascending.
///
/// Restarts alone are not counted: a container that the version does not break may restart now and then, too.
pub fn fails(target: &RolloutTarget<'_>, pods: &[&Pod], judged: &[Judged], revisions: &[&Revision]) -> Option<String> {
    let most = budget::max_unavailable(target.strategy.limits.max_unavailable, pods.len());
    let updated = || pods.iter().zip(judged).filter(|(_, judged)| judged.is_updated).map(|(pod, _)| *pod);
    let own = target.containers();
    // Most Pods have no trouble, and then nothing is compared.
    if updated().filter(|pod| in_trouble(target, pod, &own).next().is_some()).count() <= most {
        return None;
    }
    let changed = changed(target, revisions);
    let failing: Vec<&Pod> = updated().filter(|pod| in_trouble(target, pod, &changed).next().is_some()).collect();
    let first = failing.first().filter(|_| failing.len() > most)?;
    let (name, text) = in_trouble(target, first, &changed).next()?;
    let (count, at) = (failing.len(), &first.metadata);
    Some(format!(
        "containers fail in {count} Pods, and maxUnavailable allows {most}; container \"{name}\" of Pod \"{}/{}\" {text}",
        at.namespace, at.name
    ))
}

/// Returns those of the containers that do not run, each with what it does.
fn in_trouble<'a>(
    target: &'a RolloutTarget<'_>,
    pod: &'a Pod,
    names: &'a BTreeSet<String>,
) -> impl Iterator<Item = (&'a str, &'static str)> {
    let statuses = pod.state.containers.iter().chain(&pod.state.natives);
    let statuses = statuses.filter(|status| names.contains(&*status.name));
    statuses.filter_map(|status| Some((&*status.name, target.trouble(pod, status)?.text())))
}

/// Returns the names of the containers in a Pod that differ from the newest revision with other data. Without one, all
/// of them are new.
fn changed(target: &RolloutTarget<'_>, revisions: &[&Revision]) -> BTreeSet<String> {
    let data = revision_data(target.version.spec(&[]).unwrap_or(&Value::Null));
    let before = revisions.iter().rev().find(|revision| revision.data != data);
    let Some(before) = before.and_then(|before| json::parse(before.data.as_bytes()).ok()) else {
        return target.containers();
    };
    let now = json::parse(data.as_bytes()).unwrap_or(Value::Null);
    let entry = |data: &Value, name: &str| {
        let [containers, natives] = ["containers", "initContainers"].map(|list| json::items(data, &["spec", list]));
        containers.iter().chain(natives).find(|container| pod::name(container) == name).cloned()
    };
    let is_changed = |name: &str| entry(&before, name) != entry(&now, name);
    let sidecars = target.sidecars.iter().filter(|sidecar| is_changed(sidecar.name));
    sidecars.flat_map(Sidecar::containers).collect()
}
