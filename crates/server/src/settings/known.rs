//! Texts that were made for some SidecarSets of a bundle.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};

/// The most bytes of texts to keep. Pods of one workload match the same SidecarSets, so a cluster needs few texts.
const KEPT: usize = 4 * 1024 * 1024;

/// The texts, by the indices of their SidecarSets. Concurrent requests may make the same text.
pub(super) struct Known<T>(Mutex<Texts<T>>);

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

struct Texts<T> {
    texts: HashMap<Vec<usize>, T>,
    /// The bytes of all texts.
    length: usize,
}

impl<T> Default for Texts<T> {
    fn default() -> Self {
        Self { texts: HashMap::new(), length: 0 }
    }
}

impl<T: Clone + AsRef<[u8]>> Known<T> {
    /// Returns the text for these SidecarSets; `make` makes it if it is not known.
    pub(super) fn get_or_make(&self, sets: Vec<usize>, make: impl FnOnce(&[usize]) -> Option<T>) -> Option<T> {
        if let Some(text) = self.lock().texts.get(&sets) {
            return Some(text.clone());
        }
        let text = make(&sets)?;
        self.lock().keep(sets, text.clone());
        Some(text)
    }

    fn lock(&self) -> MutexGuard<'_, Texts<T>> {
        self.0.lock()
    }
}

impl<T: AsRef<[u8]>> Texts<T> {
    /// Keeps a text. Forgets all others if they have become too long.
    fn keep(&mut self, sets: Vec<usize>, text: T) {
        let more = text.as_ref().len() + size_of_val(sets.as_slice());
        if self.length + more > KEPT {
            *self = Self::default();
        }
        // Another request may have made the same text.
        if self.texts.insert(sets, text).is_none() {
            self.length += more;
        }
    }
}
