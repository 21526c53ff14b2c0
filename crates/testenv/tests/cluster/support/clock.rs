//! A clock for controllers that runs ahead of the system's.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use pillion_kubernetes::time::Timestamp;
use pillion_runtime::Clock;

/// The number of seconds by which clocks are ahead. Clones share state.
#[derive(Clone, Default)]
pub struct Ahead(Arc<AtomicI64>);

impl Ahead {
    /// Returns an offset of this many seconds, and a clock with it.
    pub fn by(seconds: i64) -> (Self, Clock) {
        let ahead = Self(Arc::new(AtomicI64::new(seconds)));
        let clock = ahead.clock();
        (ahead, clock)
    }

    pub fn get(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    pub fn set(&self, seconds: i64) {
        self.0.store(seconds, Ordering::SeqCst);
    }

    pub fn add(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Returns a clock that is ahead by this offset and follows its changes.
    pub fn clock(&self) -> Clock {
        let (ahead, system) = (self.clone(), Clock::system());
        Clock::new(move || Timestamp(system.now().0 + ahead.get()))
    }
}
