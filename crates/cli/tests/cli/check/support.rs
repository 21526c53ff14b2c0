//! Runs the command, and provides manifests for it.

use std::path::Path;

pub use pillion_samples::folders::folder;
pub use pillion_samples::manifests::{agent, set};

use crate::support::{Run, pillion};

pub fn check(folder: &Path, args: &[&str], stdin: &str) -> Run {
    pillion(folder, &[&["check"], args].concat(), stdin)
}
