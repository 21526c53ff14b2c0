//! The objects of one kind, in their newest known versions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use kube::ResourceExt as _;
use kube::core::ObjectMeta;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::time::Instant;

use super::change::{Change, Facets, Projection};
use super::progress::Progress;

/// The identity and the version of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    pub(crate) uid: String,
    /// `metadata.resourceVersion`. The API server's versions of one kind are numbers that grow; `None` if this one is
    /// none, which then counts as new.
    pub(crate) number: Option<u64>,
}

impl Version {
    /// Reads the version of an object.
    pub fn from_metadata(metadata: &ObjectMeta) -> Self {
        let number = metadata.resource_version.as_ref().and_then(|version| version.parse().ok());
        Self { uid: metadata.uid.clone().unwrap_or_default(), number }
    }

    /// Whether this is a later version of the same object, or another object.
    fn is_newer_than(&self, known: &Self) -> bool {
        self.uid != known.uid || self.number.is_none() || self.number > known.number
    }
}

/// Where an object is: its namespace, empty if it has none, and its name. As one text with a zero byte between them, it
/// sorts as the pair, and takes little memory: most tables have one object of each namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectPlace(Box<str>);

impl ObjectPlace {
    /// Returns the place of this namespace and name.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}\0{name}").into())
    }

    /// Returns the place of an object.
    pub fn from_object<K: kube::Resource>(object: &K) -> Self {
        Self::new(object.meta().namespace.as_deref().unwrap_or_default(), &object.name_any())
    }

    /// Returns a range with all places in a namespace.
    fn all_in(namespace: &str) -> Range<Self> {
        Self::new(namespace, "")..Self(format!("{namespace}\u{1}").into())
    }

    fn split(&self) -> (&str, &str) {
        self.0.split_once('\0').unwrap_or_default()
    }
}

struct Entry<T> {
    version: Version,
    object: Arc<T>,
}

type Entries<T> = BTreeMap<ObjectPlace, Entry<T>>;

/// The objects of one kind, by namespace (`""` for cluster-scoped objects) and name.
///
/// A table has the newest version of each object that is known, from a watch or from the answer to a write of this
/// process. So no plan is made from a state that this process has already changed.
pub struct Table<T> {
    state: RwLock<TableState<T>>,
    subscribers: RwLock<Vec<Subscriber<T>>>,
    progress: Progress,
}

type Subscriber<T> = Arc<dyn Fn(&Change<T>) + Send + Sync>;

struct TableState<T> {
    entries: Entries<T>,
    /// The objects of each group.
    groups: BTreeMap<String, BTreeMap<ObjectPlace, Arc<T>>>,
    /// The objects of a list that is not complete yet, and when it began.
    coming: Option<(Instant, Entries<T>)>,
    gone: Gone,
    /// How often each facet has changed.
    counts: BTreeMap<u16, u64>,
}

/// The UIDs of the last objects that were deleted. A watch may still show what this process has deleted, and an answer to
/// a write may arrive after the watch has shown the deletion. A UID never comes back.
#[derive(Default)]
struct Gone {
    uids: BTreeSet<String>,
    oldest_first: VecDeque<String>,
}

/// The number of UIDs of deleted objects to remember. Far fewer requests are under way at a time.
const GONE: usize = 1024;

impl Gone {
    fn add(&mut self, uid: &str) {
        if uid.is_empty() || !self.uids.insert(uid.to_owned()) {
            return;
        }
        self.oldest_first.push_back(uid.to_owned());
        if self.oldest_first.len() > GONE
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        let (entries, groups, counts) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let state = TableState { entries, groups, coming: None, gone: Gone::default(), counts };
        Self { state: RwLock::new(state), subscribers: RwLock::default(), progress: Progress::default() }
    }
}

impl<T> Table<T> {
    /// Returns one object.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.read().entries.get(&ObjectPlace::new(namespace, name)).map(|entry| Arc::clone(&entry.object))
    }

    /// Returns the objects of a namespace, sorted by name.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        let state = self.read();
        let entries = state.entries.range(ObjectPlace::all_in(namespace));
        entries.map(|(_, entry)| Arc::clone(&entry.object)).collect()
    }

    /// Returns all objects, sorted by namespace and name.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.read().entries.values().map(|entry| Arc::clone(&entry.object)).collect()
    }

    /// Returns the objects of a group, sorted by namespace and name.
    pub fn group(&self, group: &str) -> Vec<Arc<T>> {
        self.read().groups.get(group).into_iter().flat_map(BTreeMap::values).map(Arc::clone).collect()
    }

    /// Returns the names of all groups, ascending.
    pub fn groups(&self) -> Vec<String> {
        self.read().groups.keys().cloned().collect()
    }

    /// Returns the names of all objects, sorted by namespace and name.
    pub fn names(&self) -> Vec<String> {
        self.read().entries.keys().map(|place| place.split().1.to_owned()).collect()
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.read().entries.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.read().entries.is_empty()
    }

    /// Returns a number that differs once one of these facets of an object has changed.
    pub fn count(&self, facets: Facets) -> u64 {
        let state = self.read();
        facets.iter().filter_map(|facet| state.counts.get(&facet.bits())).sum()
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

    /// Returns the progress of the watch.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    fn read(&self) -> RwLockReadGuard<'_, TableState<T>> {
        self.state.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, TableState<T>> {
        self.state.write()
    }
}

impl<T: Projection> Table<T> {
    /// Calls this function with every later change.
    pub fn subscribe(&self, subscriber: impl Fn(&Change<T>) + Send + Sync + 'static) {
        self.subscribers.write().push(Arc::new(subscriber));
    }

    pub(super) fn start_list(&self) {
        self.write().coming = Some((Instant::now(), BTreeMap::new()));
    }

    pub(super) fn add_to_list(&self, place: ObjectPlace, version: Version, object: T) {
        let mut state = self.write();
        let is_gone = state.gone.uids.contains(&version.uid);
        if let Some((_, coming)) = state.coming.as_mut().filter(|_| !is_gone) {
            let entry = Entry { version, object: Arc::new(object) };
            coming.insert(place, entry);
        }
    }

    /// Replaces the objects with those of the list, except those that are known in a newer version.
    pub(super) fn end_list(&self) {
        let (since, changes) = {
            let mut state = self.write();
            let (since, coming) = state.coming.take().unzip();
            let mut coming: Entries<T> = coming.unwrap_or_default();
            let known = std::mem::take(&mut state.entries);
            let is_new = |(place, _): &(&ObjectPlace, &Entry<T>)| !known.contains_key(place);
            let new = coming.iter().filter(is_new);
            let new: Vec<_> =
                new.map(|(place, entry)| Change::at(place, None, Some(Arc::clone(&entry.object)))).collect();
            let mut changes = Vec::new();
            for (place, old) in known {
                match coming.get_mut(&place) {
                    Some(entry) if !entry.version.is_newer_than(&old.version) => *entry = old,
                    Some(entry) => {
                        changes.push(Change::at(&place, Some(old.object), Some(Arc::clone(&entry.object))));
                    }
                    None => changes.push(Change::at(&place, Some(old.object), None)),
                }
            }
            changes.extend(new);
            state.entries = coming;
            for change in &changes {
                state.regroup(&ObjectPlace::new(&change.namespace, &change.name), change);
                state.counted(change.facets());
            }
            (since, changes)
        };
        if let Some(since) = since {
            self.progress.alive(since);
        }
        self.progress.done();
        for change in &changes {
            self.tell(change);
        }
    }

    /// Takes an object, unless a newer version of it is known or this process has deleted it.
    pub(crate) fn put(&self, place: &ObjectPlace, version: Version, object: T) {
        let change = self.write().put(place, version, object);
        if let Some(change) = change {
            self.tell(&change);
        }
    }

    /// Removes an object that is deleted, as a watch or the answer to a write has shown. It stays away.
    pub(crate) fn remove(&self, place: &ObjectPlace, uid: &str) {
        self.write().gone.add(uid);
        self.leave(place, uid);
    }

    /// Removes an object that is no longer among those that the table keeps.
    pub(super) fn leave(&self, place: &ObjectPlace, uid: &str) {
        let change = self.write().remove(place, uid);
        if let Some(change) = change {
            self.tell(&change);
        }
    }

    /// Takes an object as a watch would show it. Its UID is its name.
    #[cfg(any(test, feature = "testing"))]
    pub fn put_for_test(&self, namespace: &str, name: &str, number: u64, object: T) {
        self.put(&ObjectPlace::new(namespace, name), Version { uid: name.to_owned(), number: Some(number) }, object);
    }

    /// Removes an object as a watch would.
    #[cfg(any(test, feature = "testing"))]
    pub fn remove_for_test(&self, namespace: &str, name: &str, uid: &str) {
        self.remove(&ObjectPlace::new(namespace, name), uid);
    }

    fn tell(&self, change: &Change<T>) {
        let subscribers = self.subscribers.read().clone();
        for subscriber in &subscribers {
            subscriber(change);
        }
    }
}

impl<T> Change<T> {
    fn at(place: &ObjectPlace, before: Option<Arc<T>>, after: Option<Arc<T>>) -> Self {
        let (namespace, name) = place.split();
        Self { namespace: namespace.to_owned(), name: name.to_owned(), before, after }
    }
}

impl<T: Projection> TableState<T> {
    fn put(&mut self, place: &ObjectPlace, version: Version, object: T) -> Option<Change<T>> {
        if self.gone.uids.contains(&version.uid) {
            return None;
        }
        let object = Arc::new(object);
        if let Some((_, coming)) = &mut self.coming
            && coming.get(place).is_none_or(|known| version.is_newer_than(&known.version))
        {
            // An answer to a write may be newer than a list that is under way.
            coming.insert(place.clone(), Entry { version: version.clone(), object: Arc::clone(&object) });
        }
        if self.entries.get(place).is_some_and(|known| !version.is_newer_than(&known.version)) {
            return None;
        }
        let before = self.entries.insert(place.clone(), Entry { version, object: Arc::clone(&object) });
        let change = Change::at(place, before.map(|entry| entry.object), Some(object));
        self.regroup(place, &change);
        self.counted(change.facets());
        Some(change)
    }

    fn remove(&mut self, place: &ObjectPlace, uid: &str) -> Option<Change<T>> {
        if let Some((_, coming)) = &mut self.coming
            && coming.get(place).is_some_and(|entry| entry.version.uid == uid)
        {
            coming.remove(place);
        }
        if !uid.is_empty() && self.entries.get(place)?.version.uid != uid {
            return None;
        }
        let change = Change::at(place, Some(self.entries.remove(place)?.object), None);
        self.regroup(place, &change);
        self.counted(change.facets());
        Some(change)
    }

    /// Moves a changed object to its groups.
    fn regroup(&mut self, place: &ObjectPlace, change: &Change<T>) {
        let groups = |object: &Option<Arc<T>>| object.as_ref().map(|object| object.groups()).unwrap_or_default();
        let (before, after) = (groups(&change.before), groups(&change.after));
        for group in before.difference(&after) {
            if let Some(objects) = self.groups.get_mut(group) {
                objects.remove(place);
                if objects.is_empty() {
                    self.groups.remove(group);
                }
            }
        }
        if let Some(object) = &change.after {
            for group in after {
                self.groups.entry(group).or_default().insert(place.clone(), Arc::clone(object));
            }
        }
    }

    fn counted(&mut self, facets: Facets) {
        for facet in facets.iter() {
            *self.counts.entry(facet.bits()).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use rstest::rstest;

    use super::*;

    impl Projection for u32 {
        fn differences(&self, next: &Self) -> Facets {
            if self == next { Facets::empty() } else { Facets::CONTENT }
        }
    }

    fn place(name: &str) -> ObjectPlace {
        ObjectPlace::new("shop", name)
    }

    fn version(uid: &str, number: u64) -> Version {
        Version { uid: uid.to_owned(), number: Some(number) }
    }

    type Changes = Arc<Mutex<Vec<(String, Option<u32>, Option<u32>)>>>;

    fn changes(table: &Table<u32>) -> Changes {
        let changes = Changes::default();
        let telling = Arc::clone(&changes);
        table.subscribe(move |change| {
            let of = |object: &Option<Arc<u32>>| object.as_deref().copied();
            telling.lock().push((change.name.clone(), of(&change.before), of(&change.after)));
        });
        changes
    }

    #[rstest]
    #[case::newer(version("u", 6), Some(2))]
    #[case::the_same(version("u", 5), Some(1))]
    #[case::older(version("u", 4), Some(1))]
    #[case::another_object_of_this_name(version("v", 4), Some(2))]
    #[case::not_a_number(Version { uid: "u".to_owned(), number: None }, Some(2))]
    fn the_newest_version_counts(#[case] next: Version, #[case] expected: Option<u32>) {
        let table = Table::default();
        table.put(&place("a"), version("u", 5), 1);
        table.put(&place("a"), next, 2);
        assert_eq!(table.get("shop", "a").as_deref().copied(), expected);
    }

    #[test]
    fn what_this_process_deleted_stays_away_although_the_watch_still_shows_it() {
        let table = Table::default();
        table.put(&place("a"), version("u", 5), 1);
        table.remove(&place("a"), "u");
        table.put(&place("a"), version("u", 6), 2);
        assert!(table.is_empty());
        table.put(&place("a"), version("v", 7), 3);
        assert_eq!(table.get("shop", "a").as_deref(), Some(&3), "a new object of this name");
        table.remove(&place("a"), "u");
        assert_eq!(table.get("shop", "a").as_deref(), Some(&3), "the deletion of the old one");
    }

    #[test]
    fn a_write_whose_answer_comes_after_the_deletion_is_late() {
        let table = Table::default();
        table.put(&place("a"), version("u", 5), 1);
        table.remove(&place("a"), "u");
        table.start_list();
        table.end_list();
        table.put(&place("a"), version("u", 6), 2);
        assert!(table.is_empty());
    }

    #[test]
    fn an_object_that_left_the_selection_may_come_back() {
        let table = Table::default();
        table.put(&place("a"), version("u", 5), 1);
        table.leave(&place("a"), "u");
        assert!(table.is_empty());
        table.put(&place("a"), version("u", 6), 2);
        assert_eq!(table.get("shop", "a").as_deref(), Some(&2));
    }

    #[test]
    fn a_list_replaces_what_was_there_and_tells_what_differs() {
        let table = Table::default();
        for (name, object) in [("gone", 1), ("same", 2), ("other", 3), ("newer", 4)] {
            table.put(&place(name), version(name, 10), object);
        }
        let changes = changes(&table);
        assert!(!table.is_listed());
        table.start_list();
        for (name, number, object) in [("same", 10, 2), ("other", 11, 30), ("newer", 9, 40), ("new", 11, 5)] {
            table.add_to_list(place(name), version(name, number), object);
        }
        assert_eq!(table.len(), 4, "a list counts when it is complete");
        table.end_list();
        assert!(table.is_listed());
        let all: Vec<u32> = table.all().iter().map(|object| **object).collect();
        assert_eq!(
            (table.names(), all),
            (["new", "newer", "other", "same"].map(str::to_owned).into(), vec![5, 4, 30, 2])
        );
        let expected = [("gone", Some(1), None), ("other", Some(3), Some(30)), ("new", None, Some(5))];
        let expected: Vec<_> = expected.into_iter().map(|(name, one, two)| (name.to_owned(), one, two)).collect();
        assert_eq!(*changes.lock(), expected);
    }

    #[test]
    fn a_write_during_a_list_is_not_lost() {
        let table = Table::default();
        table.start_list();
        table.put(&place("a"), version("a", 12), 2);
        table.add_to_list(place("b"), version("b", 11), 1);
        table.put(&place("b"), version("b", 12), 3);
        table.end_list();
        assert_eq!(table.all().iter().map(|object| **object).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn counts_tell_which_facets_changed() {
        let table = Table::default();
        table.put(&place("a"), version("a", 1), 1);
        let before = table.count(Facets::CONTENT);
        table.put(&place("a"), version("a", 2), 1);
        assert_eq!(table.count(Facets::CONTENT), before, "nothing differs");
        table.put(&place("a"), version("a", 3), 2);
        assert!(table.count(Facets::CONTENT) > before);
    }
}
