//! Lookup maps and sets.

use std::collections::{BTreeMap, BTreeSet};

/// Collects entries into a map. The last entry of a key wins.
///
/// Inserts the entries one by one. `collect` would sort them first, which adds five kilobytes to the module for each
/// type of entry and iterator (docs/design.md).
pub fn index<K: Ord, V>(entries: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut index = BTreeMap::new();
    index.extend(entries);
    index
}

/// Collects items into a set, one by one for the reason that [`index`] has.
pub fn distinct<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    let mut set = BTreeSet::new();
    set.extend(items);
    set
}
