//! SidecarSets in one bundle, or in several if they are too many for one.
//!
//! A bundle has a limit, because the module reads it in one evaluation. The server reads it once, and hands on the few
//! sets that a request is about.

use pillion_bundle::catalog::Catalog;
use pillion_bundle::{Bundle, BundleError, write};
use pillion_kubernetes::json::Object;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

/// The bundles. No name of a set is in two of them.
#[derive(Default)]
pub(super) struct Catalogs(Vec<Catalog>);

impl From<Catalog> for Catalogs {
    fn from(catalog: Catalog) -> Self {
        Self(vec![catalog])
    }
}

impl Catalogs {
    pub(super) fn push(&mut self, catalog: Catalog) {
        self.0.push(catalog);
    }

    /// Returns the text of the only bundle; `None` if there are several.
    pub(super) fn text(&self) -> Option<&str> {
        if let [only] = self.0.as_slice() { Some(only.text()) } else { None }
    }

    /// Returns the numbers of the sets that may match a Pod, ascending. They count through all bundles.
    pub(super) fn matching(&self, namespace: &str, labels: Option<&Object>) -> Vec<usize> {
        let mut found = Vec::new();
        for (start, catalog) in self.each() {
            found.extend(catalog.matching(namespace, labels).into_iter().map(|index| start + index));
        }
        found
    }

    /// Returns a bundle of the sets with these numbers, which are ascending.
    ///
    /// # Errors
    /// As [`Catalog::bundle_of`].
    pub(super) fn bundle_of(&self, numbers: &[usize]) -> Result<String, BundleError> {
        let mut texts = Vec::new();
        for (start, catalog) in self.each() {
            let inside = start..start + catalog.len();
            let indices: Vec<usize> =
                numbers.iter().filter(|number| inside.contains(number)).map(|number| number - start).collect();
            if !indices.is_empty() {
                texts.push(catalog.bundle_of(&indices)?);
            }
        }
        if let [only] = texts.as_mut_slice() {
            return Ok(std::mem::take(only));
        }
        let mut sets = Vec::new();
        for text in texts {
            sets.extend(Bundle::read(text.as_bytes())?.sets()?);
        }
        Ok(write(&sets))
    }

    /// Returns a bundle of the sets with which admission compares a SidecarSet.
    ///
    /// # Errors
    /// As [`Bundle::sets_beside`].
    pub(super) fn bundle_beside(&self, sent: &Value) -> Result<String, BundleError> {
        let mut sets: Vec<SidecarSet> = Vec::new();
        for catalog in &self.0 {
            sets.extend(Bundle::read(catalog.text().as_bytes())?.sets_beside(sent)?);
        }
        Ok(write(&sets))
    }

    /// Returns the bundles, each with the number of its first set.
    fn each(&self) -> impl Iterator<Item = (usize, &Catalog)> {
        self.0.iter().scan(0, |next, catalog| {
            let start = *next;
            *next += catalog.len();
            Some((start, catalog))
        })
    }
}
