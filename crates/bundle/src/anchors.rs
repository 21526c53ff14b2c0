//! The index of a bundle: the labels and namespaces that Pods must have for a set to match.
//!
//! Each set is found by one of its conditions, its anchors: a label with one of several values, or one of several
//! namespaces. A Pod has few labels and one namespace, so only few anchors are looked up, however many sets there are.
//! A set without such a condition is always found.

use std::collections::BTreeSet;

use pillion_kubernetes::json::Object;

use super::BundleError;
use super::layout::{ANCHOR, Parts};
use super::sections::{EARLY, number};

/// A property that a Pod has or must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Anchor<'a> {
    /// No condition.
    Always,
    /// The namespace.
    Namespace(&'a str),
    /// A label, by key and value.
    Label(&'a str, &'a str),
}

impl Anchor<'_> {
    /// Returns FNV-1a, 32 bits. If two anchors have the same hash, a set is checked in vain.
    pub fn hash(&self) -> u32 {
        let parts = match *self {
            Self::Always => ["", "", ""],
            Self::Namespace(name) => ["namespace", name, ""],
            Self::Label(key, value) => ["label", key, value],
        };
        let mut hash = 0x811c_9dc5_u32;
        for part in parts {
            // The separator 0xff does not occur in UTF-8.
            for byte in part.bytes().chain([0xff]) {
                hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
            }
        }
        hash
    }
}

/// Returns the indices of the sets that have an anchor of the Pod, ascending, which is the order of names. Other sets do
/// not match; some of these may not match either.
pub fn find(parts: &Parts<'_>, namespace: &str, labels: Option<&Object>) -> Result<Vec<usize>, BundleError> {
    let anchors = parts.anchors()?;
    let (anchors, _) = anchors.as_chunks::<ANCHOR>();
    let mut found = BTreeSet::new();
    for anchor in of_pod(namespace, labels) {
        add(anchors, anchor.hash(), &mut found)?;
    }
    Ok(found.into_iter().collect())
}

/// Returns the hash and the set of every anchor of a bundle.
pub fn all(parts: &Parts<'_>) -> Result<Vec<(u32, usize)>, BundleError> {
    let anchors = parts.anchors()?;
    let read = |anchor: &[u8; ANCHOR]| {
        let hash = u32::try_from(number(anchor, 0)?).map_err(|_| EARLY)?;
        Ok((hash, number(anchor, 1)?))
    };
    anchors.as_chunks::<ANCHOR>().0.iter().map(read).collect()
}

/// Returns the anchors of a Pod.
pub fn of_pod<'a>(namespace: &'a str, labels: Option<&'a Object>) -> impl Iterator<Item = Anchor<'a>> {
    let labels = labels.into_iter().flatten();
    let labels = labels.map(|(key, value)| Anchor::Label(key, value.as_str().unwrap_or_default()));
    [Anchor::Always, Anchor::Namespace(namespace)].into_iter().chain(labels)
}

/// Adds the sets with this anchor. `anchors` is sorted.
fn add(anchors: &[[u8; ANCHOR]], hash: u32, found: &mut BTreeSet<usize>) -> Result<(), BundleError> {
    let hash = hash as usize;
    let first = anchors.partition_point(|anchor| number(anchor, 0).is_ok_and(|own| own < hash));
    for anchor in anchors.iter().skip(first) {
        if number(anchor, 0)? != hash {
            break;
        }
        found.insert(number(anchor, 1)?);
    }
    Ok(())
}
