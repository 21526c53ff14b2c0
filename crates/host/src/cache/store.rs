//! What a watch knows, and whether it may answer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use super::{WatchStatus, Watched};
use crate::cluster::ResourceRequest;

/// Objects as the JSON that a live read would give, by `<namespace>/<name>`, for cluster-wide kinds `/<name>`.
///
/// Bytes rather than values: a tenth of the memory, and an answer is a copy of them.
pub(super) type Objects = HashMap<Box<str>, Box<[u8]>>;

/// What to do with a look-up.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The object is known, and the watch is fresh.
    Found(Vec<u8>),
    /// Only the API server can tell.
    Ask,
}

/// A kind that is watched.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) watched: Watched,
    state: RwLock<State>,
    answered: AtomicU64,
    passed_on: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Whether its objects are in namespaces; known once the API server was asked.
    namespaced: bool,
    objects: Objects,
    /// The last sign of life; nothing before the first list.
    alive: Option<Instant>,
    problem: Option<String>,
}

impl Kind {
    pub(super) fn new(watched: Watched) -> Self {
        Self { watched, state: RwLock::default(), answered: AtomicU64::new(0), passed_on: AtomicU64::new(0) }
    }

    /// Whether this is where a look-up would be answered.
    pub(super) fn watches(&self, request: &ResourceRequest) -> bool {
        let Watched { api_version, kind, namespace } = &self.watched;
        request.api_version == *api_version
            && request.kind == *kind
            && (namespace.is_none() || request.namespace == *namespace)
    }

    /// The answer to a look-up, where this may give one.
    pub(super) fn answer(&self, request: &ResourceRequest, now: Instant, max_staleness: Duration) -> Verdict {
        let verdict = self.read().answer(request, now, max_staleness);
        let counter = if verdict == Verdict::Ask { &self.passed_on } else { &self.answered };
        counter.fetch_add(1, Ordering::Relaxed);
        verdict
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

    /// Everything that there is, as it was listed at `at` or later.
    pub(super) fn replace(&self, objects: Objects, namespaced: bool, at: Instant) {
        let mut state = self.write();
        (state.objects, state.namespaced) = (objects, namespaced);
        state.sign_of_life(at);
    }

    /// One object that is there, or no longer.
    pub(super) fn change(&self, key: Box<str>, object: Option<Box<[u8]>>, at: Instant) {
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

    /// Notes why the watch does not get on, or that it does.
    pub(super) fn note(&self, problem: Option<String>) {
        self.write().problem = problem;
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_fresh(&self, now: Instant, max_staleness: Duration) -> bool {
        self.alive.is_some_and(|alive| now.saturating_duration_since(alive) <= max_staleness)
    }

    fn answer(&self, request: &ResourceRequest, now: Instant, max_staleness: Duration) -> Verdict {
        let namespace = match (self.namespaced, request.namespace.as_deref()) {
            // The live read has the text for that.
            (true, None) => return Verdict::Ask,
            (true, Some(namespace)) => namespace,
            // As there, a namespace of a cluster-wide kind is of no interest.
            (false, _) => "",
        };
        if !self.is_fresh(now, max_staleness) {
            return Verdict::Ask;
        }
        let found = self.objects.get(key(namespace, &request.name).as_ref());
        found.map_or(Verdict::Ask, |object| Verdict::Found(object.to_vec()))
    }

    fn sign_of_life(&mut self, at: Instant) {
        self.alive = self.alive.max(Some(at));
    }
}

/// The key of an object. Neither part can have a `/` in it.
pub(super) fn key(namespace: &str, name: &str) -> Box<str> {
    format!("{namespace}/{name}").into_boxed_str()
}
