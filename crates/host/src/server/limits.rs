//! What clients can make a server use.

use std::thread;
use std::time::Duration;

use crate::bounds::Bounds;

const MIB: usize = 1024 * 1024;

/// What clients can make a server use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Evaluations that compute at a time; one per core of the machine by default.
    pub cores: usize,
    /// Evaluations at a time, those that wait for the API server included; 32 more than cores by default.
    pub evaluations: usize,
    /// Requests that wait for an evaluation; the next one is answered with 503 at once. 128 by default.
    pub queue: usize,
    /// How long an evaluation may take, look-ups included; 1 s by default.
    pub time: Duration,
    /// The memory of an evaluation in bytes; 64 MiB by default.
    pub memory: usize,
    /// The longest `AdmissionReview` in bytes; 3 MiB by default. An update carries two objects, and etcd takes 1.5 MiB
    /// of each.
    pub body: usize,
    /// The longest `ConversionReview` in bytes; 32 MiB by default. A list comes in one review.
    pub conversion_body: usize,
    /// Connections at a time; 1,024 by default. Each API server holds a few.
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
    /// Evaluations beside those of requests: settings that are being checked.
    const SPARE: usize = 2;

    /// The bounds of a module that is evaluated within these limits.
    pub fn bounds(self) -> Bounds {
        let instances = u32::try_from(self.evaluations.saturating_add(Self::SPARE)).unwrap_or(u32::MAX);
        Bounds { time: self.time, memory: self.memory, instances }
    }
}
