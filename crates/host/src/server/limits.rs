//! Limits on the resources that clients can use.

use std::thread;
use std::time::Duration;

use crate::bounds::Bounds;

const MIB: usize = 1024 * 1024;

/// Limits on the resources that clients can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Evaluations that compute concurrently; by default one per core of the machine.
    pub cores: usize,
    /// Concurrent evaluations, including those that wait for the API server; by default 32 more than `cores`.
    pub evaluations: usize,
    /// Requests that wait for an evaluation; further ones get a 503 at once. 128 by default.
    pub queue: usize,
    /// Time limit of an evaluation, including look-ups; 1 s by default.
    pub time: Duration,
    /// Memory limit of an evaluation in bytes; 64 MiB by default.
    pub memory: usize,
    /// Maximum size of an `AdmissionReview` in bytes; 3 MiB by default. An update carries two objects, and etcd limits
    /// each to 1.5 MiB.
    pub body: usize,
    /// Maximum size of a `ConversionReview` in bytes; 32 MiB by default. One review carries a whole list.
    pub conversion_body: usize,
    /// Concurrent connections; 1,024 by default. Each API server holds a few.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self {
            cores,
            evaluations: cores + 32,
            queue: 128,
            time: Duration::from_secs(1),
            memory: 64 * MIB,
            body: 3 * MIB,
            conversion_body: 32 * MIB,
            connections: 1_024,
        }
    }
}

impl Limits {
    /// Instances for evaluations without a request: checks of new settings.
    const SPARE: usize = 2;

    /// Returns the maximum size of all bodies in the server together, in bytes: 64 MiB, or twice the longest body if that
    /// is more.
    pub(super) fn bodies(self) -> usize {
        self.body.max(self.conversion_body).saturating_mul(2).max(64 * MIB)
    }

    /// Returns the bounds of a module that is evaluated within these limits.
    pub fn bounds(self) -> Bounds {
        let instances = u32::try_from(self.evaluations.saturating_add(Self::SPARE)).unwrap_or(u32::MAX);
        Bounds { time: self.time, memory: self.memory, instances }
    }
}
