//! A bundle for many readings: its index and heads stay in memory.
//!
//! A policy reads a bundle once for each request, and forgets it. A server keeps it, and hands the policy a bundle of
//! only those SidecarSets that match the Pod of the request.

use std::collections::HashMap;

use pillion_kubernetes::json::Object;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::compiled::CompiledSet;

use super::anchors;
use super::{ANEW, Bundle, BundleError, document, write};

/// A verified bundle, with what choosing sets needs in memory.
#[derive(Debug)]
pub struct Catalog {
    text: String,
    /// The parts of each set that matching needs, in the order of names.
    heads: Vec<SidecarSet>,
    /// The indices of the sets with an anchor, by the hash of the anchor.
    sets: HashMap<u32, Vec<usize>>,
}

impl Catalog {
    /// Verifies a bundle, and reads its index and heads.
    ///
    /// # Errors
    /// As [`Bundle::read`] and [`Bundle::verify_each`].
    pub fn read(text: String) -> Result<Self, BundleError> {
        let bundle = Bundle::read(text.as_bytes())?;
        bundle.verify_each(|_| ())?;
        let mut room = bundle.parts.room();
        let dictionary = bundle.parts.dictionary(&mut room)?;
        let heads = (0..bundle.len())
            .map(|index| document(&bundle.parts.head(index, &dictionary, &mut room)?))
            .collect::<Result<_, _>>()?;
        let mut sets: HashMap<u32, Vec<usize>> = HashMap::new();
        for (hash, set) in anchors::all(&bundle.parts)? {
            sets.entry(hash).or_default().push(set);
        }
        Ok(Self { text, heads, sets })
    }

    /// Returns the text of the bundle.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the number of sets.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether there are no sets.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Returns the indices of the sets that [`Bundle::sets_for`] returns, ascending.
    pub fn matching(&self, namespace: &str, labels: Option<&Object>) -> Vec<usize> {
        let anchors = anchors::of_pod(namespace, labels).filter_map(|anchor| self.sets.get(&anchor.hash()));
        let mut found: Vec<usize> = anchors.flatten().copied().collect();
        found.sort_unstable();
        found.dedup();
        let matches = |head| CompiledSet::new(head).may_match(namespace, labels);
        found.retain(|index| self.heads.get(*index).is_some_and(matches));
        found
    }

    /// Returns a bundle of the sets at these indices, which are ascending.
    ///
    /// # Errors
    /// An index is out of range, or the bundle was changed since it was read, which cannot happen.
    pub fn bundle_of(&self, indices: &[usize]) -> Result<String, BundleError> {
        let sets = Bundle::read(self.text.as_bytes())?.sets_among(indices.iter().copied(), |_| true, ANEW)?;
        Ok(write(&sets))
    }
}
