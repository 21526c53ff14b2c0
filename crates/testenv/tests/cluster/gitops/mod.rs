//! SidecarSets with the statuses that controllers write, and what tools such as Argo CD should make of them.

mod tests;

use pillion_kubernetes::time::Timestamp;
use pillion_plan::Step;
use pillion_plan::bundle::CONDITION as IN_BUNDLE;
use pillion_plan::condition::{self, Condition, PERMISSION_CEILING_EXCEEDED};
use pillion_rollout::counts::Counts;
use pillion_rollout::status::{self, Latest, Progress, StatusReport};
use serde_json::{Value, json};

/// The generation of every SidecarSet.
pub const GENERATION: i64 = 1;

/// A SidecarSet, and what the tools should say.
pub struct Case {
    pub name: String,
    pub object: Value,
    /// Argo CD's health.
    pub argo_cd: &'static str,
    /// Flux's status.
    pub flux: &'static str,
    /// A part of Argo CD's message.
    pub message: Option<String>,
}

fn set(spec: &Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
        "metadata": {"name": "set", "uid": "u", "resourceVersion": "1", "generation": GENERATION},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "containers": [{"name": "agent", "image": "agent:1"}]},
    });
    json_patch::merge(&mut set["spec"], spec);
    set
}

/// Writes a step into the SidecarSet, as the API server does.
fn written(object: &mut Value, step: Option<Step>) {
    let Some(Step::JsonPatch { operations, .. }) = step else { panic!("nothing to write: {step:?}") };
    let patch: json_patch::Patch = serde_json::from_value(operations.into()).unwrap();
    json_patch::patch(object, &patch).unwrap();
}

fn latest() -> Latest<'static> {
    Latest { name: "set-7d4f", collisions: 0 }
}

/// Writes counters and conditions as the controller `sidecarset-rollout` does.
fn rolled(object: &mut Value, progress: &Progress, counts: Counts) {
    let report = StatusReport { counts: Some((counts, latest())), conditions: progress.conditions().to_vec() };
    let step = status::step(object, &report, Timestamp(0));
    written(object, step);
}

fn conditioned(object: &mut Value, type_: &str, status: bool, reason: &str) {
    let condition = Condition { type_, status, reason, message: "what is wrong", since: None };
    let step = condition::step(object, condition, Timestamp(0));
    written(object, step);
}

/// Returns a SidecarSet in a cluster whose definition drops conditions.
pub fn by_counters(spec: &Value, counts: Counts) -> Value {
    let mut object = set(spec);
    let report = StatusReport { counts: Some((counts, latest())), conditions: Vec::new() };
    let step = status::step(&object, &report, Timestamp(0));
    written(&mut object, step);
    object
}

/// Does something at the generation before this one.
fn before(object: &mut Value, write: impl FnOnce(&mut Value)) {
    object["metadata"]["generation"] = (GENERATION - 1).into();
    write(object);
    object["metadata"]["generation"] = GENERATION.into();
}

fn progress(reason: &'static str, [is_ready, is_reconciling, is_stalled]: [bool; 3]) -> Progress {
    Progress { is_ready, is_reconciling, is_stalled, reason, message: format!("about {reason}") }
}

const READY: [bool; 3] = [true, false, false];
const GOES_ON: [bool; 3] = [false, true, false];
const STALLED: [bool; 3] = [false, false, true];
const WAITS: [bool; 3] = [false; 3];
/// The reasons of docs/rollouts.md, the three conditions, and what the tools make of them.
const REASONS: [(&str, [bool; 3], &str, &str); 25] = [
    ("Complete", READY, "Healthy", "Current"),
    ("PartitionReached", READY, "Healthy", "Current"),
    ("SelectorReached", READY, "Healthy", "Current"),
    ("NotUpdate", READY, "Healthy", "Current"),
    ("RollingOut", GOES_ON, "Progressing", "InProgress"),
    ("PodsNotReady", GOES_ON, "Progressing", "InProgress"),
    ("ResettingContainers", GOES_ON, "Progressing", "InProgress"),
    ("PodsAbsent", GOES_ON, "Progressing", "InProgress"),
    ("WaitingForBundle", GOES_ON, "Progressing", "InProgress"),
    ("HeldByBudget", GOES_ON, "Progressing", "InProgress"),
    ("RollingBack", GOES_ON, "Progressing", "InProgress"),
    ("Paused", WAITS, "Suspended", "InProgress"),
    ("NoPodSelected", WAITS, "Suspended", "InProgress"),
    ("NotUpgradablePods", STALLED, "Degraded", "Failed"),
    ("RolledBack", STALLED, "Degraded", "Failed"),
    ("ProgressDeadlineExceeded", STALLED, "Degraded", "Failed"),
    ("ContainersFail", STALLED, "Degraded", "Failed"),
    ("SeveralBudgets", STALLED, "Degraded", "Failed"),
    ("NewPodsLackVersion", STALLED, "Degraded", "Failed"),
    ("InvalidSidecarSet", STALLED, "Degraded", "Failed"),
    ("InvalidSelector", STALLED, "Degraded", "Failed"),
    ("InvalidStrategy", STALLED, "Degraded", "Failed"),
    ("InvalidRevision", STALLED, "Degraded", "Failed"),
    ("NotInBundle", STALLED, "Degraded", "Failed"),
    ("InSettings", STALLED, "Degraded", "Failed"),
];

/// Returns a SidecarSet with a change.
fn changed(change: impl FnOnce(&mut Value)) -> Value {
    let mut object = set(&json!({}));
    change(&mut object);
    object
}

/// Returns all cases.
pub fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let mut add = |name: &str, mut object: Value, argo_cd, flux, message: Option<String>| {
        object["metadata"]["name"] = format!("set-{}", all.len()).into();
        all.push(Case { name: name.to_owned(), object, argo_cd, flux, message });
    };
    let counts = Counts { matched: 3, updated: 1, ready: 3, updated_ready: 1, ..Counts::default() };
    let complete = progress("Complete", READY);
    let in_bundle = |object: &mut Value, status: bool| {
        conditioned(object, IN_BUNDLE, status, if status { "Current" } else { "Invalid" });
    };

    add("nothing written", set(&json!({})), "Progressing", "InProgress", None);
    for (reason, conditions, argo_cd, flux) in REASONS {
        let progress = progress(reason, conditions);
        let message = Some(format!("{reason}: about {reason}"));
        add(reason, changed(|object| rolled(object, &progress, counts)), argo_cd, flux, message.clone());
        let bundled = changed(|object| {
            in_bundle(object, true);
            rolled(object, &progress, counts);
        });
        add(&format!("{reason}, in the bundle"), bundled, argo_cd, flux, message);
    }
    add("only in the bundle", changed(|object| in_bundle(object, true)), "Healthy", "Current", None);
    let why = Some("Invalid: what is wrong".to_owned());
    add("not in the bundle", changed(|object| in_bundle(object, false)), "Degraded", "Failed", why.clone());
    let old = changed(|object| before(object, |object| in_bundle(object, true)));
    add("an older generation in the bundle", old, "Progressing", "InProgress", None);
    let old = changed(|object| before(object, |object| in_bundle(object, false)));
    add("an older generation not in the bundle", old, "Progressing", "InProgress", None);
    let invalid = changed(|object| {
        in_bundle(object, false);
        rolled(object, &complete, counts);
    });
    add("rolled out and not in the bundle", invalid, "Degraded", "Failed", why);
    let old = changed(|object| {
        before(object, |object| in_bundle(object, true));
        rolled(object, &complete, counts);
    });
    add("rolled out before the bundle", old, "Progressing", "InProgress", None);
    let old = changed(|object| before(object, |object| rolled(object, &complete, counts)));
    add("an older generation rolled out", old, "Progressing", "InProgress", None);
    let old = changed(|object| {
        before(object, |object| rolled(object, &complete, counts));
        in_bundle(object, true);
    });
    add("in the bundle before the rollout", old, "Progressing", "InProgress", None);
    let stalled = progress("ContainersFail", STALLED);
    let old = changed(|object| before(object, |object| rolled(object, &stalled, counts)));
    add("an older generation stalled", old, "Progressing", "InProgress", None);
    for (exceeded, argo_cd, flux) in [(true, "Degraded", "Failed"), (false, "Healthy", "Current")] {
        let object = changed(|object| {
            in_bundle(object, true);
            conditioned(object, PERMISSION_CEILING_EXCEEDED, exceeded, "Any");
        });
        add(&format!("ceiling exceeded: {exceeded}"), object, argo_cd, flux, None);
    }

    let all_updated = Counts { updated: 3, updated_ready: 3, ..counts };
    let not_ready = Counts { updated: 3, updated_ready: 2, ..counts };
    let none = Counts::default();
    for (name, spec, counts, argo_cd, flux) in [
        ("no Pod", json!({}), none, "Healthy", "Current"),
        ("all updated", json!({}), all_updated, "Healthy", "Current"),
        ("not ready", json!({}), not_ready, "Progressing", "InProgress"),
        ("some updated", json!({}), counts, "Progressing", "InProgress"),
        ("paused", json!({"updateStrategy": {"paused": true}}), counts, "Suspended", "InProgress"),
        ("not updated", json!({"updateStrategy": {"type": "NotUpdate"}}), counts, "Healthy", "Current"),
        ("partition", json!({"updateStrategy": {"partition": "33%"}}), counts, "Progressing", "InProgress"),
        (
            "selector",
            json!({"updateStrategy": {"selector": {"matchLabels": {"canary": "yes"}}}}),
            counts,
            "Suspended",
            "InProgress",
        ),
        (
            "selector, not ready",
            json!({"updateStrategy": {"selector": {"matchLabels": {"canary": "yes"}}}}),
            not_ready,
            "Progressing",
            "InProgress",
        ),
    ] {
        add(&format!("counters: {name}"), by_counters(&spec, counts), argo_cd, flux, None);
    }
    let partition = by_counters(&json!({"updateStrategy": {"partition": 2}}), counts);
    add("counters: partition reached", partition, "Healthy", "InProgress", None);
    let mut old = by_counters(&json!({}), all_updated);
    old["status"]["observedGeneration"] = (GENERATION - 1).into();
    add("counters of an older generation", old, "Progressing", "InProgress", None);
    all
}
