//! Remembers the bundles that were compiled from SidecarSets, and the SidecarSets that were decoded from bundles.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pillion_sidecarset::hash::{DIGESTS, sha256};
use pillion_sidecarset::sidecar_set::SidecarSet;

use super::write::{Row, length_of_rows, write_rows};
use super::{Bundle, BundleError, Decode, StoredSet};

/// A set or a text that is not used between so many calls of [`Memo::forget_unused`] is forgotten. A controller that writes
/// a new index and one that still reads the index before are at most this far apart.
const ROUNDS: u64 = 3;

/// The bundles that were compiled from SidecarSets, and the SidecarSets that were decoded from bundles. Callers get the same
/// results with an empty memo, later.
///
/// Decoding two thousand SidecarSets takes a third of a second, compiling them takes longer, and most changes concern a
/// few of them. All writers and readers of a process share what they did.
#[derive(Debug, Default)]
pub struct Memo {
    /// The sets by the SHA-256 of their bodies and digests.
    sets: Remembered<SidecarSet>,
    /// The bundles by the SHA-256 of the keys of their rows.
    texts: Remembered<String>,
    /// The approximate lengths of bundles, by the same keys.
    lengths: Remembered<usize>,
}

impl Memo {
    /// Returns what [`Bundle::verify`] does.
    ///
    /// # Errors
    /// As [`Bundle::verify`].
    pub fn sets(&self, bundle: &Bundle<'_>) -> Result<Vec<SidecarSet>, BundleError> {
        bundle.verify_with(&|stored, decode| self.set(stored, decode))
    }

    /// Forgets the sets and the texts that were not used in the last [`ROUNDS`] calls.
    pub fn forget_unused(&self) {
        self.sets.forget_unused();
        self.texts.forget_unused();
        self.lengths.forget_unused();
    }

    /// Returns the bundle of the sets with these rows, as [`write_rows`] does.
    pub(crate) fn text(&self, rows: &[&Row]) -> String {
        self.texts.get_or(key(rows), || write_rows(rows.iter().copied()))
    }

    /// Returns about the length of that bundle, as [`length_of_rows`] does.
    pub(crate) fn length(&self, rows: &[&Row]) -> usize {
        self.lengths.get_or(key(rows), || length_of_rows(rows.iter().copied()))
    }

    /// Returns the set that was stored so.
    fn set(&self, stored: &StoredSet, decode: Decode<'_>) -> Result<SidecarSet, BundleError> {
        let digests = stored.digests.as_ref().map(<[u8; DIGESTS]>::as_slice).unwrap_or_default();
        let key = sha256(&[&stored.body, digests].concat());
        if let Some(set) = self.sets.get(&key) {
            return Ok(set);
        }
        let set = decode()?;
        self.sets.put(key, set.clone());
        Ok(set)
    }

    /// Returns the numbers of sets and of texts.
    #[cfg(test)]
    pub(crate) fn lengths(&self) -> (usize, usize) {
        (self.sets.state().values.len(), self.texts.state().values.len())
    }
}

/// Returns a text that only rows of equal sets share.
fn key(rows: &[&Row]) -> String {
    let keys: String = rows.iter().map(|row| row.key.as_str()).collect();
    sha256(keys.as_bytes())
}

/// Values by their keys. A value that is not used for some rounds is forgotten.
#[derive(Debug)]
struct Remembered<T>(Mutex<RememberedState<T>>);

#[derive(Debug)]
struct RememberedState<T> {
    round: u64,
    /// Each with the round in which it was asked for last.
    values: HashMap<String, (u64, T)>,
}

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Self(Mutex::new(RememberedState { round: 0, values: HashMap::new() }))
    }
}

impl<T: Clone> Remembered<T> {
    fn get(&self, key: &str) -> Option<T> {
        let mut state = self.state();
        let now = state.round;
        let (round, value) = state.values.get_mut(key)?;
        *round = now;
        Some(value.clone())
    }

    fn get_or(&self, key: String, make: impl FnOnce() -> T) -> T {
        self.get(&key).unwrap_or_else(|| {
            let value = make();
            self.put(key, value.clone());
            value
        })
    }

    fn put(&self, key: String, value: T) {
        let mut state = self.state();
        let now = state.round;
        state.values.insert(key, (now, value));
    }

    fn forget_unused(&self) {
        let mut state = self.state();
        state.round = state.round.saturating_add(1);
        let oldest = state.round.saturating_sub(ROUNDS);
        state.values.retain(|_, (round, _)| *round >= oldest);
    }

    fn state(&self) -> MutexGuard<'_, RememberedState<T>> {
        // Each entry is complete on its own, so those that a panicking thread left behind are usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
