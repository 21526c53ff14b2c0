//! The clock of the host.

use std::time::{SystemTime, UNIX_EPOCH};

use pillion_kubernetes::time::Timestamp;

/// Returns the time of the host's clock, which the module uses, too.
pub fn now() -> Timestamp {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Timestamp(i64::try_from(seconds).unwrap_or(i64::MAX))
}
