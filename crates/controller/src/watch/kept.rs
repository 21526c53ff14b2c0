//! Objects of one kind, as a watch has shown them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::Progress;

type Objects<T> = BTreeMap<String, BTreeMap<String, Arc<T>>>;

/// Objects of one kind, by namespace (`""` for those of the cluster) and name.
pub struct Kept<T> {
    state: RwLock<State<T>>,
    progress: Progress,
}

struct State<T> {
    objects: Objects<T>,
    /// A list that is not complete yet.
    coming: Objects<T>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        let state = State { objects: BTreeMap::new(), coming: BTreeMap::new() };
        Self { state: RwLock::new(state), progress: Progress::default() }
    }
}

impl<T> Kept<T> {
    /// One object.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.read().objects.get(namespace)?.get(name).cloned()
    }

    /// Those of a namespace, by name.
    pub fn of(&self, namespace: &str) -> Vec<Arc<T>> {
        self.read().objects.get(namespace).map(|objects| objects.values().cloned().collect()).unwrap_or_default()
    }

    /// All of them, by namespace and name.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.read().objects.values().flat_map(BTreeMap::values).cloned().collect()
    }

    /// The namespaces that have one, ascending.
    pub fn namespaces(&self) -> Vec<String> {
        self.read().objects.keys().cloned().collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.read().objects.values().map(BTreeMap::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether all of them were listed once: before that, nothing may be concluded from what is not here.
    pub fn is_listed(&self) -> bool {
        self.progress.is_complete()
    }

    /// Waits until all of them were listed.
    pub async fn listed(&self) {
        self.progress.complete().await;
    }

    /// Why nothing comes, where that is known.
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

    /// Takes the list for what there is, and answers the namespaces that had or have objects.
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

    /// Whether it was there.
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
