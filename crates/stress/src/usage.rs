//! The CPU time and the memory of a process, as Linux reports them in /proc.

use std::time::Duration;

/// The resources of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// CPU time of all its threads so far, in user space and in the kernel.
    pub cpu: Duration,
    /// Resident memory.
    pub memory: Memory,
}

/// Resident memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// At this time.
    pub now: u64,
    /// At most since its start.
    pub peak: u64,
}

impl Usage {
    /// Reads the resources of a process; `None` if there is no such process, or no /proc.
    pub fn read(process: u32) -> Option<Self> {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}")).ok();
        Some(Self { cpu: cpu(&read("stat")?, ticks_per_second())?, memory: memory(&read("status")?)? })
    }
}

/// Returns whether this system reports processes at all.
pub(crate) fn is_reported() -> bool {
    Usage::read(std::process::id()).is_some()
}

/// Returns the unit of CPU time in /proc; 0 where there is no /proc.
#[cfg(target_os = "linux")]
fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

#[cfg(not(target_os = "linux"))]
const fn ticks_per_second() -> u64 {
    0
}

/// Reads `utime` and `stime` from the text of /proc/PID/stat.
fn cpu(stat: &str, ticks_per_second: u64) -> Option<Duration> {
    // The second field is the program's name in parentheses, which may contain spaces and parentheses itself. The
    // fields after it are numbers, except for the state.
    let (_, fields) = stat.rsplit_once(')')?;
    // The state is the third field, `utime` the fourteenth, `stime` the fifteenth.
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let ticks = ticks()? + ticks()?;
    Some(Duration::from_nanos(ticks.checked_mul(1_000_000_000)?.checked_div(ticks_per_second)?))
}

/// Reads `VmRSS` and `VmHWM` from the text of /proc/PID/status.
fn memory(status: &str) -> Option<Memory> {
    let bytes = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        value.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1_024)
    };
    Some(Memory { now: bytes("VmRSS")?, peak: bytes("VmHWM")? })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const FIELDS: &str = "S 1 4711 4711 0 -1 4194560 1200 0 3 0 250 50 7 8 20 0 4 0 1234 5678 910";

    #[rstest]
    #[case::plain("pillion")]
    #[case::with_a_space("tokio runtime")]
    #[case::with_parentheses("a) R 1 (b")]
    #[case::ending_with_one("(sd-pam)")]
    fn the_time_in_user_space_and_in_the_kernel_counts(#[case] name: &str) {
        let stat = format!("4711 ({name}) {FIELDS}\n");
        assert_eq!(cpu(&stat, 100), Some(Duration::from_secs(3)));
        assert_eq!(cpu(&stat, 1_000), Some(Duration::from_millis(300)));
    }

    #[rstest]
    #[case::empty("", 100)]
    #[case::cut_off("4711 (pillion) S 1 4711 4711 0 -1 4194560 1200 0 3 0 250", 100)]
    #[case::no_number("4711 (pillion) S 1 4711 4711 0 -1 4194560 1200 0 3 0 x 50 7", 100)]
    #[case::no_clock("4711 (pillion) S 1 4711 4711 0 -1 4194560 1200 0 3 0 250 50 7", 0)]
    fn what_is_no_stat_has_no_time(#[case] stat: &str, #[case] ticks: u64) {
        assert_eq!(cpu(stat, ticks), None);
    }

    #[test]
    fn memory_is_in_bytes() {
        let status = "Name:\tVmRSS: 7 kB\nVmPeak:\t  9000 kB\nVmHWM:\t    36 kB\nVmRSS:\t    32 kB\nThreads:\t4\n";
        assert_eq!(memory(status), Some(Memory { now: 32_768, peak: 36_864 }));
        assert_eq!(memory("Name:\tkthreadd\n"), None, "a thread of the kernel has no memory");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_uses_time_and_memory() {
        let before = Usage::read(std::process::id()).unwrap();
        let started = std::time::Instant::now();
        // Less than a second, so that one second in another unit fails.
        while started.elapsed() < Duration::from_millis(300) {
            std::hint::black_box(started.elapsed());
        }
        let after = Usage::read(std::process::id()).unwrap();
        let took = after.cpu.checked_sub(before.cpu).unwrap();
        assert!(took > Duration::from_millis(30) && took < Duration::from_mins(1), "{took:?}");
        assert!(after.memory.peak >= after.memory.now && after.memory.now > 1_000_000, "{after:?}");
        assert!(is_reported());
        // Linux has at most 2^22 processes.
        assert_eq!(Usage::read(u32::MAX), None);
    }
}
