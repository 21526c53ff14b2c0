//! Which changes wake a controller: each controller names the facets of the objects that concern it. Nothing else wakes
//! it.

use std::sync::Arc;

use parking_lot::Mutex;
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
    /// These.
    Many(Vec<K>),
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
    pub fn new() -> (Self, mpsc::UnboundedReceiver<Keys<K>>) {
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
    pub fn follow<T: Send + Sync + 'static>(&self, value: watch::Receiver<T>) {
        self.follow_if(value, || true);
    }

    /// Wakes every key when this value changes and `is_concerned` then returns true.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn follow_if<T: Send + Sync + 'static>(
        &self,
        mut value: watch::Receiver<T>,
        mut is_concerned: impl FnMut() -> bool + Send + 'static,
    ) {
        value.mark_unchanged();
        let queue = self.queue.downgrade();
        self.followers.lock().spawn(async move {
            while value.changed().await.is_ok() {
                let Some(queue) = queue.upgrade() else { return };
                if is_concerned() {
                    wake(&queue, Keys::All);
                }
            }
        });
    }

    /// Wakes these keys now.
    pub fn wake(&self, keys: Keys<K>) {
        wake(&self.queue, keys);
    }
}

fn wake<K>(queue: &mpsc::UnboundedSender<Keys<K>>, keys: Keys<K>) {
    let is_empty = match &keys {
        Keys::None => true,
        Keys::Many(keys) => keys.is_empty(),
        Keys::One(_) | Keys::All => false,
    };
    if !is_empty {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Facets, Projection, Table};

    impl Projection for (u8, u8) {
        fn differences(&self, next: &Self) -> Facets {
            let mut facets = Facets::empty();
            facets.set(Facets::CONTENT, self.0 != next.0);
            facets.set(Facets::STATUS, self.1 != next.1);
            facets
        }
    }

    #[tokio::test]
    async fn nothing_but_the_facets_that_concern_a_controller_wakes_it() {
        let table = Table::<(u8, u8)>::default();
        let (wakes, mut keys) = Wakes::new();
        wakes.on(&table, Facets::CONTENT, its_namespace);
        let mut put = |version: u64, object| {
            table.put_for_test("shop", "a", version, object);
            keys.try_recv().ok()
        };
        let shop = Some(Keys::One("shop".to_owned()));
        assert_eq!(put(1, (0, 0)), shop, "it is new");
        assert_eq!(put(2, (0, 1)), None, "its status");
        assert_eq!(put(3, (1, 1)), shop, "its content");
        assert_eq!(put(4, (1, 1)), None, "nothing");
    }

    #[test]
    fn a_change_that_concerns_no_key_wakes_nothing() {
        let table = Table::<(u8, u8)>::default();
        let (wakes, mut keys) = Wakes::<String>::new();
        wakes.on(&table, Facets::CONTENT, |_| Keys::None);
        wakes.on(&table, Facets::CONTENT, |_| Keys::Many(Vec::new()));
        table.put_for_test("shop", "a", 1, (0, 0));
        assert!(keys.try_recv().is_err());
    }

    #[tokio::test]
    async fn a_value_that_changes_wakes_every_key() {
        let (send, receive) = watch::channel(1);
        let (wakes, mut keys) = Wakes::<String>::new();
        wakes.follow(receive);
        assert!(keys.try_recv().is_err());
        send.send(2).expect("a receiver");
        assert_eq!(keys.recv().await, Some(Keys::All));
    }
}
