//! The objects of one kind that a watch has shown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::Progress;

type Objects<T> = BTreeMap<String, BTreeMap<String, Arc<T>>>;

/// The objects of one kind, by namespace (`""` for cluster-scoped objects) and name.
pub struct Kept<T> {
    state: RwLock<State<T>>,
    progress: Progress,
}

struct State<T> {
    objects: Objects<T>,
    /// The objects of a list that is not complete yet.
    coming: Objects<T>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        let state = State { objects: BTreeMap::new(), coming: BTreeMap::new() };
        Self { state: RwLock::new(state), progress: Progress::default() }
    }
}

impl<T> Kept<T> {
    /// Returns one object.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.read().objects.get(namespace)?.get(name).cloned()
    }

    /// Returns the objects of a namespace, sorted by name.
    pub fn of(&self, namespace: &str) -> Vec<Arc<T>> {
        self.read().objects.get(namespace).map(|objects| objects.values().cloned().collect()).unwrap_or_default()
    }

    /// Returns all objects, sorted by namespace and name.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.read().objects.values().flat_map(BTreeMap::values).cloned().collect()
    }

    /// Returns the namespaces that have an object, ascending.
    pub fn namespaces(&self) -> Vec<String> {
        self.read().objects.keys().cloned().collect()
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.read().objects.values().map(BTreeMap::len).sum()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether all objects were listed once. Before that, the absence of an object proves nothing.
    pub fn is_listed(&self) -> bool {
        self.progress.is_complete()
    }

    /// Waits until all objects were listed once.
    pub async fn listed(&self) {
        self.progress.complete().await;
    }

    /// Returns why the watch shows nothing, if known.
    pub fn problem(&self) -> Option<String> {
        self.progress.problem()
    }

    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }

    pub(super) fn start_list(&self) {
        self.write().coming = BTreeMap::new();
    }

    pub(super) fn add_to_list(&self, namespace: String, name: String, object: T) {
        self.write().coming.entry(namespace).or_default().insert(name, Arc::new(object));
    }

    /// Replaces the objects with those of the list. Returns the namespaces that had or have objects.
    pub(super) fn end_list(&self) -> BTreeSet<String> {
        let mut state = self.write();
        let new = std::mem::take(&mut state.coming);
        let old = std::mem::replace(&mut state.objects, new);
        let namespaces = old.keys().chain(state.objects.keys()).cloned().collect();
        drop(state);
        self.progress.done();
        namespaces
    }

    pub(super) fn put(&self, namespace: String, name: String, object: T) {
        self.progress.works();
        let mut state = self.write();
        state.objects.entry(namespace).or_default().insert(name, Arc::new(object));
    }

    /// Removes an object. Returns whether it was there.
    pub(super) fn take(&self, namespace: &str, name: &str) -> bool {
        self.progress.works();
        let mut state = self.write();
        let Some(objects) = state.objects.get_mut(namespace) else { return false };
        let was_there = objects.remove(name).is_some();
        if objects.is_empty() {
            state.objects.remove(namespace);
        }
        was_there
    }

    fn read(&self) -> RwLockReadGuard<'_, State<T>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<T>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}
