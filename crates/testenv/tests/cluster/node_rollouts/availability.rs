//! How many Pods are unavailable at each moment, by every version of every Pod that the API server stored.
//!
//! This does not ask the code that it judges: a container whose image has changed counts until the kubelet has started
//! another one.

use std::collections::{BTreeMap, BTreeSet};

use pillion_sidecarset::image;
use serde_json::Value;

use crate::rollout::audit::{Write, is_injected};
use crate::support::is_ready;
use crate::support::node::container;

/// Returns the largest number of Pods that are unavailable at the same time after the first `since` writes: those that
/// are not ready, that wait for the restart of a container whose image has changed, or that run another image than the
/// spec has. `is_name` tells whether a runtime may report the first name for an image that has the second one.
pub fn most_unavailable(writes: &[Write], since: usize, is_name: impl Fn(&str, &str) -> bool) -> usize {
    let waiting = waiting(writes);
    let mut unavailable = BTreeMap::<&str, bool>::new();
    let counts = writes.iter().enumerate().map(|(index, write)| {
        let is_unavailable =
            |pod: &Value| waiting.contains(&index) || !is_ready(pod) || !runs_images_of_spec(pod, &is_name);
        unavailable.insert(&write.name, write.pod.as_ref().is_some_and(is_unavailable));
        unavailable.values().filter(|it| **it).count()
    });
    counts.skip(since).max().unwrap_or_default()
}

/// Returns the positions of the writes of Pods in which the kubelet has not restarted a container yet whose image has
/// changed. A change that the kubelet never sees, because another one undoes it, restarts nothing.
fn waiting(writes: &[Write]) -> BTreeSet<usize> {
    let mut histories = BTreeMap::<&str, Vec<(usize, &Value)>>::new();
    for (index, write) in writes.iter().enumerate() {
        if let Some(pod) = &write.pod {
            histories.entry(&write.name).or_default().push((index, pod));
        }
    }
    let mut waiting = BTreeSet::new();
    for history in histories.values() {
        for (position, (_, pod)) in history.iter().enumerate().skip(1) {
            for name in changed(history[position - 1].1, pod) {
                let id = &container(pod, name)["containerID"];
                let is_replaced = |pod: &Value| {
                    let status = container(pod, name);
                    status["containerID"] != *id && status["state"]["running"].is_object()
                };
                let from = &history[position..];
                let end = from.iter().position(|(_, pod)| is_replaced(pod)).unwrap_or_default();
                waiting.extend(from[..end].iter().map(|(index, _)| *index));
            }
        }
    }
    waiting
}

/// Returns the names of the containers whose image differs.
fn changed<'a>(before: &Value, after: &'a Value) -> impl Iterator<Item = &'a str> {
    let images: BTreeMap<String, Value> =
        sidecars(before).map(|(name, container)| (name.to_owned(), container["image"].clone())).collect();
    let differs =
        move |(name, container): &(&str, &Value)| images.get(*name).is_some_and(|image| *image != container["image"]);
    sidecars(after).filter(differs).map(|(name, _)| name)
}

/// Returns the injected containers and native sidecars of a Pod.
fn sidecars(pod: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let lists = ["initContainers", "containers"].into_iter().filter_map(|list| pod["spec"][list].as_array());
    let injected = lists.flatten().filter(|container| is_injected(container));
    injected.filter_map(|container| Some((container["name"].as_str()?, container)))
}

fn runs_images_of_spec(pod: &Value, is_name: impl Fn(&str, &str) -> bool) -> bool {
    sidecars(pod).all(|(name, wanted)| {
        let (status, wanted) = (container(pod, name), wanted["image"].as_str().unwrap_or_default());
        let text = |field: &str| status[field].as_str().unwrap_or_default();
        let has_digest = image::digest(wanted).is_some_and(|wanted| image::digest(text("imageID")) == Some(wanted));
        is_name(text("image"), wanted) || has_digest
    })
}
