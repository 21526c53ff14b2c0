//! Small sorted maps and sets, and sorting.
//!
//! The same interface as the standard library's, as far as it is used here. Its trees and sorts are made for millions
//! of entries and are compiled anew for every type of key and value, some eight kilobytes of module each; what is
//! sorted here is the containers, variables and volumes of one Pod.

use std::borrow::Borrow;
use std::cmp::Ordering;

/// A map in a sorted list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map<K, V>(Vec<(K, V)>);

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> Map<K, V> {
    /// An empty map.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The entries, ascending by key.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// The keys, ascending.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    /// The values, ascending by key.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }
}

impl<K: Ord, V> Map<K, V> {
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        search(self.0.len(), &|index| self.0.get(index).map_or(Ordering::Greater, |(own, _)| own.borrow().cmp(key)))
    }

    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().and_then(|index| self.0.get(index)).map(|(_, value)| value)
    }

    /// The value of a key.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().and_then(|index| self.0.get_mut(index)).map(|(_, value)| value)
    }

    /// Whether there is such a key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_ok()
    }

    /// Sets the value of a key; answers the one before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(index) => self.0.get_mut(index).map(|(_, slot)| std::mem::replace(slot, value)),
            Err(index) => {
                self.0.insert(index, (key, value));
                None
            }
        }
    }

    /// The value of a key, its default where there was none.
    pub fn or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        let index = match self.find(&key) {
            Ok(index) => index,
            Err(index) => {
                self.0.insert(index, (key, V::default()));
                index
            }
        };
        #[allow(clippy::indexing_slicing)] // It was found there, or put there.
        &mut self.0[index].1
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for Map<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for Map<K, V> {
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<K, V> IntoIterator for Map<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// A set in a sorted list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set<T>(Vec<T>);

impl<T> Default for Set<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Set<T> {
    /// An empty set.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The members, ascending.
    pub fn into_vec(self) -> Vec<T> {
        self.0
    }

    /// The members, ascending.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }
}

/// Where the entry is that `compare` calls equal, among `length` ascending ones, or where it would be. Apart from the
/// lists so that it is compiled once, not for every type of key and value.
#[inline(never)]
fn search(length: usize, compare: &dyn Fn(usize) -> Ordering) -> Result<usize, usize> {
    let (mut low, mut high) = (0, length);
    while low < high {
        let middle = usize::midpoint(low, high);
        match compare(middle) {
            Ordering::Equal => return Ok(middle),
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
        }
    }
    Err(low)
}

impl<T: Ord> Set<T> {
    fn find<Q: Ord + ?Sized>(&self, member: &Q) -> Result<usize, usize>
    where
        T: Borrow<Q>,
    {
        search(self.0.len(), &|index| self.0.get(index).map_or(Ordering::Greater, |own| own.borrow().cmp(member)))
    }

    /// Whether this is a member.
    pub fn contains<Q: Ord + ?Sized>(&self, member: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.find(member).is_ok()
    }

    /// Takes a member out; whether it was one.
    pub fn remove<Q: Ord + ?Sized>(&mut self, member: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        match self.find(member) {
            Ok(index) => {
                self.0.remove(index);
                true
            }
            Err(_) => false,
        }
    }

    /// Keeps the members that `keep` says yes to.
    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.0.retain(keep);
    }

    /// Adds a member; whether it is new.
    pub fn insert(&mut self, member: T) -> bool {
        match self.find(&member) {
            Ok(_) => false,
            Err(index) => {
                self.0.insert(index, member);
                true
            }
        }
    }
}

impl<T: Ord, const N: usize> From<[T; N]> for Set<T> {
    fn from(members: [T; N]) -> Self {
        members.into_iter().collect()
    }
}

impl<T: Ord> Extend<T> for Set<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, members: I) {
        for member in members {
            self.insert(member);
        }
    }
}

impl<T: Ord> FromIterator<T> for Set<T> {
    fn from_iter<I: IntoIterator<Item = T>>(members: I) -> Self {
        let mut set = Self::new();
        set.extend(members);
        set
    }
}

impl<T> IntoIterator for Set<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a Set<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Sorts a list; what is equal keeps its order.
pub fn sort_by<T>(list: &mut Vec<T>, compare: impl Fn(&T, &T) -> Ordering) {
    let mut sorted: Vec<T> = Vec::with_capacity(list.len());
    for item in list.drain(..) {
        let place = sorted.partition_point(|other| compare(other, &item) != Ordering::Greater);
        sorted.insert(place, item);
    }
    *list = sorted;
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn maps_hold_what_the_standard_librarys_hold(entries: Vec<(u8, u8)>, key: u8) {
            let map: Map<u8, u8> = entries.iter().copied().collect();
            let expected: BTreeMap<u8, u8> = entries.into_iter().collect();
            prop_assert_eq!(map.get(&key), expected.get(&key));
            prop_assert_eq!(map.contains_key(&key), expected.contains_key(&key));
            prop_assert_eq!((map.len(), map.is_empty()), (expected.len(), expected.is_empty()));
            prop_assert!(map.iter().eq(expected.iter()) && map.keys().eq(expected.keys()) && map.values().eq(expected.values()));
            prop_assert!(map.into_iter().eq(expected));
        }

        #[test]
        fn sets_hold_what_the_standard_librarys_hold(members: Vec<u8>, member: u8) {
            let mut set: Set<u8> = members.iter().copied().collect();
            let mut expected: BTreeSet<u8> = members.into_iter().collect();
            prop_assert_eq!(set.contains(&member), expected.contains(&member));
            prop_assert_eq!(set.remove(&member), expected.remove(&member));
            prop_assert_eq!(set.insert(member), expected.insert(member));
            set.retain(|one| one % 3 != 0);
            expected.retain(|one| one % 3 != 0);
            prop_assert_eq!((set.len(), set.is_empty()), (expected.len(), expected.is_empty()));
            prop_assert!(set.into_iter().eq(expected));
        }

        #[test]
        fn sorting_keeps_the_order_of_equals(mut list: Vec<(u8, u8)>) {
            let mut expected = list.clone();
            expected.sort_by_key(|(key, _)| *key);
            sort_by(&mut list, |(one, _), (other, _)| one.cmp(other));
            prop_assert_eq!(list, expected);
        }
    }

    #[test]
    fn entries_are_replaced_or_made() {
        let mut map = Map::from([("a", vec![1])]);
        map.or_default("a").push(2);
        map.or_default("b").push(3);
        assert_eq!(map.insert("b", vec![4]), Some(vec![3]));
        if let Some(list) = map.get_mut("b") {
            list.push(5);
        }
        assert_eq!(map, Map::from([("b", vec![4, 5]), ("a", vec![1, 2])]));
    }
}
