//! Records what the controllers do in a simulation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pillion_kubernetes::json;
use serde_json::Value;

use super::{Change, Event, Remark, Verb, Wave};
use crate::effects::Recorder;
use crate::registry::{ALL, Name};
use crate::simulation::{self, Simulation, Write};

/// What one round of reconciliations did.
pub(super) struct Tape {
    simulation: Simulation,
    wave: Mutex<Wave>,
}

impl Tape {
    pub(super) fn new(simulation: Simulation) -> Self {
        Self { simulation, wave: Mutex::default() }
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

    /// Returns the number of problems since the last [`Tape::take`].
    pub(super) fn problems(&self) -> usize {
        self.lock().problems.len()
    }

    /// Takes the writes that the simulation has seen. Events need no controller and no reason.
    fn record(&self, controller: Option<Name>, why: &str) {
        for write in self.simulation.take_writes() {
            let mut wave = self.lock();
            if write.object.kind == "Event" {
                wave.events.extend(write.after.as_deref().map(event));
            } else if let Some(controller) = controller {
                wave.add(controller, write, why);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Wave> {
        self.wave.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.lock().later.extend(remark(controller, namespace, text));
    }

    fn never(&self, controller: &'static str, namespace: Option<&str>, text: String) {
        self.lock().never.extend(remark(controller, namespace, text));
    }
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
