//! Which changes wake a controller: each controller names the facets of the objects that concern it. Nothing else wakes
//! it.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::store::{Change, Facets, Projection, Table};

/// The keys that a change concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys<K> {
    /// None.
    None,
    /// This one.
    One(K),
    /// Every key.
    All,
}

/// Wakes the keys of one controller. Cloning it is cheap.
pub struct Wakes<K> {
    queue: mpsc::UnboundedSender<Keys<K>>,
    /// Followers of values that are in no table. They end when the last clone is dropped.
    followers: Arc<Mutex<JoinSet<()>>>,
}

impl<K> Clone for Wakes<K> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), followers: Arc::clone(&self.followers) }
    }
}

impl<K: Send + 'static> Wakes<K> {
    /// Returns the wakes of a controller, and the queue of the keys to reconcile.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Keys<K>>) {
        let (queue, keys) = mpsc::unbounded_channel();
        (Self { queue, followers: Arc::default() }, keys)
    }

    /// Wakes the keys that `keys` returns for each change of the table that touches one of these facets. An object that
    /// comes or goes touches all facets.
    pub fn on<T: Projection>(
        &self,
        table: &Table<T>,
        facets: Facets,
        keys: impl Fn(&Change<T>) -> Keys<K> + Send + Sync + 'static,
    ) {
        let queue = self.queue.downgrade();
        table.subscribe(move |change| {
            if change.facets().intersects(facets)
                && let Some(queue) = queue.upgrade()
            {
                wake(&queue, keys(change));
            }
        });
    }

    /// Wakes every key when this value changes.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn follow<T: Send + Sync + 'static>(&self, mut value: watch::Receiver<T>) {
        value.mark_unchanged();
        let queue = self.queue.downgrade();
        self.followers.lock().unwrap_or_else(PoisonError::into_inner).spawn(async move {
            while value.changed().await.is_ok() {
                let Some(queue) = queue.upgrade() else { return };
                wake(&queue, Keys::All);
            }
        });
    }

    /// Wakes these keys now.
    pub fn wake(&self, keys: Keys<K>) {
        wake(&self.queue, keys);
    }
}

fn wake<K>(queue: &mpsc::UnboundedSender<Keys<K>>, keys: Keys<K>) {
    if !matches!(keys, Keys::None) {
        // This fails only once the controller has ended.
        let _ = queue.send(keys);
    }
}

/// Returns the namespace of a changed object as the key to wake.
pub fn its_namespace<T>(change: &Change<T>) -> Keys<String> {
    Keys::One(change.namespace.clone())
}

/// Returns the name of a changed Namespace as the key to wake.
pub fn its_name<T>(change: &Change<T>) -> Keys<String> {
    Keys::One(change.name.clone())
}
