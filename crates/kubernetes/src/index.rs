//! Maps to look entries up in.

use std::collections::BTreeMap;

/// The entries by their keys. Of entries with the same key the last one stays.
///
/// Inserts one by one. `collect` sorts the entries first, which takes five kilobytes of the module for each type of entry
/// and of iterator (docs/design.md).
pub fn index<K: Ord, V>(entries: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut index = BTreeMap::new();
    index.extend(entries);
    index
}
