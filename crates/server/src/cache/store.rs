//! The objects that a watch knows, and whether it may answer look-ups.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use pillion_host::ResourceRequest;

use super::{WatchStatus, Watched};

/// Objects as the JSON of a live read, by `<namespace>/<name>`, or `/<name>` for cluster-wide kinds.
///
/// Bytes need a tenth of the memory of parsed values.
pub(super) type Objects = HashMap<Box<str>, Arc<[u8]>>;

/// A watched kind.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) watched: Watched,
    state: RwLock<KindState>,
    answered: AtomicU64,
    passed_on: AtomicU64,
}

#[derive(Debug, Default)]
struct KindState {
    /// Whether the kind is namespaced; set by the first list.
    namespaced: bool,
    objects: Objects,
    /// The last sign of life; `None` before the first list.
    alive: Option<Instant>,
    problem: Option<String>,
}

impl Kind {
    pub(super) fn new(watched: Watched) -> Self {
        Self { watched, state: RwLock::default(), answered: AtomicU64::new(0), passed_on: AtomicU64::new(0) }
    }

    /// Whether this watch covers a look-up.
    pub(super) fn watches(&self, request: &ResourceRequest) -> bool {
        let Watched { api_version, kind, namespace } = &self.watched;
        request.api_version == *api_version
            && request.kind == *kind
            && (namespace.is_none() || request.namespace == *namespace)
    }

    /// Answers a look-up from a fresh watch, and counts it. `None`: the object is not known, or the watch is not fresh,
    /// so it has to be read live.
    pub(super) fn answer(&self, request: &ResourceRequest, now: Instant, max_staleness: Duration) -> Option<Arc<[u8]>> {
        let found = self.read().answer(request, now, max_staleness)?;
        self.answered.fetch_add(1, Ordering::Relaxed);
        Some(found)
    }

    /// Counts a look-up that is read live.
    pub(super) fn pass_on(&self) {
        self.passed_on.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn status(&self, now: Instant, max_staleness: Duration) -> WatchStatus {
        let state = self.read();
        WatchStatus {
            watched: self.watched.clone(),
            synced: state.is_fresh(now, max_staleness),
            age: state.alive.map(|alive| now.saturating_duration_since(alive)),
            objects: state.objects.len(),
            bytes: state.objects.iter().map(|(key, object)| key.len() + object.len()).sum(),
            answered: self.answered.load(Ordering::Relaxed),
            passed_on: self.passed_on.load(Ordering::Relaxed),
            problem: state.problem.clone(),
        }
    }

    /// Replaces all objects by those of a list, which was requested at `at`.
    pub(super) fn replace(&self, objects: Objects, namespaced: bool, at: Instant) {
        let mut state = self.write();
        (state.objects, state.namespaced) = (objects, namespaced);
        state.sign_of_life(at);
    }

    /// Replaces one object, or removes it if `object` is `None`.
    pub(super) fn change(&self, key: Box<str>, object: Option<Arc<[u8]>>, at: Instant) {
        let mut state = self.write();
        match object {
            Some(object) => state.objects.insert(key, object),
            None => state.objects.remove(&key),
        };
        state.sign_of_life(at);
    }

    pub(super) fn sign_of_life(&self, at: Instant) {
        self.write().sign_of_life(at);
    }

    /// Sets or clears the reason why the watch fails.
    pub(super) fn note(&self, problem: Option<String>) {
        self.write().problem = problem;
    }

    fn read(&self) -> RwLockReadGuard<'_, KindState> {
        self.state.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, KindState> {
        self.state.write()
    }
}

impl KindState {
    fn is_fresh(&self, now: Instant, max_staleness: Duration) -> bool {
        self.alive.is_some_and(|alive| now.saturating_duration_since(alive) <= max_staleness)
    }

    fn answer(&self, request: &ResourceRequest, now: Instant, max_staleness: Duration) -> Option<Arc<[u8]>> {
        let namespace = match (self.namespaced, request.namespace.as_deref()) {
            // The live read reports the missing namespace.
            (true, namespace) => namespace?,
            // As in a live read, the namespace is ignored for a cluster-wide kind.
            (false, _) => "",
        };
        if !self.is_fresh(now, max_staleness) {
            return None;
        }
        self.objects.get(key(namespace, &request.name).as_ref()).map(Arc::clone)
    }

    fn sign_of_life(&mut self, at: Instant) {
        self.alive = self.alive.max(Some(at));
    }
}

/// Returns the key of an object. Neither part can contain a `/`.
pub(super) fn key(namespace: &str, name: &str) -> Box<str> {
    format!("{namespace}/{name}").into_boxed_str()
}
