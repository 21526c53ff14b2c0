//! `pillion inject` with files.

use std::path::Path;

use pillion_samples::folders::folder;

use super::{Run, pillion};

/// Runs `pillion inject` in a folder with these files, with a fixed time of injection.
pub fn run(files: &[(&str, &str)], args: &[&str], stdin: &str) -> Run {
    run_in(folder(files).path(), args, stdin)
}

/// The same in an existing folder.
pub fn run_in(folder: &Path, args: &[&str], stdin: &str) -> Run {
    pillion(folder, &[&["inject", "--now", "2026-01-02T03:04:05Z"], args].concat(), stdin)
}
