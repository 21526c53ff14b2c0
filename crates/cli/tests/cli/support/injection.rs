//! `pillion inject` with files.

use std::fs;
use std::path::Path;

use super::{Run, pillion};

/// Runs `pillion inject` in a folder with these files, with a fixed time of injection.
pub fn run(files: &[(&str, &str)], args: &[&str], stdin: &str) -> Run {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    run_in(folder.path(), args, stdin)
}

/// The same in an existing folder.
pub fn run_in(folder: &Path, args: &[&str], stdin: &str) -> Run {
    pillion(folder, &[&["inject", "--now", "2026-01-02T03:04:05Z"], args].concat(), stdin)
}
