//! Remembers the SidecarSets of bundles that were opened before.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pillion_sidecarset::hash::{DIGESTS, sha256};
use pillion_sidecarset::sidecar_set::SidecarSet;

use super::{Bundle, BundleError, Decode, StoredSet};

/// After so many calls of [`Opened::forget_unused`], a set is forgotten that no bundle had in between. A controller that
/// writes a new index and one that still reads the index before are at most this far apart.
const ROUNDS: u64 = 3;

/// The SidecarSets of bundles that were opened before, by what they are decoded from.
///
/// Decoding two thousand SidecarSets takes a third of a second, and most changes concern a few of them. All readers of a
/// process share what they decode.
#[derive(Debug, Default)]
pub struct Opened(Mutex<OpenedState>);

#[derive(Debug, Default)]
struct OpenedState {
    round: u64,
    /// The sets by the SHA-256 of their bodies and digests, each with the round in which it was asked for last.
    sets: HashMap<String, (u64, SidecarSet)>,
}

impl Opened {
    /// Returns what [`Bundle::verify`] does.
    ///
    /// # Errors
    /// As [`Bundle::verify`].
    pub fn sets(&self, bundle: &Bundle<'_>) -> Result<Vec<SidecarSet>, BundleError> {
        bundle.verify_with(&|stored, decode| self.set(stored, decode))
    }

    /// Forgets the sets that no bundle had lately.
    pub fn forget_unused(&self) {
        let mut state = self.state();
        state.round = state.round.saturating_add(1);
        let oldest = state.round.saturating_sub(ROUNDS);
        state.sets.retain(|_, (round, _)| *round >= oldest);
    }

    /// Returns the number of sets.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.state().sets.len()
    }

    /// Returns the set that was stored so.
    fn set(&self, stored: &StoredSet, decode: Decode<'_>) -> Result<SidecarSet, BundleError> {
        let digests = stored.digests.as_ref().map(<[u8; DIGESTS]>::as_slice).unwrap_or_default();
        let key = sha256(&[&stored.body, digests].concat());
        {
            let mut state = self.state();
            let now = state.round;
            if let Some((round, set)) = state.sets.get_mut(&key) {
                *round = now;
                return Ok(set.clone());
            }
        }
        let set = decode()?;
        let mut state = self.state();
        let round = state.round;
        state.sets.insert(key, (round, set.clone()));
        Ok(set)
    }

    fn state(&self) -> MutexGuard<'_, OpenedState> {
        // Each entry is complete on its own, so those that a panicking thread left behind are usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
