//! Times as Go's `metav1.Time` reads and writes them.

use pillion_kubernetes::time::Timestamp;

/// Go's zero time, which `metav1.Time` writes as `null`.
pub(super) const ZERO: &str = "0001-01-01T00:00:00Z";

/// Returns the time in UTC and whole seconds, as `metav1.Time` writes it. Returns `None` if `text` is not a time that
/// Go reads.
pub(super) fn canonical(text: &str) -> Option<String> {
    Timestamp::parse(text).map(|time| time.to_string())
}
