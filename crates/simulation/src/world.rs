//! The objects that a simulation knows: those of the manifests, and those that were written.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use kube::Client;
use parking_lot::{Mutex, MutexGuard};
use pillion_kubernetes::lookup::ObjectRef;
use pillion_kubernetes::time::Timestamp;
use serde_json::Value;

use super::log::{Event, Log};
use super::objects::{Key, Kind, Object};
use super::place::{Place, Text};
use super::{Verb, Write};

/// The world of a simulation.
pub(super) struct World {
    pub(super) cluster: Option<Client>,
    pub(super) clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    /// What watches show. Without it, the simulation records its writes, and watches show nothing more after their list.
    pub(super) log: Option<Arc<Log>>,
    state: Mutex<WorldState>,
}

struct WorldState {
    /// The known objects; `None` for those that are gone.
    objects: BTreeMap<Key, Option<Text>>,
    /// The resource version of the last write.
    version: u64,
    writes: Vec<Write>,
}

/// What is known about an object.
pub(super) enum Known {
    There(Text),
    Gone,
    /// The cluster knows.
    Unknown,
}

/// A write to record.
pub(super) struct Written<'a> {
    pub(super) verb: Verb,
    pub(super) api_version: &'a str,
    pub(super) key: &'a Key,
    pub(super) part: Option<&'a str>,
    pub(super) before: Option<Value>,
    pub(super) after: Option<Value>,
}

/// A part of a list.
pub(super) struct Page {
    pub(super) objects: Vec<Text>,
    /// The last object, if there are more.
    pub(super) last: Option<Key>,
    /// The resource version of the last write.
    pub(super) version: u64,
}

/// The resource version before the first write: later than those of clusters.
const FIRST_VERSION: u64 = 1 << 60;

impl World {
    pub(super) fn new(
        objects: Vec<Object>,
        cluster: Option<Client>,
        log: Option<Arc<Log>>,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Self {
        let objects = objects.into_iter().map(|object| (object.key, Some(text(&object.value)))).collect();
        let state = WorldState { objects, version: FIRST_VERSION, writes: Vec::new() };
        Self { cluster, clock: Box::new(clock), log, state: Mutex::new(state) }
    }

    /// Adds an object that has always been there: no watch shows that it came.
    pub(super) fn put(&self, object: Object) {
        let text = text(&object.value);
        self.lock().objects.insert(object.key, Some(text));
    }

    pub(super) fn known(&self, key: &Key) -> Known {
        match self.lock().objects.get(key) {
            Some(Some(object)) => Known::There(Arc::clone(object)),
            Some(None) => Known::Gone,
            None => Known::Unknown,
        }
    }

    /// Returns the known objects of a place, and the keys that hide objects of the cluster.
    pub(super) fn selected(&self, place: &Place) -> (Vec<Text>, Vec<Key>) {
        let state = self.lock();
        let selected = || state.from(place, place.start());
        (
            selected().filter_map(|(_, object)| object.clone()).collect(),
            selected().map(|(key, _)| key.clone()).collect(),
        )
    }

    /// Returns the known objects of a place after this key that `is_selected` accepts, at most as many as `limit` says.
    /// Like the API server, does not count those that are not selected.
    pub(super) fn page(
        &self,
        place: &Place,
        after: Option<Key>,
        limit: usize,
        is_selected: impl Fn(&str) -> bool,
    ) -> Page {
        let state = self.lock();
        let all = state.from(place, after.unwrap_or_else(|| place.start()));
        let mut all = all.filter_map(|(key, object)| Some((key, object.as_ref()?))).peekable();
        let (mut objects, mut last) = (Vec::new(), None);
        while let Some((key, object)) = all.next() {
            if !is_selected(object) {
                continue;
            }
            objects.push(Arc::clone(object));
            if objects.len() >= limit && all.peek().is_some() {
                last = Some(key.clone());
                break;
            }
        }
        Page { objects, last, version: state.version }
    }

    /// Returns the resource version of the next write.
    pub(super) fn next_version(&self) -> String {
        let mut state = self.lock();
        state.version += 1;
        state.version.to_string()
    }

    /// Returns the resource version of the last write.
    pub(super) fn version(&self) -> u64 {
        self.lock().version
    }

    /// Records a write and its effect.
    pub(super) fn record(&self, written: Written<'_>) {
        let Written { verb, api_version, key, part, before, after } = written;
        let Some(kind) = Kind::of_resource(&key.group, &key.resource) else { return };
        let api_version = kind.api_versions.iter().find(|known| **known == api_version);
        let Some(api_version) = api_version.or(kind.api_versions.first()) else { return };
        let is_of_object = verb != Verb::TokenRequest;
        if let Some(log) = &self.log {
            if is_of_object {
                self.store(log, key, before, after.as_ref());
            }
            return;
        }
        let object = ObjectRef {
            api_version,
            kind: kind.name,
            namespace: kind.is_namespaced.then(|| key.namespace.clone()),
            name: key.name.clone(),
        };
        let mut state = self.lock();
        if is_of_object {
            state.objects.insert(key.clone(), after.as_ref().map(text));
        }
        let [before, after] = [before, after].map(|object| object.map(Arc::new));
        state.writes.push(Write { verb, object, subresource: part.map(str::to_owned), before, after });
    }

    /// Stores the effect of a write, and shows it to watches.
    fn store(&self, log: &Log, key: &Key, before: Option<Value>, after: Option<&Value>) {
        let event = {
            let mut state = self.lock();
            if after.is_none() {
                state.version += 1;
            }
            let version = state.version;
            let stored = after.map(text);
            let known = match &stored {
                Some(stored) => state.objects.insert(key.clone(), Some(Arc::clone(stored))),
                None => state.objects.remove(key),
            };
            let last = match stored {
                Some(stored) => stored,
                None => text(&at_version(before.unwrap_or_default(), version)),
            };
            // A write that changes nothing is no change.
            if known.as_ref().and_then(Option::as_ref) == Some(&last) {
                return;
            }
            Event { version, key: key.clone(), before: known.flatten(), last, is_gone: after.is_none() }
        };
        log.add(event);
    }

    pub(super) fn take_writes(&self) -> Vec<Write> {
        std::mem::take(&mut self.lock().writes)
    }

    fn lock(&self) -> MutexGuard<'_, WorldState> {
        self.state.lock()
    }
}

impl WorldState {
    /// Returns the objects of a place whose keys come after this one.
    fn from<'a>(&'a self, place: &'a Place, after: Key) -> impl Iterator<Item = (&'a Key, &'a Option<Text>)> {
        self.objects.range((Bound::Excluded(after), Bound::Unbounded)).take_while(|(key, _)| place.has(key))
    }
}

fn text(object: &Value) -> Text {
    object.to_string().into()
}

/// Returns an object with another resource version.
fn at_version(mut object: Value, version: u64) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".to_owned(), version.to_string().into());
    }
    object
}
