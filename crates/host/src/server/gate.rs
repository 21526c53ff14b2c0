//! How many requests are let in, and how many of them compute at a time.
//!
//! Three bounds, from the outside in. A *place* is taken by every request that is let in; without one it is turned away
//! at once, before its body is read, so that memory is bounded too. A *slot* is taken by an evaluation from its beginning
//! to its end: a thread and an instance. A *core* is taken by an evaluation while it computes; while it waits for the API
//! server it lends the core to another one.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The bounds.
pub(super) struct Gate {
    places: Arc<Semaphore>,
    slots: Arc<Semaphore>,
    cores: Arc<Cores>,
    all_places: usize,
    all_slots: usize,
}

/// A request that was let in.
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
    slots: Arc<Semaphore>,
    cores: Arc<Cores>,
}

/// An evaluation that may begin.
pub(super) struct Turn {
    // In this order: a core is free before another evaluation may want it.
    core: Core,
    _slot: Option<OwnedSemaphorePermit>,
    _place: Place,
}

impl Gate {
    /// Lets in as many evaluations as `slots` say, of which `cores` compute, and `queue` requests that wait.
    pub(super) fn new(cores: usize, slots: usize, queue: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(slots + queue)),
            slots: Arc::new(Semaphore::new(slots)),
            cores: Arc::new(Cores { free: Semaphore::new(cores), owed: Mutex::new(0) }),
            all_places: slots + queue,
            all_slots: slots,
        }
    }

    /// Lets a request in; `None` where there are too many.
    pub(super) fn enter(&self) -> Option<Place> {
        let permit = Arc::clone(&self.places).try_acquire_owned().ok()?;
        Some(Place { _permit: permit, slots: Arc::clone(&self.slots), cores: Arc::clone(&self.cores) })
    }

    /// The evaluations that have begun.
    pub(super) fn running(&self) -> usize {
        self.all_slots.saturating_sub(self.slots.available_permits())
    }

    /// The requests that were let in and whose evaluation has not begun.
    pub(super) fn waiting(&self) -> usize {
        self.all_places.saturating_sub(self.places.available_permits()).saturating_sub(self.running())
    }
}

impl Place {
    /// Waits until an evaluation may begin.
    pub(super) async fn turn(self) -> Turn {
        // Never closed: an error is impossible, and would only mean that nothing is counted.
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok();
        Turn { core: Core::take(Arc::clone(&self.cores)).await, _slot: slot, _place: self }
    }
}

impl Turn {
    /// The core that this evaluation computes on.
    pub(super) fn core(&self) -> CoreHandle {
        CoreHandle(Arc::clone(&self.core.0))
    }
}

/// Cores that are free, less those that were taken without asking.
struct Cores {
    free: Semaphore,
    owed: Mutex<usize>,
}

impl Cores {
    fn give_back(&self) {
        let mut owed = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
        match owed.checked_sub(1) {
            Some(less) => *owed = less,
            None => self.free.add_permits(1),
        }
    }

    /// Takes a core, a free one or not: who has begun does not queue behind those who have not.
    fn take_at_once(&self) {
        let mut owed = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
        if self.free.forget_permits(1) == 0 {
            *owed += 1;
        }
    }
}

struct Core(Arc<Cores>);

impl Core {
    async fn take(cores: Arc<Cores>) -> Self {
        // Never closed: an error is impossible, and would only mean that nothing is counted.
        if let Ok(permit) = cores.free.acquire().await {
            permit.forget();
        }
        Self(cores)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

/// Lends the core of an evaluation.
#[derive(Clone)]
pub(super) struct CoreHandle(Arc<Cores>);

impl CoreHandle {
    /// Runs what waits and does not compute.
    pub(super) fn lend<T>(&self, wait: impl FnOnce() -> T) -> T {
        struct Borrowed<'a>(&'a Cores);
        impl Drop for Borrowed<'_> {
            fn drop(&mut self) {
                self.0.take_at_once();
            }
        }
        self.0.give_back();
        let _back = Borrowed(&self.0);
        wait()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn who_finds_no_place_is_turned_away_at_once() {
        let gate = Gate::new(1, 1, 1);
        let (first, second) = (gate.enter().unwrap(), gate.enter());
        assert!(second.is_some() && gate.enter().is_none());
        let turn = first.turn().await;
        assert!(gate.enter().is_none(), "an evaluation that runs keeps its place");
        assert_eq!((gate.running(), gate.waiting()), (1, 1));
        drop(turn);
        assert_eq!((gate.running(), gate.waiting()), (0, 1));
        assert!(gate.enter().is_some());
    }

    #[tokio::test]
    async fn an_evaluation_that_waits_lends_its_core() {
        let gate = Gate::new(1, 2, 0);
        let first = gate.enter().unwrap().turn().await;
        let second = gate.enter().unwrap().turn();
        tokio::pin!(second);
        assert!(timeout(SOON, &mut second).await.is_err(), "the core is taken");
        let core = first.core();
        let (back, wait) = std::sync::mpsc::channel::<()>();
        let lending = std::thread::spawn(move || core.lend(|| wait.recv()));
        let second = timeout(Duration::from_secs(5), second).await.unwrap();
        back.send(()).unwrap();
        lending.join().unwrap().unwrap();
        // Both compute on one core now: the next one has to wait for both.
        drop(second);
        let third = gate.enter().unwrap().turn();
        tokio::pin!(third);
        assert!(timeout(SOON, &mut third).await.is_err(), "a core is owed");
        drop(first);
        timeout(Duration::from_secs(5), third).await.unwrap();
    }

    #[tokio::test]
    async fn a_request_that_goes_away_leaves_nothing_behind() {
        let gate = Gate::new(1, 1, 1);
        let running = gate.enter().unwrap().turn().await;
        assert!(timeout(SOON, gate.enter().unwrap().turn()).await.is_err());
        assert_eq!((gate.running(), gate.waiting()), (1, 0));
        drop(running);
        timeout(Duration::from_secs(5), gate.enter().unwrap().turn()).await.unwrap();
    }
}
