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
use pillion_sidecarset::overrides::Values;
use pillion_sidecarset::pod as pods;
use pillion_sidecarset::sidecar::{List, is_long_running};
use serde_json::{Value, json};

use crate::edit::{self, Edit, test};
use crate::method::Obstacle;
use crate::pod::Pod;
use crate::pod::resize::{Begun, STATE, key_of_follower};
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

/// Whether the kubelet still has to restart a container of the SidecarSet for its new cpu or memory.
pub(crate) fn is_restarting(target: &RolloutTarget<'_>, pod: &Pod) -> bool {
    let restarts = |name: &String| pod.container(name).is_some_and(|(_, container)| container.restarts);
    let lacks = |name: &String| pod.status(name).is_some_and(|status| !status.has_resources);
    let is_infeasible = pod.state.resize.pending.as_ref().is_some_and(|pending| pending.is_infeasible);
    !is_infeasible && target.containers().iter().any(|name| restarts(name) && lacks(name))
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
    let seen = Pod::decode(object).unwrap_or_default();
    let changes = changes(target, object, &target.overridden(&seen.metadata), |_| true)?;
    let generation = json::at(object, &["metadata", "generation"]).and_then(Value::as_i64).unwrap_or_default();
    let before = seen.resize(target);
    let generation =
        if changes.is_empty() { before.map_or(0, |begun| begun.generation) } else { generation.saturating_add(1) };
    let mark = Begun { hash: target.hash().to_owned(), generation, ..Begun::default() };
    let begin = (before != Some(&mark)).then(|| write(&seen, target.name().to_owned(), mark));
    Ok(Resize { begin, resize: step(&seen, changes) })
}

/// Returns the step that changes cpu and memory of containers; `None` if there is nothing to change.
pub(crate) fn step(pod: &Pod, changes: Vec<ContainerResize>) -> Option<Step> {
    (!changes.is_empty()).then(|| {
        let first = test("/metadata/uid", &pod.metadata.uid);
        let changes = changes.into_iter().flat_map(|change| change.operations);
        let operations = [first].into_iter().chain(changes).collect();
        Step::JsonPatch { object: edit::reference(pod), subresource: Some(Subresource::Resize), operations }
    })
}

/// Returns the step that records why the resize of a Pod is refused. It is not asked for again until the version changes.
pub fn refuse(target: &RolloutTarget<'_>, pod: &Pod, problem: &str) -> Step {
    let generation = pod.resize(target).map_or(0, |begun| begun.generation);
    let mark = Begun { hash: target.hash().to_owned(), generation, refused: shortened(problem), ..Begun::default() };
    write(pod, target.name().to_owned(), mark)
}

/// Returns a refusal as a Pod records it.
pub(crate) fn shortened(problem: &str) -> String {
    problem.chars().take(REFUSAL_MAX).collect()
}

/// Drops what the annotation of a Pod says about this SidecarSet: the Pod has the version.
pub(crate) fn drop_records(target: &RolloutTarget<'_>, pod: &Pod, edit: &mut Edit) {
    let mut resizes = pod.resizes().clone();
    let keys = [target.name().to_owned(), key_of_follower(target.name())];
    if keys.iter().filter_map(|key| resizes.remove(key)).count() > 0 {
        put(&resizes, edit);
    }
}

/// Returns the step that drops the record under this key.
pub(crate) fn forget(pod: &Pod, key: &str) -> Step {
    let (mut resizes, mut edit) = (pod.resizes().clone(), Edit::default());
    resizes.remove(key);
    put(&resizes, &mut edit);
    edit.step(pod)
}

/// Writes the records that are left.
fn put(resizes: &BTreeMap<String, Begun>, edit: &mut Edit) {
    if resizes.is_empty() {
        edit.removed.insert(STATE.to_owned());
    } else {
        edit.annotations.insert(STATE.to_owned(), text(resizes));
    }
}

fn text(resizes: &BTreeMap<String, Begun>) -> String {
    go_json::to_string_sorted(&json!(resizes))
}

/// Returns the step that records a resize under this key.
pub(crate) fn write(pod: &Pod, key: String, begun: Begun) -> Step {
    let mut resizes = pod.resizes().clone();
    resizes.insert(key, begun);
    Edit::annotation(STATE, text(&resizes)).step(pod)
}

/// The change of cpu and memory of one container.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ContainerResize {
    /// The name of the container.
    pub(crate) container: String,
    /// The operations of a JSON Patch.
    operations: Vec<Value>,
}

/// Returns the changes that give the containers of the SidecarSet their cpu and memory, with what the Pod overrides: those
/// of which `is_wanted` is true.
///
/// # Errors
/// The amounts of a `resourcesPolicy` cannot be computed for this Pod.
pub(crate) fn changes(
    target: &RolloutTarget<'_>,
    object: &Value,
    overridden: &Values,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<ContainerResize>, Vec<Reason>> {
    let own = without_injected(object);
    let pod = pods::Pod::decode(&own).map_err(|errors| {
        let unreadable = |error: FieldError| Reason::forbidden(FieldPath::new("spec"), error.to_string(), "");
        errors.into_iter().map(unreadable).collect::<Vec<_>>()
    })?;
    let targets = Targets::new(pod, &[], &Records::default());
    let mut changes = Vec::new();
    for sidecar in &target.sidecars {
        let names: Vec<String> = sidecar.containers().into_iter().filter(|name| is_wanted(name)).collect();
        if names.is_empty() {
            continue;
        }
        let container = overridden.in_container(sidecar.container);
        let computed = targets.resources(target.name(), (sidecar.list, sidecar.index, &container))?;
        let wanted = computed.as_ref().or_else(|| json::at(&container, &["resources"]));
        let Some(wanted) = wanted else { continue };
        for name in names {
            // A container of the SidecarSet may be a native sidecar of the Pod (NAT-5).
            let found = List::ALL.into_iter().find_map(|list| {
                let containers = json::items(object, &["spec", list.key()]).iter().enumerate();
                let mut ours = containers.filter(|(_, it)| pods::name(it) == name && is_long_running(it, list));
                ours.next().map(|(index, container)| (list, index, container))
            });
            let Some((list, index, container)) = found else { continue };
            let operations = of_container(list, index, container, wanted);
            if !operations.is_empty() {
                changes.push(ContainerResize { container: name, operations });
            }
        }
    }
    Ok(changes)
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
