//! Whether a process of the controllers is ready.

use std::sync::Arc;

use parking_lot::RwLock;

use crate::store::{Report, Store};

/// Whether this process is ready. A process that waits for the Lease is ready. A process that works is ready once it
/// has seen the cluster.
#[derive(Clone, Default)]
pub struct Readiness(Arc<RwLock<Option<Arc<Store>>>>);

impl Readiness {
    /// Records that the process works from now on, with this view of the cluster.
    pub fn works(&self, store: Arc<Store>) {
        *self.0.write() = Some(store);
    }

    /// Returns the reasons why the process is not ready, and remarks.
    pub fn report(&self) -> Report {
        let store = self.0.read().clone();
        store.map(|store| store.report()).unwrap_or_default()
    }
}
