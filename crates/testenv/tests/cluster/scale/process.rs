//! The resource usage of a process of the cluster, as Linux reports it.

use std::fs;
use std::path::Path;

/// Units of `CPU` time per second: `USER_HZ` is 100 on every Linux.
const TICKS: f64 = 100.0;

/// A process.
#[derive(Clone, Copy, Debug)]
pub struct Process(u32);

/// The resource usage of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Current and peak resident memory, in MiB.
    pub resident: f64,
    pub peak: f64,
    /// The part of the resident memory that is not backed by files.
    pub anonymous: f64,
    /// Processor time so far, in seconds.
    pub cpu: f64,
}

impl Process {
    /// Finds the process of this program that runs in this folder.
    pub fn find(folder: &Path, program: &str) -> Option<Self> {
        // The kernel keeps fifteen bytes of a name.
        let name: String = program.chars().take(15).collect();
        let is_it = |id: &u32| {
            fs::read_link(format!("/proc/{id}/cwd")).is_ok_and(|cwd| cwd == folder)
                && fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|comm| comm.trim() == name)
        };
        let processes = fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        processes.into_iter().find(is_it).map(Self)
    }

    /// Returns the current process.
    pub fn own() -> Self {
        Self(std::process::id())
    }

    /// Returns the current usage.
    pub fn usage(self) -> Usage {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap();
        let mebibytes = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
            let kibibytes: f64 = line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap();
            kibibytes / 1024.0
        };
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).unwrap();
        // The earlier fields may contain spaces. The state is the first field after them, `utime` the twelfth.
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        let ticks = |index: usize| fields[index].parse::<f64>().unwrap();
        Usage {
            resident: mebibytes("VmRSS"),
            peak: mebibytes("VmHWM"),
            anonymous: mebibytes("RssAnon"),
            cpu: (ticks(11) + ticks(12)) / TICKS,
        }
    }
}
