//! Points in time with the precision of certificates: whole seconds. The clock is an argument, so that tests advance it.

use std::ops::{Add, Sub};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the current time; [`system_clock`] outside tests.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Returns the clock of this machine.
pub fn system_clock() -> Clock {
    Arc::new(SystemTime::now)
}

/// Seconds since 1970, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Time(pub(crate) i64);

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        let seconds = |length: Duration| i64::try_from(length.as_secs()).unwrap_or(i64::MAX);
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(seconds(after)),
            Err(before) => Self(-seconds(before.duration())),
        }
    }
}

impl From<Time> for SystemTime {
    fn from(time: Time) -> Self {
        let length = Duration::from_secs(time.0.unsigned_abs());
        let shifted = if time.0 < 0 { UNIX_EPOCH.checked_sub(length) } else { UNIX_EPOCH.checked_add(length) };
        shifted.unwrap_or(UNIX_EPOCH)
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, length: Duration) -> Self {
        Self(self.0.saturating_add_unsigned(length.as_secs()))
    }
}

impl Sub<Duration> for Time {
    type Output = Self;

    fn sub(self, length: Duration) -> Self {
        Self(self.0.saturating_sub_unsigned(length.as_secs()))
    }
}
