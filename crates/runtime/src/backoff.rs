//! Delays before retries.

use std::time::Duration;

/// A delay that doubles with each consecutive failure.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The delay after the first failure.
    pub first: Duration,
    /// The longest delay.
    pub most: Duration,
}

impl Backoff {
    /// Returns the delay after a failure that `failures` others preceded.
    pub fn after(self, failures: u32) -> Duration {
        self.first.saturating_mul(2_u32.saturating_pow(failures)).min(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Pace;

    #[test]
    fn acc6_each_failure_waits_twice_as_long_up_to_five_minutes() {
        let Pace { first_delay, longest_delay, .. } = Pace::default();
        let backoff = Backoff { first: first_delay, most: longest_delay };
        let seconds: Vec<_> = (0..11).map(|failures| backoff.after(failures).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(backoff.after(u32::MAX), backoff.most);
    }
}
