//! Resize (ROLL-65): cpu and memory of the injected containers of a running Pod.
//!
//! A Pod records in an annotation that its resize has begun, before anything else changes. So an edit of the SidecarSet
//! in between is followed, a restart of the controller forgets nothing, and a refusal is not asked for again.

use std::collections::BTreeMap;

use pillion_inject::records::Records;
use pillion_inject::resources::Targets;
use pillion_json::go as go_json;
use pillion_kubernetes::field::{FieldError, FieldPath};
use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::outcome::Reason;
use pillion_kubernetes::quantity::Quantity;
use pillion_plan::{Step, Subresource};
use pillion_sidecarset::pod as pods;
use pillion_sidecarset::sidecar::{List, is_long_running};
use serde_json::{Value, json};

use crate::edit::{self, Edit, test};
use crate::method::Obstacle;
use crate::pod::Pod;
use crate::pod::resize::{Begun, STATE};
use crate::target::RolloutTarget;

/// The resources that a resize changes.
const RESOURCES: [&str; 2] = ["cpu", "memory"];
/// The lists of resources.
const LISTS: [&str; 2] = ["limits", "requests"];
/// How long a resize fails until people are told, in seconds.
const ERROR_MIN: i64 = 30;
/// The most characters of the API server's text that a Pod records.
const REFUSAL_MAX: usize = 500;

impl Pod {
    /// Returns the resize of this Pod for a SidecarSet that has begun and is not complete.
    pub fn resize(&self, target: &RolloutTarget<'_>) -> Option<&Begun> {
        self.resizes().get(target.name())
    }
}

/// Whether the kubelet has not carried out a resize to this version yet. The resize may still have to be sent: whoever
/// sends it reads the Pod first.
pub fn is_under_way(target: &RolloutTarget<'_>, pod: &Pod) -> bool {
    let is_asked = pod.resize(target).is_some_and(|begun| begun.hash == target.hash() && begun.refused.is_empty());
    is_asked && !is_complete(target, pod)
}

/// Whether the containers of the SidecarSet have the cpu and memory of the Pod's spec.
pub fn is_complete(target: &RolloutTarget<'_>, pod: &Pod) -> bool {
    let has_resources = |name: &String| pod.status(name).is_some_and(|status| status.has_resources);
    pod.state.resize.in_progress.is_none() && target.containers().iter().all(has_resources)
}

/// Returns what the kubelet says about a resize that it does not get done, once that lasts for some time. It tries again
/// by itself, and a restart of the container may help.
pub fn error<'p>(target: &RolloutTarget<'_>, pod: &'p Pod) -> Option<&'p str> {
    failing(target, pod).filter(|failing| !failing.is_new).map(|failing| failing.text)
}

/// Whether time alone turns the failure of a resize into one that people are told.
pub(crate) fn depends_on_time(target: &RolloutTarget<'_>, pod: &Pod) -> bool {
    failing(target, pod).is_some_and(|failing| failing.is_new)
}

/// A resize that the kubelet does not get done.
struct Failing<'p> {
    text: &'p str,
    /// Whether it began to fail a short time ago.
    is_new: bool,
}

fn failing<'p>(target: &RolloutTarget<'_>, pod: &'p Pod) -> Option<Failing<'p>> {
    pod.resize(target)?;
    let in_progress = pod.state.resize.in_progress.as_deref()?;
    let is_new = in_progress.since.is_some_and(|since| !target.has_passed(since.0, ERROR_MIN));
    in_progress.error.as_deref().map(|text| Failing { text, is_new })
}

/// Returns why a resize of a Pod to this version cannot be carried out, if it is refused or the kubelet calls it
/// infeasible.
pub fn obstacle(target: &RolloutTarget<'_>, pod: &Pod) -> Option<Obstacle> {
    let begun = pod.resize(target).filter(|begun| begun.hash == target.hash())?;
    if !begun.refused.is_empty() {
        return Some(Obstacle::ResizeRefused { problem: begun.refused.clone() });
    }
    let pending = pod.state.resize.pending.as_ref().filter(|pending| pending.is_infeasible)?;
    let is_about_it = pending.generation.is_none_or(|generation| generation >= begun.generation);
    let problem = || pending.message.clone();
    (is_about_it && !is_complete(target, pod)).then(|| Obstacle::ResizeInfeasible { problem: problem() })
}

/// The resize of a Pod, as far as it is left to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Resize {
    /// Writes into the Pod that the resize has begun; `None` if it says so already.
    pub begin: Option<Step>,
    /// Changes cpu and memory; `None` if the spec of the Pod has them already.
    pub resize: Option<Step>,
}

/// Plans the resize of a Pod. `object` is the whole Pod, as the API server has it.
///
/// # Errors
/// The amounts of a `resourcesPolicy` cannot be computed for this Pod.
pub fn plan(target: &RolloutTarget<'_>, object: &Value) -> Result<Resize, Vec<Reason>> {
    let operations = operations(target, object)?;
    let seen = Pod::decode(object).unwrap_or_default();
    let generation = json::at(object, &["metadata", "generation"]).and_then(Value::as_i64).unwrap_or_default();
    let before = seen.resize(target);
    let generation =
        if operations.is_empty() { before.map_or(0, |begun| begun.generation) } else { generation.saturating_add(1) };
    let mark = Begun { hash: target.hash().to_owned(), generation, refused: String::new() };
    let begin = (before != Some(&mark)).then(|| write(target, &seen, mark));
    let resize = (!operations.is_empty()).then(|| {
        let first = test("/metadata/uid", &seen.metadata.uid);
        let operations = [first].into_iter().chain(operations).collect();
        Step::JsonPatch { object: edit::reference(&seen), subresource: Some(Subresource::Resize), operations }
    });
    Ok(Resize { begin, resize })
}

/// Returns the step that records why the resize of a Pod is refused. It is not asked for again until the version changes.
pub fn refuse(target: &RolloutTarget<'_>, pod: &Pod, problem: &str) -> Step {
    let generation = pod.resize(target).map_or(0, |begun| begun.generation);
    let refused = problem.chars().take(REFUSAL_MAX).collect();
    write(target, pod, Begun { hash: target.hash().to_owned(), generation, refused })
}

/// Returns the annotation after the resize for this SidecarSet; `None` if it is not needed any more.
pub(crate) fn after(target: &RolloutTarget<'_>, pod: &Pod) -> Option<String> {
    let mut resizes = pod.resizes().clone();
    resizes.remove(target.name());
    (!resizes.is_empty()).then(|| text(&resizes))
}

fn text(resizes: &BTreeMap<String, Begun>) -> String {
    go_json::to_string_sorted(&json!(resizes))
}

fn write(target: &RolloutTarget<'_>, pod: &Pod, begun: Begun) -> Step {
    let mut resizes = pod.resizes().clone();
    resizes.insert(target.name().to_owned(), begun);
    Edit::annotation(STATE, text(&resizes)).step(pod)
}

/// Returns the operations that give the containers of the SidecarSet their cpu and memory.
fn operations(target: &RolloutTarget<'_>, object: &Value) -> Result<Vec<Value>, Vec<Reason>> {
    let own = without_injected(object);
    let pod = pods::Pod::decode(&own).map_err(|errors| {
        let unreadable = |error: FieldError| Reason::forbidden(FieldPath::new("spec"), error.to_string(), "");
        errors.into_iter().map(unreadable).collect::<Vec<_>>()
    })?;
    let targets = Targets::new(pod, &[], &Records::default());
    let mut operations = Vec::new();
    for sidecar in &target.sidecars {
        let computed = targets.resources(target.name(), (sidecar.list, sidecar.index, sidecar.container))?;
        let wanted = computed.as_ref().or_else(|| json::at(sidecar.container, &["resources"]));
        let Some(wanted) = wanted else { continue };
        for name in sidecar.containers() {
            // A container of the SidecarSet may be a native sidecar of the Pod (NAT-5).
            let found = List::ALL.into_iter().find_map(|list| {
                let containers = json::items(object, &["spec", list.key()]).iter().enumerate();
                let mut ours = containers.filter(|(_, it)| pods::name(it) == name && is_long_running(it, list));
                ours.next().map(|(index, container)| (list, index, container))
            });
            let Some((list, index, container)) = found else { continue };
            operations.extend(of_container(list, index, container, wanted));
        }
    }
    Ok(operations)
}

/// Returns a Pod without its injected containers, of whose resources no `resourcesPolicy` makes use (EXPR-1).
fn without_injected(object: &Value) -> Value {
    let mut spec = Object::new();
    for list in List::ALL {
        let own = json::items(object, &["spec", list.key()]).iter().filter(|it| !pods::is_injected(it));
        spec.insert(list.key().to_owned(), own.cloned().collect());
    }
    json!({"metadata": {"name": "pod"}, "spec": spec})
}

/// Returns the operations that change cpu and memory of one container. What the version does not name stays, because a
/// resize cannot remove it.
fn of_container(list: List, index: usize, container: &Value, wanted: &Value) -> Vec<Value> {
    let before = container.get("resources").cloned().unwrap_or_else(|| json!({}));
    let mut after = before.clone();
    for list in LISTS {
        for resource in RESOURCES {
            let of = |list: &str| json::at(wanted, &[list, resource]).filter(|amount| !amount.is_null());
            // The API server gives a new container its limit as its request.
            let Some(amount) = of(list).or_else(|| of("limits").filter(|_| list == "requests")) else { continue };
            let known = json::at(&before, &[list, resource]);
            let is_equal = |known: &Value| {
                let [known, wanted] = [known, amount].map(Quantity::from_json);
                known.is_ok() && known == wanted
            };
            if !known.is_some_and(is_equal)
                && let Some(after) = after.as_object_mut()
                && let Some(amounts) = json::object_mut(after, list)
            {
                amounts.insert(resource.to_owned(), amount.clone());
            }
        }
    }
    if after == before {
        return Vec::new();
    }
    let path = format!("/spec/{}/{index}", list.key());
    let resources = format!("{path}/resources");
    let mut operations = vec![test(&format!("{path}/name"), pods::name(container))];
    if container.get("resources").is_some() {
        operations.push(json!({"op": "test", "path": resources, "value": before}));
    }
    operations.push(json!({"op": "add", "path": resources, "value": after}));
    operations
}
