//! Describes the machine and the revision of a measurement.

use std::fs;
use std::process::Command;
use std::thread;

/// Returns the number and model of the processors, the system and the architecture.
pub fn machine() -> String {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("a processor of unknown make", |(_, model)| model.trim());
    let count = thread::available_parallelism().map_or(1, usize::from);
    format!("{count} × {model}, {} {}", std::env::consts::OS, std::env::consts::ARCH)
}

/// Returns the commit and the machine of a measurement, such as `Commit 0123456789, 2 × AMD EPYC, linux x86_64`.
pub fn conditions() -> String {
    format!("Commit {}, {}", revision(), machine())
}

/// Returns the checked-out commit, with a mark if files differ from it.
pub fn revision() -> String {
    let output = Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=10"]).output();
    let output = output.ok().filter(|output| output.status.success());
    output.map_or_else(|| "unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
