//! The inputs of an admission besides the request and the settings.

use std::time::Duration;

use crate::authorizer::Authorizer;
use crate::lookup::Lookup;
use crate::time::Timestamp;

/// What is known besides the request and the settings.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// The cluster.
    pub lookup: &'a dyn Lookup,
    /// Who may do what in it.
    pub authorizer: &'a dyn Authorizer,
    /// The time.
    pub now: Timestamp,
    /// How long this request has been worked on, by a clock that only goes forward.
    pub elapsed: &'a dyn Fn() -> Duration,
}
