//! Limits on the resources that clients can use.

use std::thread;
use std::time::Duration;

use pillion_host::Bounds;

const MIB: usize = 1024 * 1024;
/// File descriptors for other purposes than connections of clients: probes, the API server, files.
const OTHER_DESCRIPTORS: usize = 128;

/// Limits on the resources that clients can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Evaluations that compute concurrently; by default one per core of the machine.
    pub cores: usize,
    /// Concurrent evaluations, including those that wait for the API server; by default 32 more than `cores`.
    pub evaluations: usize,
    /// Requests that wait for an evaluation; further ones get a 503 at once. 128 by default.
    pub queue: usize,
    /// Time limit of an evaluation, including look-ups; 5 s by default, as the rendered Kubewarden policies have. The
    /// questions about the author of a SidecarSet alone may take 4 s (ESC-3).
    pub time: Duration,
    /// Memory limit of an evaluation in bytes; 64 MiB by default.
    pub memory: usize,
    /// Maximum size of an `AdmissionReview` in bytes; 3 MiB by default. An update carries two objects, and etcd limits
    /// each to 1.5 MiB.
    pub body: usize,
    /// Maximum size of a `ConversionReview` in bytes; 32 MiB by default. One review carries a whole list.
    pub conversion_body: usize,
    /// Concurrent connections; 1,024 by default, or fewer if the process may not open so many files. Each API server
    /// holds a few.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self {
            cores,
            evaluations: cores + 32,
            queue: 128,
            time: Duration::from_secs(5),
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
    pub(crate) fn bodies(self) -> usize {
        self.body.max(self.conversion_body).saturating_mul(2).max(64 * MIB)
    }

    /// Returns the maximum number of connections for a process with this limit of file descriptors: some of them stay
    /// free for other purposes.
    pub(crate) fn connections_within(self, descriptors: Option<usize>) -> usize {
        let most = descriptors.map(|all| all.saturating_sub(OTHER_DESCRIPTORS).max(all / 2).max(1));
        most.map_or(self.connections, |most| most.min(self.connections))
    }

    /// Returns the bounds of a module that is evaluated within these limits.
    pub fn bounds(self) -> Bounds {
        let idle = self.cores;
        let instances = self.evaluations.saturating_add(idle).saturating_add(Self::SPARE);
        let instances = u32::try_from(instances).unwrap_or(u32::MAX);
        Bounds { time: self.time, memory: self.memory, instances, idle }
    }
}

/// Returns how many file descriptors this process may open; `None` if there is no limit, or no `/proc`.
pub(crate) fn descriptors() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::no_limit(None, 1_024)]
    #[case::enough(Some(20_000), 1_024)]
    #[case::the_usual_soft_limit(Some(1_024), 896)]
    #[case::few(Some(100), 50)]
    #[case::none(Some(0), 1)]
    fn connections_leave_file_descriptors_for_the_rest(#[case] descriptors: Option<usize>, #[case] connections: usize) {
        assert_eq!(Limits::default().connections_within(descriptors), connections);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_limit_of_file_descriptors_is_read() {
        assert!(descriptors().is_none_or(|descriptors| descriptors > 2));
        assert!(std::fs::read_to_string("/proc/self/limits").unwrap().contains("Max open files"));
    }
}
