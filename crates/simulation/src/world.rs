//! The objects that a simulation knows: those of the manifests, and those that were written.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::Client;
use parking_lot::{Mutex, MutexGuard};
use pillion_kubernetes::lookup::ObjectRef;
use pillion_kubernetes::time::Timestamp;
use serde_json::Value;

use super::objects::{Key, Kind, Object};
use super::{Verb, Write};

/// The world of a simulation.
pub(super) struct World {
    pub(super) cluster: Option<Client>,
    pub(super) clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    state: Mutex<WorldState>,
}

#[derive(Default)]
struct WorldState {
    /// The known objects; `None` for those that are gone.
    objects: BTreeMap<Key, Option<Arc<Value>>>,
    /// The resource version of the last write.
    version: u64,
    writes: Vec<Write>,
}

/// What is known about an object.
pub(super) enum Known {
    There(Arc<Value>),
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

/// The resource version before the first write: later than those of clusters.
const FIRST_VERSION: u64 = 1 << 60;

impl World {
    pub(super) fn new(
        objects: Vec<Object>,
        cluster: Option<Client>,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Self {
        let objects = objects.into_iter().map(|object| (object.key, Some(Arc::new(object.value)))).collect();
        let state = WorldState { objects, version: FIRST_VERSION, writes: Vec::new() };
        Self { cluster, clock: Box::new(clock), state: Mutex::new(state) }
    }

    pub(super) fn known(&self, key: &Key) -> Known {
        match self.lock().objects.get(key) {
            Some(Some(object)) => Known::There(Arc::clone(object)),
            Some(None) => Known::Gone,
            None => Known::Unknown,
        }
    }

    /// Returns the known objects whose keys are selected, and the keys that hide objects of the cluster.
    pub(super) fn selected(&self, is_selected: impl Fn(&Key) -> bool) -> (Vec<Arc<Value>>, Vec<Key>) {
        let state = self.lock();
        let selected = || state.objects.iter().filter(|(key, _)| is_selected(key));
        (
            selected().filter_map(|(_, object)| object.clone()).collect(),
            selected().map(|(key, _)| key.clone()).collect(),
        )
    }

    /// Returns the resource version of the next write.
    pub(super) fn next_version(&self) -> String {
        let mut state = self.lock();
        state.version += 1;
        state.version.to_string()
    }

    /// Records a write and its effect.
    pub(super) fn record(&self, written: Written<'_>) {
        let Written { verb, api_version, key, part, before, after } = written;
        let Some(kind) = Kind::of_resource(&key.group, &key.resource) else { return };
        let api_version = kind.api_versions.iter().find(|known| **known == api_version);
        let Some(api_version) = api_version.or(kind.api_versions.first()) else { return };
        let object = ObjectRef {
            api_version,
            kind: kind.name,
            namespace: kind.is_namespaced.then(|| key.namespace.clone()),
            name: key.name.clone(),
        };
        let [before, after] = [before, after].map(|object| object.map(Arc::new));
        let mut state = self.lock();
        if verb != Verb::TokenRequest {
            state.objects.insert(key.clone(), after.clone());
        }
        state.writes.push(Write { verb, object, subresource: part.map(str::to_owned), before, after });
    }

    pub(super) fn take_writes(&self) -> Vec<Write> {
        std::mem::take(&mut self.lock().writes)
    }

    fn lock(&self) -> MutexGuard<'_, WorldState> {
        self.state.lock()
    }
}
