//! Finds SidecarSets that could be in one Pod, without comparing every pair (E18).

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::selector::Possible;
use pillion_sidecarset::validation::conflicts::Claims;

/// The most pairs of SidecarSets that the validation of settings compares.
pub(super) const COMPARISONS_MAX: usize = 250_000;

/// A label key, and whether it is one of Namespaces or of Pods.
type Label<'a> = (bool, &'a str);

/// SidecarSets by a label that their Pods or Namespaces must have. Two sets that need different values never match the
/// same Pod.
#[derive(Default)]
pub(super) struct Rivals<'a> {
    labelled: BTreeMap<Label<'a>, BTreeMap<&'a str, Vec<usize>>>,
    others: Vec<usize>,
}

/// The error if more than [`COMPARISONS_MAX`] comparisons would be needed.
pub(super) struct TooMany;

impl<'a> Rivals<'a> {
    /// Adds to `found` the sets that could match the same Pod as these claims. `left` is the number of comparisons that
    /// may still be made.
    ///
    /// # Errors
    /// The limit is exceeded.
    pub(super) fn find(
        &self,
        claims: &Claims<'_>,
        found: &mut BTreeSet<usize>,
        left: &mut usize,
    ) -> Result<(), TooMany> {
        let mut add = |indices: &[usize]| {
            *left = left.checked_sub(indices.len() + 1).ok_or(TooMany)?;
            found.extend(indices);
            Ok(())
        };
        add(&self.others)?;
        for ((is_namespace, key), values) in &self.labelled {
            let possible = if *is_namespace { claims.namespaces() } else { claims.selector() };
            match possible.and_then(|possible| possible.required(key)) {
                Some(wanted) if wanted.len() <= values.len() => {
                    for value in wanted {
                        add(values.get(value).map_or(&[], Vec::as_slice))?;
                    }
                }
                _ => {
                    for indices in values.values() {
                        add(indices)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds the set of this index.
    pub(super) fn add(&mut self, index: usize, claims: &Claims<'a>) {
        let anchor = |possible: Option<&Possible<'a>>, is_namespace| {
            let (key, values) = possible?.anchor()?;
            Some(((is_namespace, key), values.iter().copied().collect::<Vec<_>>()))
        };
        let anchor = anchor(claims.namespaces(), true).or_else(|| anchor(claims.selector(), false));
        let Some((label, values)) = anchor else { return self.others.push(index) };
        let labelled = self.labelled.entry(label).or_default();
        for value in values {
            labelled.entry(value).or_default().push(index);
        }
    }
}
