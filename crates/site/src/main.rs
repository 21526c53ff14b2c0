//! Builds the documentation site: `make site`. The only argument is the folder for it, `target/site` without one.

use std::env;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> io::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let destination = env::args_os().nth(1).map(PathBuf::from);
    let mut out = io::stderr().lock();
    match pillion_site::build(&root, destination.as_deref()) {
        Ok(problems) if problems.is_empty() => Ok(ExitCode::SUCCESS),
        Ok(problems) => {
            for problem in problems {
                writeln!(out, "error: {problem}")?;
            }
            Ok(ExitCode::FAILURE)
        }
        Err(error) => {
            writeln!(out, "error: {error:#}")?;
            Ok(ExitCode::FAILURE)
        }
    }
}
