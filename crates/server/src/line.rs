//! A line of clients that hold something scarce before they have said what they want, for example a connection without
//! a request. If nothing is left for a new client, the one that has been in the line for the longest time gives way.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// A line of clients. Each holds a `T`.
pub(crate) struct Line<T>(Mutex<Held<T>>);

struct Held<T> {
    next: u64,
    by_age: BTreeMap<u64, (T, oneshot::Sender<()>)>,
}

/// A client in the line. Dropping it leaves the line.
pub(crate) struct Member<T> {
    line: Arc<Line<T>>,
    number: u64,
}

/// Becomes ready when the client must give way: with an error if it has left the line itself.
pub(crate) type Displaced = oneshot::Receiver<()>;

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self(Mutex::new(Held { next: 0, by_age: BTreeMap::new() }))
    }
}

impl<T> Line<T> {
    fn with<R>(&self, act: impl FnOnce(&mut Held<T>) -> R) -> R {
        act(&mut self.0.lock())
    }

    /// Adds a client that holds this.
    pub(crate) fn join(self: &Arc<Self>, thing: T) -> (Member<T>, Displaced) {
        let (displace, displaced) = oneshot::channel();
        let number = self.with(|held| {
            let number = held.next;
            held.next += 1;
            held.by_age.insert(number, (thing, displace));
            number
        });
        (Member { line: Arc::clone(self), number }, displaced)
    }

    /// Makes the oldest client give way, and returns what it held; `None` if the line is empty.
    pub(crate) fn displace_oldest(&self) -> Option<T> {
        let (_, (thing, displace)) = self.with(|held| held.by_age.pop_first())?;
        // An error means that the client is leaving already.
        let _ = displace.send(());
        Some(thing)
    }
}

impl<T> Member<T> {
    /// Changes what the client holds; `None` if it has been displaced.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.line.with(|held| held.by_age.get_mut(&self.number).map(|(thing, _)| change(thing)))
    }

    /// Leaves the line with what the client holds; `None` if it has been displaced. From now on, it cannot be displaced.
    pub(crate) fn leave(&self) -> Option<T> {
        self.line.with(|held| held.by_age.remove(&self.number)).map(|(thing, _)| thing)
    }
}

impl<T> Drop for Member<T> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_gives_way() {
        let line = Arc::new(Line::default());
        let ((first, first_displaced), (second, second_displaced)) = (line.join("first"), line.join("second"));
        assert_eq!(line.displace_oldest(), Some("first"));
        assert_eq!((first_displaced.await, first.leave(), first.change(|_| ())), (Ok(()), None, None));
        assert_eq!(second.leave(), Some("second"));
        assert!(second_displaced.await.is_err(), "nobody displaced it");
        assert_eq!(line.displace_oldest(), None, "who has left cannot be displaced");
    }

    #[test]
    fn who_goes_away_leaves_the_line() {
        let line = Arc::new(Line::default());
        let (first, _displaced) = line.join(1);
        let (second, _displaced) = line.join(2);
        drop(first);
        second.change(|held| *held += 10);
        assert_eq!((line.displace_oldest(), line.displace_oldest()), (Some(12), None));
    }
}
