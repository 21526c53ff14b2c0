//! Where something was measured.

use std::fs;
use std::process::Command;
use std::thread;

/// The processor, how many of it, and the system.
pub(super) fn machine() -> String {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("a processor of unknown make", |(_, model)| model.trim());
    let count = thread::available_parallelism().map_or(1, usize::from);
    format!("{count} × {model}, {} {}", std::env::consts::OS, std::env::consts::ARCH)
}

/// The commit that is checked out, with a mark where files differ from it.
pub(super) fn revision() -> String {
    let told = Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=10"]).output();
    let told = told.ok().filter(|output| output.status.success());
    told.map_or_else(|| "unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
