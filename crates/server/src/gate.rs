//! Limits the number of admitted requests and of concurrent computations.
//!
//! There are three bounds, from the outside in. Every admitted request takes a *place*. Without a free place the server
//! rejects a request at once, before it reads the body, so that memory is bounded too. Every evaluation takes a *slot*
//! from its beginning to its end: a thread and an instance. An evaluation holds a *core* while it computes; while it
//! waits for the API server, it lends the core to another evaluation.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The bounds and what is left of them.
pub(crate) struct Gate {
    places: Arc<Semaphore>,
    slots: Arc<Semaphore>,
    cores: Arc<Cores>,
    all_places: usize,
    all_slots: usize,
}

/// The place of an admitted request.
pub(crate) struct AdmittedRequest {
    _permit: OwnedSemaphorePermit,
    slots: Arc<Semaphore>,
    cores: Arc<Cores>,
}

/// The slot and the core of an evaluation.
pub(crate) struct Turn {
    // Fields drop in this order, so the core is free before another evaluation can start and want it.
    core: Core,
    _slot: Option<OwnedSemaphorePermit>,
    _place: AdmittedRequest,
}

impl Gate {
    /// Allows `slots` concurrent evaluations, of which `cores` may compute, and `queue` waiting requests.
    pub(crate) fn new(cores: usize, slots: usize, queue: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(slots + queue)),
            slots: Arc::new(Semaphore::new(slots)),
            cores: Arc::new(Cores { free: Semaphore::new(cores), owed: Mutex::new(0) }),
            all_places: slots + queue,
            all_slots: slots,
        }
    }

    /// Admits a request; `None` if there is no free place.
    pub(crate) fn enter(&self) -> Option<AdmittedRequest> {
        let permit = Arc::clone(&self.places).try_acquire_owned().ok()?;
        Some(AdmittedRequest { _permit: permit, slots: Arc::clone(&self.slots), cores: Arc::clone(&self.cores) })
    }

    /// Returns the number of evaluations that have begun.
    pub(crate) fn running(&self) -> usize {
        self.all_slots.saturating_sub(self.slots.available_permits())
    }

    /// Returns the number of admitted requests whose evaluation has not begun.
    pub(crate) fn waiting(&self) -> usize {
        self.all_places.saturating_sub(self.places.available_permits()).saturating_sub(self.running())
    }
}

impl AdmittedRequest {
    /// Waits for a slot and a core.
    pub(crate) async fn turn(self) -> Turn {
        // The semaphore is never closed. If it were, the evaluation would merely go uncounted.
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok();
        Turn { core: Core::take(Arc::clone(&self.cores)).await, _slot: slot, _place: self }
    }
}

impl Turn {
    /// Returns a handle to lend the core of this evaluation.
    pub(crate) fn core(&self) -> CoreHandle {
        CoreHandle(Arc::clone(&self.core.0))
    }
}

/// The free cores. `owed` counts cores taken when none was free.
struct Cores {
    free: Semaphore,
    owed: Mutex<usize>,
}

impl Cores {
    fn give_back(&self) {
        let mut owed = self.owed.lock();
        match owed.checked_sub(1) {
            Some(less) => *owed = less,
            None => self.free.add_permits(1),
        }
    }

    /// Takes a core even if none is free: an evaluation that has begun does not queue behind those that have not.
    fn take_at_once(&self) {
        let mut owed = self.owed.lock();
        if self.free.forget_permits(1) == 0 {
            *owed += 1;
        }
    }
}

struct Core(Arc<Cores>);

impl Core {
    async fn take(cores: Arc<Cores>) -> Self {
        // The semaphore is never closed. If it were, the core would merely go uncounted.
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
pub(crate) struct CoreHandle(Arc<Cores>);

impl CoreHandle {
    /// Lends the core while `wait` runs, which must wait rather than compute.
    pub(crate) fn lend<T>(&self, wait: impl FnOnce() -> T) -> T {
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
        // Both compute on one core now: the next evaluation must wait for both.
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
