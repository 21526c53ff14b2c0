//! What changed about an object, so that a change wakes only the controllers that it concerns.

use std::collections::BTreeSet;
use std::sync::Arc;

bitflags::bitflags! {
    /// Parts of an object that controllers depend on. A kind has those that its [`Projection`] compares.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Facets: u16 {
        /// What its author wrote: everything but the status and what the API server counts.
        const CONTENT = 1;
        /// `metadata.labels`.
        const LABELS = 1 << 1;
        /// Whether a Namespace is active or being deleted.
        const PHASE = 1 << 2;
        /// What decides about the identities that a Pod needs.
        const IDENTITY = 1 << 3;
        /// The versions of SidecarSets with which a Pod was injected.
        const INJECTION = 1 << 4;
        /// The phase, conditions and container statuses of a Pod.
        const READINESS = 1 << 5;
        /// The condition `PermissionCeilingExceeded` of a SidecarSet.
        const CEILING = 1 << 6;
        /// Any other part of the status.
        const STATUS = 1 << 7;
        /// `status.latestRevision` of a SidecarSet.
        const REVISION = 1 << 8;
        /// Cpu and memory of the containers of a Pod.
        const RESOURCES = 1 << 9;
    }
}

/// The part of an object that the store keeps.
pub trait Projection: Send + Sync + 'static {
    /// Returns the facets that differ between this version of the object and the next one.
    fn differences(&self, next: &Self) -> Facets;

    /// Returns the names of the groups by which the table finds the object.
    fn groups(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }
}

/// One change of an object.
#[derive(Debug)]
pub struct Change<T> {
    /// Its namespace; empty if it has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The object before; `None` if it is new.
    pub before: Option<Arc<T>>,
    /// The object now; `None` if it is gone.
    pub after: Option<Arc<T>>,
}

impl<T: Projection> Change<T> {
    /// Returns the facets that differ. All facets of an object that comes or goes do.
    pub fn facets(&self) -> Facets {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => before.differences(after),
            _ => Facets::all(),
        }
    }
}
