//! The inputs of an admission besides the request and the settings.

use std::time::Duration;

use crate::authorizer::Authorizer;
use crate::lookup::Lookup;
use crate::time::Timestamp;

/// The inputs besides the request and the settings.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// The cluster.
    pub lookup: &'a dyn Lookup,
    /// Decides which permissions users have in the cluster.
    pub authorizer: &'a dyn Authorizer,
    /// The current time.
    pub now: Timestamp,
    /// Returns the time spent on this request so far, by a monotonic clock.
    pub elapsed: &'a dyn Fn() -> Duration,
}
