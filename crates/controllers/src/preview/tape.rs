//! Records what the controllers do in a simulation.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::{Mutex, MutexGuard};
use pillion_kubernetes::json;
use pillion_runtime::effects::{Recorder, RolledOut};
use pillion_simulation::{self as simulation, Simulation, Write};
use serde_json::Value;

use super::{Change, Event, Remark, Rollout, Verb, Wave};
use crate::registry::{ALL, Name};

/// What one round of reconciliations did.
pub(super) struct Tape {
    simulation: Simulation,
    wave: Mutex<Wave>,
    /// Whether the controller at work is not part of the preview. Its problems are: they may be why others do nothing.
    is_hidden: AtomicBool,
}

impl Tape {
    pub(super) fn new(simulation: Simulation) -> Self {
        Self { simulation, wave: Mutex::default(), is_hidden: AtomicBool::new(false) }
    }

    /// Returns what was recorded since the last call.
    pub(super) fn take(&self) -> Wave {
        self.record(None, "");
        std::mem::take(&mut *self.lock())
    }

    /// Forgets the writes since the last record: no controller made them.
    pub(super) fn skip(&self) {
        drop(self.simulation.take_writes());
    }

    /// Says whether the controller that works next is part of the preview. Events that are not recorded yet belong to the
    /// one before.
    pub(super) fn show(&self, is_shown: bool) {
        self.record(None, "");
        self.is_hidden.store(!is_shown, Relaxed);
    }

    /// Returns the number of problems since the last [`Tape::take`].
    pub(super) fn problems(&self) -> usize {
        self.lock().problems.len()
    }

    /// Takes the writes that the simulation has seen. Events need no controller and no reason.
    fn record(&self, controller: Option<Name>, why: &str) {
        let writes = self.simulation.take_writes();
        if self.is_hidden.load(Relaxed) {
            return;
        }
        for write in writes {
            let mut wave = self.lock();
            if write.object.kind == "Event" {
                wave.events.extend(write.after.as_deref().map(event));
            } else if let Some(controller) = controller {
                wave.add(controller, write, why);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Wave> {
        self.wave.lock()
    }
}

impl Recorder for Tape {
    fn wrote(&self, controller: &'static str, why: &str) {
        self.record(named(controller), why);
    }

    fn problem(&self, controller: &'static str, namespace: Option<&str>, text: String) {
        let remark = remark(controller, namespace, text);
        let problems = &mut self.lock().problems;
        problems.extend(remark.filter(|remark| !problems.contains(remark)));
    }

    fn later(&self, controller: &'static str, namespace: Option<&str>, text: String) {
        if !self.is_hidden.load(Relaxed) {
            self.lock().later.extend(remark(controller, namespace, text));
        }
    }

    fn never(&self, controller: &'static str, namespace: Option<&str>, text: String) {
        self.lock().never.extend(remark(controller, namespace, text));
    }

    fn rolled_out(&self, rolled_out: RolledOut<'_>) {
        let RolledOut { sidecar_set, pods, updated, kept, chosen, message } = rolled_out;
        let mut wave = self.lock();
        let upgraded: BTreeSet<(&str, &str)> =
            wave.changes.iter().filter(|change| is_upgrade(change)).map(place).collect();
        let now = chosen.iter().filter(|pod| upgraded.contains(*pod)).count();
        let (sidecar_set, message) = (sidecar_set.to_owned(), message.to_owned());
        wave.rollouts.push(Rollout { sidecar_set, pods, updated, now, kept, message });
    }
}

/// Whether a write gives a Pod another version, and is not only a record in its status.
fn is_upgrade(change: &Change) -> bool {
    let parts = |object: &Option<Arc<Value>>| {
        let part = |path: &[&str]| object.as_ref().and_then(|object| json::at(object, path).cloned());
        [part(&["spec"]), part(&["metadata", "annotations"])]
    };
    change.object.kind == "Pod"
        && (change.verb == Verb::Evict
            || (change.verb == Verb::Change && parts(&change.before) != parts(&change.after)))
}

fn place(change: &Change) -> (&str, &str) {
    (change.object.namespace.as_deref().unwrap_or_default(), &change.object.name)
}

fn named(controller: &str) -> Option<Name> {
    ALL.iter().copied().find(|name| name.as_str() == controller)
}

fn remark(controller: &str, namespace: Option<&str>, text: String) -> Option<Remark> {
    Some(Remark { controller: named(controller)?, namespace: namespace.map(str::to_owned), text })
}

impl Wave {
    /// Adds a write. A write that completes an object that was just created belongs to its creation.
    fn add(&mut self, controller: Name, write: Write, why: &str) {
        let Write { verb, object, before, after, .. } = write;
        let verb = match verb {
            simulation::Verb::TokenRequest => {
                self.has_token = true;
                return;
            }
            simulation::Verb::Create => Verb::Create,
            simulation::Verb::Delete => Verb::Delete,
            simulation::Verb::Evict => Verb::Evict,
            _ if self.has_token && object.kind == "Secret" => Verb::Mint,
            _ => Verb::Change,
        };
        self.has_token &= verb != Verb::Mint;
        let is_same = |change: &&mut Change| {
            verb == Verb::Change
                && change.verb == Verb::Create
                && change.object == object
                && change.controller == controller
        };
        if let Some(made) = self.changes.last_mut().filter(is_same) {
            made.after = after.map(|after| shown(&after));
            return;
        }
        let [before, after] = [before, after].map(|object| object.map(|object| shown(&object)));
        if verb != Verb::Change || before != after {
            self.changes.push(Change { controller, verb, object, why: why.to_owned(), before, after });
        }
    }
}

/// Returns the object without what must not be shown or means nothing: the values of Secrets, and `managedFields`.
fn shown(object: &Value) -> Arc<Value> {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    if json::text(&object, &["kind"]) == "Secret" {
        for part in ["data", "stringData"] {
            for value in
                object.get_mut(part).and_then(Value::as_object_mut).into_iter().flat_map(|data| data.values_mut())
            {
                *value = format!("({} characters)", value.as_str().unwrap_or_default().len()).into();
            }
        }
    }
    Arc::new(object)
}

fn event(event: &Value) -> Event {
    let text = |path: &[&str]| json::text(event, path).to_owned();
    Event {
        type_: text(&["type"]),
        reason: text(&["reason"]),
        message: text(&["note"]),
        object: event.get("regarding").cloned().unwrap_or_default(),
    }
}
